//! Responses of the admin pages.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::content::Content;
use crate::logging::{LogFilter, LogLevels};

/// Maximum size of a request body, in bytes.
const BODY_MAX_BYTES: usize = 4_096;

/// Maximum time from a request's header to the end of its body.
const BODY_MAX: Duration = Duration::from_secs(5);

/// Maximum length of a path in a response, in characters.
const PATH_SHOWN_MAX: usize = 100;

pub type Answer = Response<Content>;

/// Reads the body of a request.
///
/// # Errors
/// The error response to send if the body is too large, is malformed or did not arrive in time. Its text calls the
/// expected content `what`.
pub async fn body(request: Request<Incoming>, what: &str) -> Result<Bytes, Answer> {
    match timeout(BODY_MAX, Limited::new(request.into_body(), BODY_MAX_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(text(StatusCode::PAYLOAD_TOO_LARGE, format!("send at most {BODY_MAX_BYTES} bytes\n")))
        }
        Ok(Err(error)) => {
            let why = format!("the request's body cannot be read ({error}); send the {what} again\n");
            Err(text(StatusCode::BAD_REQUEST, why))
        }
        Err(_) => {
            let waited_s = BODY_MAX.as_secs();
            let why = format!("no {what} arrived within {waited_s} s; send them in the request's body\n");
            Err(text(StatusCode::REQUEST_TIMEOUT, why))
        }
    }
}

/// Sets the log levels that the request's body contains, and repeats them in the response.
pub async fn set_log_level(request: Request<Incoming>, log: &LogLevels) -> Answer {
    let body = match body(request, "log levels").await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let filter = match String::from_utf8_lossy(&body).parse::<LogFilter>() {
        Ok(filter) => filter,
        Err(error) => return text(StatusCode::BAD_REQUEST, format!("{error}\n")),
    };
    let levels = filter.to_string();
    if let Err(error) = log.set(filter) {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"));
    }
    text(StatusCode::OK, levels + "\n")
}

/// Rejects a request because it comes from another machine, and the page shows or changes private data.
pub fn for_this_machine(path: &str) -> Answer {
    let shown: String = path.chars().take(PATH_SHOWN_MAX).collect();
    let why = "it answers callers on loopback only, since it shows or changes private data";
    text(StatusCode::FORBIDDEN, format!("{shown}: {why}; use leno or kubectl port-forward\n"))
}

/// Rejects a request that bypassed this machine's proxy: only the proxy checks who the caller is.
pub fn for_callers_with_proxy() -> Answer {
    let why =
        "this port answers callers only that the workload's proxy lets in; do not list it among the ports to skip\n";
    text(StatusCode::FORBIDDEN, why)
}

/// Rejects a request whose `Host` is the name of a website: a page of that website may have sent the request from the
/// user's browser (DNS rebinding).
pub fn for_other_host() -> Answer {
    let why = "the request's Host is the name of a site; use an IP address or localhost, for example 127.0.0.1:4191\n";
    text(StatusCode::MISDIRECTED_REQUEST, why)
}

pub fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "there is no such page; GET / lists the pages\n")
}

/// Rejects a method that the page does not support.
pub fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("this page supports {allowed}\n"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

pub fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_string_pretty(value) {
        Ok(json) => typed(StatusCode::OK, "application/json", json + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// Returns an answer that sends each line of JSON when the line arrives. The answer ends when all senders of `lines`
/// are dropped or the client closes the connection.
pub fn stream(lines: mpsc::Receiver<Bytes>) -> Answer {
    let mut answer = Response::new(Content::Stream(lines));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    answer
}

pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", body)
}

pub fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Content::Page(Full::new(body.into())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
