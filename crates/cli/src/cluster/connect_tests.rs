use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kube::core::Status;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::cluster::block_on;

/// Runs `client` with a simulated cluster. Its API server answers each request with the status and the JSON that
/// `reply` returns for the request's path.
pub(in crate::cluster) fn with_api_server<T>(
    reply: impl Fn(&str) -> (u16, Value),
    client: impl AsyncFnOnce(Cluster) -> T,
) -> T {
    let run = async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let config = Config::new(url.parse().expect("a URL"));
        let (api, namespace) = (Client::try_from(config).expect("a client"), "default".to_owned());
        let cluster = Cluster { client: api, server: url, namespace };
        tokio::select! {
            result = client(cluster) => result,
            () = accept(&listener, &reply) => panic!("the server does not end"),
        }
    };
    block_on(run).expect("a runtime")
}

async fn accept(listener: &TcpListener, reply: &impl Fn(&str) -> (u16, Value)) {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => connections.push(serve(accepted.expect("a connection").0, reply)),
            Some(()) = connections.next() => {}
        }
    }
}

async fn serve(stream: TcpStream, reply: &impl Fn(&str) -> (u16, Value)) {
    let answer = async |request: Request<Incoming>| {
        let (status, json) = reply(request.uri().path());
        Response::builder().status(status).body(Full::new(Bytes::from(json.to_string())))
    };
    // Ignore an error: the client may close the connection at any time.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

fn refused(code: u16, message: &str) -> kube::Error {
    kube::Error::Api(Status::failure(message, "").with_code(code).boxed())
}

#[test]
fn who_may_not_is_told_what_and_whom_to_ask() {
    let message = "pods is forbidden: User \"jane\" cannot list resource \"pods\"\nin API group \"\"";
    let error = explain("https://k.example:6443/", &refused(403, message)).to_string();
    assert!(error.contains("User \"jane\" cannot list resource \"pods\" in API group"), "{error}");
    assert!(error.ends_with("or choose another --context") && !error.contains('\n'), "{error}");
}

#[test]
fn credentials_that_are_not_taken_are_told_from_rights_that_are_missing() {
    let error = explain("https://k.example:6443/", &refused(401, "Unauthorized"));
    assert!(error.what.contains("does not know who you are") && error.what.contains("k.example"), "{error}");
    assert!(error.fix.contains("log in again"), "{error}");
}

#[test]
fn a_failure_of_the_api_server_is_told_with_its_status() {
    let error = explain("https://k.example:6443/", &refused(503, "etcdserver: request timed out"));
    assert_eq!(error.what, "the API server answered 503: etcdserver: request timed out");
    assert!(error.fix.starts_with("run the command again") && error.fix.contains("/readyz?verbose"), "{error}");
}

#[test]
fn an_api_server_that_is_away_is_named_with_the_first_reason() {
    let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "Connection refused (os error 111)");
    let error = explain("https://k.example:6443/", &kube::Error::Service(Box::new(refused)));
    assert_eq!(
        error.what,
        "the API server at https://k.example:6443/ cannot be reached: Connection refused (os error 111)"
    );
}

#[test]
fn a_kubeconfig_that_does_not_do_is_named_with_the_way_to_mend_it() {
    let missing = io::Error::from(io::ErrorKind::NotFound);
    let error = no_config(&KubeconfigError::ReadConfig(missing, PathBuf::from("/home/jane/.kube/config")));
    assert_eq!(error.what, "the kubeconfig /home/jane/.kube/config cannot be read: entity not found");
    assert_eq!(error.fix, "set KUBECONFIG to the file of a cluster");
    let error = no_config(&KubeconfigError::LoadContext("prod".to_owned())).to_string();
    assert_eq!(error, "the kubeconfig has no context prod; kubectl config get-contexts lists its contexts");
}
