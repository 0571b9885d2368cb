//! What the admin endpoint answers to each request.

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use leno_admin::answer::{Answer, json, not_found, set_log_level, text, typed, wrong_method};
use leno_admin::logging::LogLevels;

use crate::publish::Publisher;

/// What GET / says.
const CONTENTS: &str = "\
GET /live        200 while the process runs
GET /ready       200 while clients are served
GET /metrics     numbers for Prometheus
GET /clients     every xDS client, what it has, and what it refused and why
GET /log-level   which levels are logged
PUT /log-level   change them: debug, or info,leno_control=debug
";

/// The type of what Prometheus reads.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the pages show.
pub(crate) struct Pages {
    pub(crate) publisher: Publisher,
    pub(crate) log: LogLevels,
}

impl Pages {
    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
        match (request.uri().path(), is_reading) {
            ("/", true) => text(StatusCode::OK, CONTENTS),
            ("/live", true) => text(StatusCode::OK, "live\n"),
            ("/ready", true) => text(StatusCode::OK, "ready\n"),
            ("/metrics", true) => typed(StatusCode::OK, METRICS_TYPE, self.publisher.metrics()),
            ("/clients", true) => json(&self.publisher.clients()),
            ("/log-level", true) => text(StatusCode::OK, self.log.text() + "\n"),
            ("/log-level", false) if request.method() == Method::PUT => set_log_level(request, &self.log).await,
            ("/log-level", false) => wrong_method("GET, HEAD, PUT"),
            ("/" | "/live" | "/ready" | "/metrics" | "/clients", false) => wrong_method("GET, HEAD"),
            _ => not_found(),
        }
    }
}
