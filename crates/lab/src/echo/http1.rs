//! The echo server for HTTP/1.1: it returns the request's content after the duration of a call, with the server's name
//! in a header field.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::MAX_PAYLOAD_BYTES;
use super::work::Work;
use crate::load::http1::SERVER;

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
    let (status, body) = if work.begin().is_err() {
        (StatusCode::SERVICE_UNAVAILABLE, Bytes::from_static(b"this server fails every request"))
    } else {
        match Limited::new(request.into_body(), MAX_PAYLOAD_BYTES as usize).collect().await {
            Ok(body) => {
                work.take(0).await;
                (StatusCode::OK, body.to_bytes())
            }
            Err(error) => (StatusCode::BAD_REQUEST, error.to_string().into()),
        }
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(SERVER, name.clone());
    Ok(response)
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
