//! What pages are answered with.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;

use crate::logging::{LogFilter, LogLevels};

/// Largest request body, in bytes.
const BODY_MAX_BYTES: usize = 4_096;

/// What a page answers.
pub type Answer = Response<Full<Bytes>>;

/// Puts the levels in the request's body in force, and answers with them.
pub async fn set_log_level(request: Request<Incoming>, log: &LogLevels) -> Answer {
    let Ok(body) = Limited::new(request.into_body(), BODY_MAX_BYTES).collect().await else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, format!("send at most {BODY_MAX_BYTES} bytes\n"));
    };
    let body = body.to_bytes();
    let filter = match String::from_utf8_lossy(&body).parse::<LogFilter>() {
        Ok(filter) => filter,
        Err(error) => return text(StatusCode::BAD_REQUEST, format!("{error}\n")),
    };
    let levels = filter.to_string();
    if let Err(error) = log.set(filter) {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"));
    }
    tracing::info!(levels, "log levels changed");
    text(StatusCode::OK, levels + "\n")
}

/// There is no such page.
pub fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "there is no such page; GET / lists what there is\n")
}

/// The page takes other methods.
pub fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("this page takes {allowed}\n"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// A value as JSON.
pub fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_string_pretty(value) {
        Ok(json) => typed(StatusCode::OK, "application/json", json + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// Plain text.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", body)
}

/// Content of a type.
pub fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
