use std::net::SocketAddr;

use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};

use super::super::call;
use super::*;
use crate::echo::proto::DESCRIPTORS;
use crate::echo::tests::{start_http1_server, start_server};

fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).expect("a valid address").connect_lazy()
}

fn name(text: &str) -> MethodName {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

async fn refused(address: SocketAddr, method: &str) -> String {
    let error = ask_server(channel(address), &name(method)).await.map(|_| ()).expect_err("an error").to_string();
    assert!(error.starts_with(&format!("--call {method}: ")) && error.lines().count() == 1, "{error}");
    error
}

/// Starts a server that supports only one version of reflection: v1alpha if `alpha` is true, else v1.
async fn start_reflection(alpha: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    let builder = tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);
    let mut server = Server::builder();
    let router = if alpha {
        server.add_service(builder.build_v1alpha().expect("descriptors"))
    } else {
        server.add_service(builder.build_v1().expect("descriptors"))
    };
    tokio::spawn(router.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

#[tokio::test]
async fn the_echo_server_describes_its_methods() {
    let method = name("leno.echo.v1.Echo/Unary");
    let descriptors = ask_server(channel(start_server("s1", 0).await), &method).await.expect("descriptors");
    let call = call(&descriptors, &method, r#"{"payload": "eA=="}"#).expect("a call");
    assert_eq!((&call.path[..], &call.message[..]), ("/leno.echo.v1.Echo/Unary", &[10, 1, b'x'][..]));
}

#[tokio::test]
async fn a_server_with_one_version_of_reflection_is_enough() {
    for alpha in [false, true] {
        let address = start_reflection(alpha).await;
        let descriptors = ask_server(channel(address), &name("leno.echo.v1.Echo/Unary")).await;
        assert!(descriptors.is_ok(), "alpha {alpha}: {descriptors:?}");
    }
}

#[tokio::test]
async fn a_service_that_does_not_exist_is_refused_with_those_that_do() {
    let error = refused(start_server("s1", 0).await, "leno.echo.v2.Echo/Unary").await;
    assert!(error.ends_with("the server has no such service; its services are: leno.echo.v1.Echo"), "{error}");
}

#[tokio::test]
async fn without_reflection_the_fix_is_named() {
    // The test's server has no gRPC service at all, so also no reflection.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    let routes = tonic::service::Routes::default();
    tokio::spawn(Server::builder().add_routes(routes).serve_with_incoming(TcpIncoming::from(listener)));
    let error = refused(address, "a.B/C").await;
    assert!(error.contains("the server has no reflection") && error.contains("--descriptor-set FILE"), "{error}");
}

#[tokio::test]
async fn a_port_without_grpc_is_named_as_such() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("an address");
    for address in [closed, start_http1_server("s1", 0).await] {
        let error = refused(address, "a.B/C").await;
        assert!(error.contains("--descriptor-set FILE"), "{error}");
    }
}
