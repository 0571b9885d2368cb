//! The echo server for HTTP/1.1, and for HTTP/2 without gRPC. The server waits for the configured duration of a call.
//! Then it returns the request's content, or as many bytes as a header field of the request asks for. A header field of
//! the answer contains the server's name.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};

use super::work::Work;
use super::{MAX_CONCURRENT_STREAMS, MAX_PAYLOAD_BYTES};
use crate::load::http1::{RESPONSE_BYTES, SERVER};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Answers all requests under the server name `name`, until the returned future is dropped.
pub(super) async fn serve(listener: TcpListener, name: String, work: Arc<Work>) {
    // If the name is not a valid field value, the field is empty.
    let name = HeaderValue::from_str(&name).unwrap_or(HeaderValue::from_static(""));
    loop {
        // Ignore errors: a connection that closed before it was accepted concerns only its client.
        if let Ok((stream, _)) = listener.accept().await {
            let (name, work) = (name.clone(), Arc::clone(&work));
            // Ignore connection errors: they concern only the client, which sees them too.
            tokio::spawn(async move { answer_all(stream, name, work).await });
        }
    }
}

async fn answer_all(stream: TcpStream, name: HeaderValue, work: Arc<Work>) -> Result<(), BoxError> {
    // Ignore a failure: without TCP_NODELAY, answers only arrive later.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(request, name.clone(), Arc::clone(&work)));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(MAX_CONCURRENT_STREAMS);
    builder.serve_connection(TokioIo::new(stream), service).await
}

async fn answer(
    request: Request<Incoming>,
    name: HeaderValue,
    work: Arc<Work>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = respond(request, &work).await.unwrap_or_else(|refused| refused);
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(SERVER, name);
    Ok(response)
}

type StatusAndBody = (StatusCode, Bytes);

async fn respond(request: Request<Incoming>, work: &Work) -> Result<StatusAndBody, StatusAndBody> {
    if work.begin().is_err() {
        return Err((StatusCode::SERVICE_UNAVAILABLE, Bytes::from_static(b"this server fails the request")));
    }
    let bad_request = |why: String| (StatusCode::BAD_REQUEST, Bytes::from(why));
    let size = size_of_answer(request.headers()).map_err(bad_request)?;
    let body = Limited::new(request.into_body(), MAX_PAYLOAD_BYTES as usize).collect().await;
    let body = body.map_err(|error| bad_request(error.to_string()))?.to_bytes();
    work.take(0).await;
    Ok((StatusCode::OK, size.map_or(body, |size| Bytes::from(vec![0; size as usize]))))
}

/// Returns the number of bytes that the request asks for; `None` if the answer repeats the request's content.
fn size_of_answer(fields: &HeaderMap) -> Result<Option<u32>, String> {
    let Some(field) = fields.get(RESPONSE_BYTES) else { return Ok(None) };
    let size = field.to_str().ok().and_then(|text| text.parse().ok()).filter(|&size| size <= MAX_PAYLOAD_BYTES);
    size.map(Some).ok_or_else(|| format!("{RESPONSE_BYTES} is {field:?}; use 0 to {MAX_PAYLOAD_BYTES}"))
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
