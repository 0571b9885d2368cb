use std::sync::Arc;

use tonic::Code;

use super::super::proto::{CountRequest, SetFailureRequest};
use super::super::serve_on;
use super::super::tests::start_server;
use super::super::work::Work;
use super::*;

async fn client(address: SocketAddr) -> EchoClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a valid address");
    EchoClient::new(endpoint.connect().await.expect("the server listens"))
}

/// Starts a server that calls two others. Returns its client and the addresses of the others.
async fn graph() -> (EchoClient<Channel>, [SocketAddr; 2]) {
    let others = [start_server("a", 0).await, start_server("b", 0).await];
    let upstreams = others.map(|address| Upstream { address, authority: address.to_string() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    let upstreams = Upstreams::new(&upstreams, false).expect("valid authorities");
    let work = Arc::new(Work::new(0, 0));
    tokio::spawn(serve_on(listener, "top".to_owned(), work, upstreams, std::future::pending()));
    (client(address).await, others)
}

#[tokio::test]
async fn a_call_reaches_every_further_service_once_and_the_first_server_answers() {
    let (mut top, others) = graph().await;
    for _ in 0..3 {
        let answer = top.unary(EchoRequest { payload: b"x".to_vec(), ..EchoRequest::default() }).await;
        assert_eq!(answer.expect("an answer").into_inner().server, "top");
    }
    for address in others {
        let count = client(address).await.count(CountRequest {}).await.expect("an answer").into_inner();
        assert_eq!(count.calls, 3);
    }
}

#[tokio::test]
async fn the_failure_of_a_further_service_fails_the_call_with_its_status_and_name() {
    let (mut top, [_, failing]) = graph().await;
    let failure = SetFailureRequest { code: Code::ResourceExhausted as u32, percent: 0 };
    client(failing).await.set_failure(failure).await.expect("an answer");
    let status = top.unary(EchoRequest::default()).await.expect_err("it fails");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), format!("{failing}: this server fails every call"));
}

#[test]
fn an_upstream_has_an_address_and_perhaps_another_authority() {
    let parse = |text: &str| text.parse::<Upstream>();
    let address: SocketAddr = "127.0.0.1:80".parse().expect("an address");
    assert_eq!(parse("127.0.0.1:80"), Ok(Upstream { address, authority: "127.0.0.1:80".to_owned() }));
    assert_eq!(parse("127.0.0.1:80/echo.x:1"), Ok(Upstream { address, authority: "echo.x:1".to_owned() }));
    for wrong in ["echo:80", "127.0.0.1:80/", "127.0.0.1:80/a b", ""] {
        let why = parse(wrong).expect_err(wrong);
        assert!(why.contains("; write 127.0.0.1:50061"), "{why}");
    }
}
