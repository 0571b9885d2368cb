use std::net::SocketAddr;

use tonic::transport::{Channel, Endpoint};

use super::*;
use crate::echo::proto::echo_client::EchoClient;
use crate::echo::proto::{EchoRequest, SetDelayRequest};

/// A client of another gRPC implementation (tonic), connected to a new bare server.
async fn client() -> EchoClient<Channel> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address: SocketAddr = listener.local_addr().expect("a bound listener");
    tokio::spawn(serve(listener, "s1".to_owned()));
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a valid address");
    EchoClient::new(endpoint.connect().await.expect("the server listens"))
}

#[tokio::test]
async fn a_unary_call_is_answered_with_the_name_whatever_its_size() {
    let mut client = client().await;
    for payload_bytes in [0, 50, 1_000_000] {
        let request = EchoRequest { payload: vec![b'x'; payload_bytes], ..EchoRequest::default() };
        let answer = client.unary(request).await.expect("an answer").into_inner();
        assert_eq!(answer, EchoResponse { server: "s1".to_owned(), ..EchoResponse::default() });
    }
}

#[tokio::test]
async fn any_other_method_is_refused_as_grpc_says() {
    let mut client = client().await;
    let status = client.set_delay(SetDelayRequest::default()).await.expect_err("not unary");
    assert_eq!(status.code(), Code::Unimplemented);
    assert_eq!(status.message(), "leno echo --bare answers only leno.echo.v1.Echo/Unary");
}
