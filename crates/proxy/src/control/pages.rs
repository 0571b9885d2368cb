//! The responses of the admin endpoint.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use leno_admin::Exposition;
use leno_admin::answer::{Answer, json, not_found, set_log_level, text, typed, wrong_method};
use leno_model::settings::parse_duration;
use leno_relay::{ClusterExplanation, OpenCall, OpenCalls, client_id_field};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::shared::{Phase, Shared};
use super::{explain, tap};
use crate::worker::WorkerHandle;

/// Longest wait for the answers of the workers.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// Maximum number of characters of the request's query that an error message repeats.
const QUERY_SHOWN_MAX: usize = 100;

/// The page at /.
const CONTENTS: &str = "\
GET /live        200 while the process runs
GET /ready       200 while calls are taken, 503 before a certificate and policies have come and while draining
GET /metrics     numbers for Prometheus
GET /config      what is loaded, and what is wrong with it
GET /balancer    every endpoint as each worker's balancer sees it
GET /calls       the calls in flight, the oldest first; ?longer_than=1s leaves out younger ones
GET /limits      the limits in force
POST /explain    what would become of the call that the body describes, and why
POST /tap        calls as they end, as lines of JSON; the body selects calls, {} all
GET /log-level   which levels are logged
PUT /log-level   change them: debug, or info,leno_proxy=debug
";

/// Answers one request.
pub(super) async fn answer(request: Request<Incoming>, shared: &Shared) -> Answer {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    match (path.as_str(), method) {
        ("/log-level", Method::PUT) => set_log_level(request, &shared.log).await,
        ("/explain", Method::POST) => explain::answer(request, shared).await,
        ("/tap", Method::POST) => tap::answer(request, shared, None).await,
        ("/explain" | "/tap", _) => wrong_method("POST"),
        ("/calls", Method::GET | Method::HEAD) => show_calls(request.uri().query(), shared).await,
        (path, Method::GET | Method::HEAD) => show(path, Exposition::asked_for(request.headers()), shared).await,
        ("/log-level", _) => wrong_method("GET, HEAD, PUT"),
        ("/" | "/live" | "/ready" | "/metrics" | "/config" | "/balancer" | "/calls" | "/limits", _) => {
            wrong_method("GET, HEAD")
        }
        _ => not_found(),
    }
}

/// Answers one request at the tap port. A policy has allowed the caller, and the proxy has written the caller's
/// identity into the request.
pub(super) async fn answer_tap_port(request: Request<Incoming>, shared: &Shared) -> Answer {
    let method = request.method().clone();
    match (request.uri().path(), method) {
        ("/tap", Method::POST) => {
            let caller =
                request.headers().get(client_id_field()).map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
            tap::answer(request, shared, caller.as_deref()).await
        }
        ("/tap", _) => wrong_method("POST"),
        ("/calls", Method::GET | Method::HEAD) => show_calls(request.uri().query(), shared).await,
        ("/calls", _) => wrong_method("GET, HEAD"),
        _ => text(StatusCode::NOT_FOUND, "this port has only POST /tap and GET /calls\n"),
    }
}

/// Answers one request before the proxy has a certificate, and so before it can serve.
pub(super) fn answer_early(request: &Request<Incoming>) -> Answer {
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/live" if is_reading => text(StatusCode::OK, "live\n"),
        _ => text(StatusCode::SERVICE_UNAVAILABLE, "waiting for the first certificate; the log says for whom\n"),
    }
}

async fn show(path: &str, exposition: Exposition, shared: &Shared) -> Answer {
    match path {
        "/" => text(StatusCode::OK, CONTENTS),
        "/live" => text(StatusCode::OK, "live\n"),
        "/ready" => ready(shared),
        "/metrics" => typed(StatusCode::OK, exposition.content_type(), shared.scrape().into_text(exposition)),
        "/config" => json(&*shared.configuration.borrow()),
        "/balancer" => json(&explain_balancers(shared).await),
        "/limits" => json(&shared.limits.list()),
        "/log-level" => text(StatusCode::OK, shared.log.text() + "\n"),
        _ => not_found(),
    }
}

fn ready(shared: &Shared) -> Answer {
    match shared.phase.get() {
        Phase::Serving if shared.lacks_policies() => {
            text(StatusCode::SERVICE_UNAVAILABLE, "waiting for the control plane: its policies\n")
        }
        Phase::Serving => text(StatusCode::OK, "ready\n"),
        Phase::Draining => {
            text(StatusCode::SERVICE_UNAVAILABLE, "draining: calls in flight finish, new ones go elsewhere\n")
        }
    }
}

#[derive(Serialize)]
struct Balancers {
    /// The clusters of all workers: one entry for each worker and each of its clusters.
    clusters: Vec<ClusterExplanation>,
    /// Numbers of the workers that did not answer in time.
    silent_workers: Vec<usize>,
}

async fn explain_balancers(shared: &Shared) -> Balancers {
    let (answers, silent_workers) = ask(shared, WorkerHandle::explain).await;
    Balancers { clusters: answers.into_iter().flatten().collect(), silent_workers }
}

/// The calls in flight of all workers.
#[derive(Serialize)]
struct Calls {
    calls: Vec<OpenCall>,
    /// Number of calls that are left out of `calls`.
    omitted: usize,
    silent_workers: Vec<usize>,
}

async fn show_calls(query: Option<&str>, shared: &Shared) -> Answer {
    let longer_than = match query.map(|query| (query, query.strip_prefix("longer_than=").and_then(parse_duration))) {
        None => Duration::ZERO,
        Some((_, Some(duration))) => duration,
        Some((query, None)) => {
            let query: String = query.chars().take(QUERY_SHOWN_MAX).collect();
            let why = format!("?{query} is not understood; write a duration, as ?longer_than=500ms\n");
            return text(StatusCode::BAD_REQUEST, why);
        }
    };
    let (answers, silent_workers) = ask(shared, |worker| worker.open_calls(longer_than)).await;
    let mut all = Calls { calls: Vec::new(), omitted: 0, silent_workers };
    for OpenCalls { calls, omitted } in answers {
        all.calls.extend(calls);
        all.omitted += omitted;
    }
    all.calls.sort_by_key(|call| std::cmp::Reverse(call.age_ms));
    json(&all)
}

/// Asks every worker. Returns the answers, and the numbers of the workers that did not answer in time.
pub(super) async fn ask<T>(
    shared: &Shared,
    question: impl Fn(&WorkerHandle) -> oneshot::Receiver<T>,
) -> (Vec<T>, Vec<usize>) {
    let latest = Instant::now() + ANSWER_MAX;
    // Query all workers before waiting for the first answer, so that one slow worker does not use up the time of the
    // other workers.
    let asked: Vec<_> = shared.workers.iter().map(question).collect();
    let (mut answers, mut silent_workers) = (Vec::new(), Vec::new());
    for (index, answer) in asked.into_iter().enumerate() {
        match timeout_at(latest, answer).await {
            Ok(Ok(answer)) => answers.push(answer),
            Ok(Err(_)) | Err(_) => silent_workers.push(index),
        }
    }
    (answers, silent_workers)
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
