//! The echo server for HTTP/1.1: it returns the request's content, or as many bytes as a header field requests, after
//! the duration of a call. The server's name is in a header field of the answer.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::MAX_PAYLOAD_BYTES;
use super::work::Work;
use crate::load::http1::{RESPONSE_BYTES, SERVER};

/// Answers as the server `name`, while the future is polled.
pub(super) async fn serve(listener: TcpListener, name: String, work: Arc<Work>) {
    // Omit a name that is not a valid field value.
    let name = HeaderValue::from_str(&name).unwrap_or(HeaderValue::from_static(""));
    loop {
        // A connection that closed before it was accepted concerns only its client.
        if let Ok((stream, _)) = listener.accept().await {
            let (name, work) = (name.clone(), Arc::clone(&work));
            // Connection errors concern only the client, which sees them too.
            tokio::spawn(async move { answer_all(stream, name, work).await });
        }
    }
}

async fn answer_all(stream: TcpStream, name: HeaderValue, work: Arc<Work>) -> Result<(), hyper::Error> {
    // If this fails, answers only take longer.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(request, &name, &work));
    Builder::new().serve_connection(TokioIo::new(stream), service).await
}

async fn answer(
    request: Request<Incoming>,
    name: &HeaderValue,
    work: &Work,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = respond(request, work).await.unwrap_or_else(|refused| refused);
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(SERVER, name.clone());
    Ok(response)
}

type StatusAndBody = (StatusCode, Bytes);

async fn respond(request: Request<Incoming>, work: &Work) -> Result<StatusAndBody, StatusAndBody> {
    if work.begin().is_err() {
        return Err((StatusCode::SERVICE_UNAVAILABLE, Bytes::from_static(b"this server fails every request")));
    }
    let bad_request = |why: String| (StatusCode::BAD_REQUEST, Bytes::from(why));
    let size = size_of_answer(request.headers()).map_err(bad_request)?;
    let body = Limited::new(request.into_body(), MAX_PAYLOAD_BYTES as usize).collect().await;
    let body = body.map_err(|error| bad_request(error.to_string()))?.to_bytes();
    work.take(0).await;
    Ok((StatusCode::OK, size.map_or(body, |size| Bytes::from(vec![0; size as usize]))))
}

/// The requested number of bytes; `None` if the content of the request is the answer.
fn size_of_answer(fields: &HeaderMap) -> Result<Option<u32>, String> {
    let Some(field) = fields.get(RESPONSE_BYTES) else { return Ok(None) };
    let size = field.to_str().ok().and_then(|text| text.parse().ok()).filter(|&size| size <= MAX_PAYLOAD_BYTES);
    size.map(Some).ok_or_else(|| format!("{RESPONSE_BYTES} is {field:?}; use 0 to {MAX_PAYLOAD_BYTES}"))
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
