//! The requests that attacks over HTTP/2 send.

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::Connection;
use http::{Method, Request, Uri};
use tokio::io::{AsyncRead, AsyncWrite};

/// The task that drives a connection. Dropping this value ends the task.
pub(super) struct Working(tokio::task::JoinHandle<()>);

impl Working {
    pub(super) fn on<T>(connection: Connection<T, Bytes>) -> Self
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        Self(tokio::spawn(async move { drop(connection.await) }))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The method, URI and header fields of a gRPC call.
pub(super) fn grpc(uri: &str) -> Request<()> {
    let request = Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
    request.body(()).expect("a request")
}

/// The method, authority and header fields of a request for a tunnel.
pub(super) fn tunnel(to: std::net::SocketAddr) -> Request<()> {
    let authority = Uri::builder().authority(to.to_string()).build().expect("an authority");
    Request::builder().method(Method::CONNECT).uri(authority).body(()).expect("a request")
}

/// A gRPC message with its prefix.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(message);
    framed.freeze()
}
