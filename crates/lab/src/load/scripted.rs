//! Servers for tests, with scripted behavior.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};

use super::call::framed;
use crate::echo::proto::EchoResponse;

/// Starts a server that lives as long as the test's runtime. Returns its address.
///
/// `behave` gets each call and the call's number on its connection, from 1. When `behave` returns false, the server
/// drops the connection.
pub(super) async fn start(behave: impl Fn(SendResponse<Bytes>, u32) -> bool + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, behave.clone()));
        }
    });
    address
}

async fn serve(stream: TcpStream, behave: impl Fn(SendResponse<Bytes>, u32) -> bool) {
    let Ok(mut connection) = server::handshake(stream).await else { return };
    let mut number = 0;
    while let Some(Ok((_, respond))) = connection.accept().await {
        number += 1;
        if !behave(respond, number) {
            return;
        }
    }
}

/// Creates a header section with this HTTP status, content type and optional gRPC status.
pub(super) fn head(status: u16, content_type: &'static str, grpc_status: Option<u16>) -> Response<()> {
    let head = Response::builder().status(status).header("content-type", content_type);
    let head = grpc_status.into_iter().fold(head, |head, status| head.header("grpc-status", status));
    head.body(()).expect("a head that HTTP allows")
}

/// Answers with OK as the server `s1`. Ignores errors: the client may have disconnected.
pub(super) fn answer(respond: &mut SendResponse<Bytes>) {
    let response = EchoResponse { server: "s1".to_owned(), ..EchoResponse::default() };
    let Ok(mut stream) = respond.send_response(head(200, "application/grpc", None), false) else { return };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(0));
    let _ = stream.send_data(framed(&response.encode_to_vec()), false).and_then(|()| stream.send_trailers(trailers));
}
