//! The pages of the admin endpoint.

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use leno_admin::answer::{Answer, json, not_found, set_log_level, text, typed, wrong_method};
use leno_admin::logging::LogLevels;
use tokio::sync::watch;

use crate::issuer::Signing;
use crate::probes::Readiness;
use crate::publish::Publisher;
use crate::watch::Hearing;
use crate::webhooks::Counts;

/// The page at `/`.
const CONTENTS: &str = "\
GET /live        200 while the process runs
GET /ready       200 while clients are served, 503 until the cluster is known
GET /metrics     numbers for Prometheus
GET /config      what is known of the cluster, and what is wrong with it
GET /clients     every xDS client, what it has, and what it refused and why
GET /log-level   which levels are logged
PUT /log-level   change them: debug, or info,leno_control=debug
";

/// The content type of the metrics page.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The objects from which the pages get their data.
pub(crate) struct Pages {
    pub(crate) publisher: Publisher,
    pub(crate) log: LogLevels,
    /// `None` if the mesh comes from a directory.
    pub(crate) cluster: Option<ClusterPages>,
}

/// The objects for the pages' data that exist only in a cluster.
pub(crate) struct ClusterPages {
    pub(crate) readiness: Readiness,
    /// Empty until this replica has an issuing authority.
    pub(crate) signing: Arc<OnceLock<watch::Receiver<Arc<Signing>>>>,
    /// `None` if no webhooks are served.
    pub(crate) webhooks: Option<Arc<Counts>>,
    pub(crate) hearing: Hearing,
}

impl Pages {
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
        match (request.uri().path(), is_reading) {
            ("/", true) => text(StatusCode::OK, CONTENTS),
            ("/live", true) => text(StatusCode::OK, "live\n"),
            ("/ready", true) => match &self.cluster {
                Some(cluster) => cluster.readiness.answer(),
                None => text(StatusCode::OK, "ready\n"),
            },
            ("/metrics", true) => typed(StatusCode::OK, METRICS_TYPE, self.metrics()),
            ("/config", true) => match &self.cluster {
                Some(cluster) => json(&**cluster.readiness.state.borrow()),
                None => not_found(),
            },
            ("/clients", true) => json(&self.publisher.clients()),
            ("/log-level", true) => text(StatusCode::OK, self.log.text() + "\n"),
            ("/log-level", false) if request.method() == Method::PUT => set_log_level(request, &self.log).await,
            ("/log-level", false) => wrong_method("GET, HEAD, PUT"),
            ("/" | "/live" | "/ready" | "/metrics" | "/config" | "/clients", false) => wrong_method("GET, HEAD"),
            _ => not_found(),
        }
    }

    fn metrics(&self) -> String {
        let mut text = self.publisher.metrics();
        let is_ready = self.cluster.as_ref().is_none_or(|cluster| cluster.readiness.is_ready());
        write_readiness(&mut text, is_ready);
        if let Some(cluster) = &self.cluster {
            cluster.readiness.state.borrow().write_metrics(&mut text);
            cluster.hearing.write_metrics(&mut text);
            if let Some(webhooks) = &cluster.webhooks {
                webhooks.write_metrics(&mut text);
            }
            if let Some(signing) = cluster.signing.get() {
                signing.borrow().write_metrics(&mut text);
            }
        }
        text
    }
}

fn write_readiness(text: &mut String, is_ready: bool) {
    let (name, value) = ("leno_control_ready", u8::from(is_ready));
    let _ = writeln!(text, "# HELP {name} Whether this replica serves clients.\n# TYPE {name} gauge\n{name} {value}");
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
