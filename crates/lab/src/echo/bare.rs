//! A minimal gRPC backend: it answers every unary call with the same bytes, directly on the `h2` crate. The rate that a
//! load generator reaches with this backend is the load generator's own limit.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tonic::Code;

use super::UNARY_PATH;
use super::proto::EchoResponse;
use crate::load::framed;

/// Limit of concurrent calls on a connection: so high that no call has to wait.
const MAX_CONCURRENT_STREAMS: u32 = 100_000;
const WINDOW_BYTES: u32 = 16 << 20;
/// Maximum number of calls that are answered with one write.
const ANSWERS_AT_A_TIME: usize = 16;

type Connection = server::Connection<TcpStream, Bytes>;

/// The answer to every unary call, encoded once.
#[derive(Debug)]
struct Answer {
    head: Response<()>,
    message: Bytes,
    trailers: HeaderMap,
    /// The answer to calls of any other method.
    unimplemented: Response<()>,
}

impl Answer {
    fn new(name: String) -> Self {
        let mut head = Response::new(());
        head.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let mut unimplemented = head.clone();
        unimplemented.headers_mut().insert("grpc-status", HeaderValue::from(Code::Unimplemented as u16));
        let message = HeaderValue::from_static("leno echo --bare answers only leno.echo.v1.Echo/Unary");
        unimplemented.headers_mut().insert("grpc-message", message);
        let trailers = HeaderMap::from_iter([("grpc-status".parse().expect("a header's name"), HeaderValue::from(0))]);
        let message = framed(&EchoResponse { server: name, ..EchoResponse::default() }.encode_to_vec());
        Self { head, message, trailers, unimplemented }
    }
}

/// Answers all calls with `name`, until the returned future is dropped.
pub(super) async fn serve(listener: TcpListener, name: String) {
    let answer = Arc::new(Answer::new(name));
    loop {
        // Ignore errors: a connection that closed before it was accepted concerns only its client.
        if let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            // Ignore connection errors: they concern only the client, which sees them too.
            tokio::spawn(async move { answer_all(stream, &answer).await });
        }
    }
}

async fn answer_all(stream: TcpStream, answer: &Answer) -> Result<(), h2::Error> {
    // Ignore a failure: without TCP_NODELAY, answers only arrive later.
    let _ = stream.set_nodelay(true);
    let mut connection = server::Builder::new()
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .handshake(stream)
        .await?;
    let mut calls = Vec::new();
    poll_fn(|cx| answer_ready(&mut connection, &mut calls, answer, cx)).await
}

/// Reads several calls, then answers them together: the answers share a write, and the client processes them while the
/// next calls arrive.
fn answer_ready(
    connection: &mut Connection,
    calls: &mut Vec<Call>,
    answer: &Answer,
    cx: &mut Context<'_>,
) -> Poll<Result<(), h2::Error>> {
    loop {
        let mut accepted = 0;
        while accepted < ANSWERS_AT_A_TIME
            && let Poll::Ready(call) = connection.poll_accept(cx)
        {
            let Some(call) = call else { return Poll::Ready(Ok(())) };
            calls.push(Call::new(call?));
            accepted += 1;
        }
        let waiting = calls.len();
        calls.retain_mut(|call| call.poll(answer, cx).is_pending());
        if accepted == 0 && calls.len() == waiting {
            return Poll::Pending;
        }
    }
}

/// A call whose request is incomplete.
struct Call {
    is_unary: bool,
    body: RecvStream,
    respond: SendResponse<Bytes>,
}

impl Call {
    fn new((request, respond): (Request<RecvStream>, SendResponse<Bytes>)) -> Self {
        Self { is_unary: request.uri().path() == UNARY_PATH, body: request.into_body(), respond }
    }

    /// Answers the call once the whole request has arrived. If reading the request fails, the client has cancelled the
    /// call, and this function sends no answer.
    fn poll(&mut self, answer: &Answer, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(chunk) = ready!(self.body.poll_data(cx)) {
            let released = chunk.and_then(|chunk| self.body.flow_control().release_capacity(chunk.len()));
            if released.is_err() {
                return Poll::Ready(());
            }
        }
        if self.answer(answer).is_err() {
            self.respond.send_reset(Reason::INTERNAL_ERROR);
        }
        Poll::Ready(())
    }

    fn answer(&mut self, answer: &Answer) -> Result<(), h2::Error> {
        if !self.is_unary {
            return self.respond.send_response(answer.unimplemented.clone(), true).map(|_| ());
        }
        let mut stream = self.respond.send_response(answer.head.clone(), false)?;
        stream.send_data(answer.message.clone(), false)?;
        stream.send_trailers(answer.trailers.clone())
    }
}

#[cfg(test)]
#[path = "bare_tests.rs"]
mod tests;
