//! A real Prometheus, and the dashboards' expressions that it evaluates.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::admin;
use crate::programs::Server;
use crate::proxy::{free_address, wait_for};

/// Longest time for Prometheus to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Path of the chart's rules in the repository.
pub const RULES: &str = "charts/leno/files/rules.yaml";

/// Metrics that only a control plane with a cluster exports.
const OF_A_CLUSTER: [&str; 8] = [
    "leno_control_issuer",
    "leno_control_objects",
    "leno_control_listed",
    "leno_control_problems",
    "leno_control_translation",
    "leno_control_unmeshed_pods",
    "leno_control_watch_silence_seconds",
    "leno_control_webhook_requests",
];

/// A running Prometheus. Dropping this value kills it.
#[derive(Debug)]
pub struct Prometheus {
    _server: Server,
    _directory: tempfile::TempDir,
    /// The address of Prometheus' API.
    pub address: SocketAddr,
}

impl Prometheus {
    /// Starts a Prometheus with these `scrape_configs` and with the chart's rules.
    ///
    /// # Panics
    /// If it does not become ready.
    pub fn start(jobs: &Value) -> Self {
        let (directory, address) = (tempfile::tempdir().expect("a directory"), free_address());
        let path = |name: &str| directory.path().join(name).display().to_string();
        let rules =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(RULES).canonicalize().expect("the chart has it");
        let configuration = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules.display().to_string()],
            "scrape_configs": jobs,
        });
        fs::write(path("prometheus.yml"), configuration.to_string()).expect("the directory is ours");
        let options = [
            format!("--config.file={}", path("prometheus.yml")),
            format!("--storage.tsdb.path={}", path("data")),
            format!("--web.listen-address={address}"),
            "--enable-feature=exemplar-storage".to_owned(),
        ];
        let server = Server::start("prometheus", &options.each_ref().map(String::as_str));
        wait_for("Prometheus is ready", PATIENCE, || {
            admin::get(address, "/-/ready").is_ok_and(|(status, _)| status == 200).then_some(())
        });
        Self { _server: server, _directory: directory, address }
    }

    /// Returns the number of series in the result of an expression. Does not count series whose value is NaN.
    ///
    /// # Panics
    /// If Prometheus does not accept the expression.
    pub fn count(&self, expression: &str) -> u64 {
        let answer = self.ask("query", &format!("count(({expression}) > -Inf)"), "");
        let count = answer["result"][0]["value"][1].as_str();
        count.map_or(0, |count| count.parse().expect("a number"))
    }

    /// Returns the exemplars of each series that an expression selects.
    ///
    /// # Panics
    /// If Prometheus does not accept the expression.
    pub fn exemplars(&self, expression: &str) -> Vec<Value> {
        list(&self.ask("query_exemplars", expression, "&start=0&end=9999999999")).cloned().collect()
    }

    /// Sends an expression to a page of Prometheus' API.
    fn ask(&self, page: &str, expression: &str, more: &str) -> Value {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (status, answer) =
            admin::get(self.address, &format!("/api/v1/{page}?query={encoded}{more}")).expect("Prometheus answers");
        assert_eq!(status, 200, "{expression}: {answer}");
        let mut answer: Value = serde_json::from_str(&answer).expect("JSON");
        answer["data"].take()
    }
}

/// The items of a list; no items if the value is no list.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The text in a field.
///
/// # Panics
/// If there is no text.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// The PromQL expressions of a dashboard, with values in place of Grafana's variables.
///
/// # Panics
/// If a variable has no value here.
pub fn expressions(dashboard: &Value) -> BTreeSet<String> {
    let targets =
        list(&dashboard["panels"]).flat_map(|panel| list(&panel["targets"])).map(|target| text(target, "expr"));
    let filled = targets.flat_map(|expression| {
        ["inbound", "outbound"].map(|direction| {
            expression
                .replace("$__rate_interval", "1m")
                .replace("$namespace", ".*")
                .replace("$workload", ".*")
                .replace("$direction", direction)
        })
    });
    let filled: BTreeSet<String> = filled.collect();
    assert!(filled.iter().all(|expression| !expression.contains('$')), "a variable has no value: {filled:#?}");
    filled
}

/// Whether an expression names a metric that only a control plane with a cluster exports.
pub fn needs_a_cluster(expression: &str) -> bool {
    OF_A_CLUSTER.iter().any(|name| expression.contains(name))
}
