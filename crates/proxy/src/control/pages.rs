//! What the admin endpoint answers to each request.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::logging::LogFilter;
use super::shared::{Phase, Shared};
use crate::metrics;
use crate::worker::{ClusterExplanation, WorkerHandle};

/// Largest request body, in bytes.
const BODY_MAX_BYTES: usize = 4_096;

/// How long workers have to tell what their balancers see.
const EXPLAIN_MAX: Duration = Duration::from_millis(500);

/// What GET / says.
const CONTENTS: &str = "\
GET /live        200 while the process runs
GET /ready       200 while calls are taken, 503 while draining
GET /metrics     numbers for Prometheus
GET /config      what is loaded, and what is wrong with it
GET /balancer    every endpoint as each worker's balancer sees it
GET /limits      the limits in force
GET /log-level   which levels are logged
PUT /log-level   change them: debug, or info,leno_proxy=debug
";

type Answer = Response<Full<Bytes>>;

/// Answers one request.
pub(super) async fn answer(request: Request<Incoming>, shared: &Shared) -> Answer {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    match (path.as_str(), method) {
        ("/log-level", Method::PUT) => set_log_level(request, shared).await,
        (path, Method::GET | Method::HEAD) => show(path, shared).await,
        ("/log-level", _) => wrong_method("GET, HEAD, PUT"),
        ("/" | "/live" | "/ready" | "/metrics" | "/config" | "/balancer" | "/limits", _) => wrong_method("GET, HEAD"),
        _ => not_found(),
    }
}

async fn show(path: &str, shared: &Shared) -> Answer {
    match path {
        "/" => text(StatusCode::OK, CONTENTS),
        "/live" => text(StatusCode::OK, "live\n"),
        "/ready" => ready(shared.phase.get()),
        "/metrics" => typed(StatusCode::OK, metrics::CONTENT_TYPE, shared.scrape().into_text()),
        "/config" => json(&*shared.configuration.borrow()),
        "/balancer" => json(&explain_balancers(shared).await),
        "/limits" => json(&shared.limits.list()),
        "/log-level" => text(StatusCode::OK, shared.log.text() + "\n"),
        _ => not_found(),
    }
}

fn ready(phase: Phase) -> Answer {
    match phase {
        Phase::Serving => text(StatusCode::OK, "ready\n"),
        Phase::Draining => {
            text(StatusCode::SERVICE_UNAVAILABLE, "draining: calls in flight finish, new ones go elsewhere\n")
        }
    }
}

#[derive(Serialize)]
struct Balancers {
    /// Each cluster once per worker.
    clusters: Vec<ClusterExplanation>,
    /// Numbers of the workers that did not answer in time.
    silent_workers: Vec<usize>,
}

async fn explain_balancers(shared: &Shared) -> Balancers {
    let latest = Instant::now() + EXPLAIN_MAX;
    // All are asked before the first is awaited, so that one slow worker does not use up the others' time.
    let asked: Vec<_> = shared.workers.iter().map(WorkerHandle::explain).collect();
    let mut balancers = Balancers { clusters: Vec::new(), silent_workers: Vec::new() };
    for (index, explanation) in asked.into_iter().enumerate() {
        match timeout_at(latest, explanation).await {
            Ok(Ok(clusters)) => balancers.clusters.extend(clusters),
            Ok(Err(_)) | Err(_) => balancers.silent_workers.push(index),
        }
    }
    balancers
}

async fn set_log_level(request: Request<Incoming>, shared: &Shared) -> Answer {
    let Ok(body) = Limited::new(request.into_body(), BODY_MAX_BYTES).collect().await else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, format!("send at most {BODY_MAX_BYTES} bytes\n"));
    };
    let body = body.to_bytes();
    let filter = match String::from_utf8_lossy(&body).parse::<LogFilter>() {
        Ok(filter) => filter,
        Err(error) => return text(StatusCode::BAD_REQUEST, format!("{error}\n")),
    };
    let levels = filter.to_string();
    if let Err(error) = shared.log.set(filter) {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"));
    }
    tracing::info!(levels, "log levels changed");
    text(StatusCode::OK, levels + "\n")
}

fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "there is no such page; GET / lists what there is\n")
}

fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("this page takes {allowed}\n"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_string_pretty(value) {
        Ok(json) => typed(StatusCode::OK, "application/json", json + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", body)
}

fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
