//! The chart's rules and dashboards in a real Prometheus, which reads the metrics of real programs.

mod linkerd;
mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leno_install::yaml;
use leno_tests::admin;
use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, PORT, Service};
use leno_tests::mesh::is_installed;
use leno_tests::programs::run_well;
use leno_tests::prometheus::{Prometheus, RULES, expressions, list, needs_a_cluster, text};
use leno_tests::proxy::{Proxy, free_address, wait_for};
use leno_tests::scrape::Scrape;
use leno_tests::xds::Control;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::faults::sides::{Authority, ServerSide, client_side, echo};

/// Longest time for a program to start or to end, and until Prometheus has read every metric a few times.
const PATIENCE: Duration = Duration::from_secs(60);
const TESTS_OF_RULES: &str = "tests/monitoring/rules_test.yaml";
const DASHBOARDS: [&str; 3] = ["workloads", "methods", "control"];
/// Metrics that Prometheus itself makes.
const OF_PROMETHEUS: [&str; 1] = ["up"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn read_yaml(path: &str) -> Value {
    yaml::read(&read(path)).unwrap_or_else(|fault| panic!("{path}: {fault}"))
}

/// All rules of the chart.
fn rules() -> Vec<Value> {
    list(&read_yaml(RULES)["groups"]).flat_map(|group| list(&group["rules"])).cloned().collect()
}

#[test]
fn promtool_accepts_rules_and_configuration_and_the_tests_of_the_rules_pass() {
    if !is_installed("promtool", "prometheus") {
        return;
    }
    let path = |path: &str| root().join(path).display().to_string();
    run_well("promtool", &["check", "rules", &path(RULES)], PATIENCE);
    check_configuration();
    run_well("promtool", &["test", "rules", &path(TESTS_OF_RULES)], PATIENCE);
}

/// Checks the configuration for Prometheus without the part that discovers Pods: Debian's Prometheus lacks this
/// feature.
fn check_configuration() {
    let mut configuration = read_yaml("docs/monitoring/prometheus.yml");
    let directory = root().join("docs/monitoring");
    let rules = list(&configuration["rule_files"]).map(|file| directory.join(file.as_str().expect("a path")));
    configuration["rule_files"] = rules.map(|path| path.display().to_string()).collect();
    for job in configuration["scrape_configs"].as_array_mut().expect("a list") {
        let roles = job.as_object_mut().expect("a mapping").remove("kubernetes_sd_configs").expect("it finds Pods");
        assert_eq!(roles[0]["role"], "pod");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), configuration.to_string()).expect("the file is ours");
    run_well("promtool", &["check", "config", &file.path().display().to_string()], PATIENCE);
}

#[test]
fn every_rule_has_a_test_and_every_alert_says_what_to_type() {
    let tests = read_yaml(TESTS_OF_RULES);
    let tests = || list(&tests["tests"]);
    let page = read("docs/monitoring.md");
    for rule in rules() {
        let Some(alert) = rule["alert"].as_str() else {
            let record = text(&rule, "record");
            let mut expressions =
                tests().flat_map(|test| list(&test["promql_expr_test"])).map(|test| text(test, "expr"));
            assert!(expressions.any(|expression| expression.starts_with(record)), "{record} has no test");
            continue;
        };
        let expected: Vec<usize> = tests()
            .flat_map(|test| list(&test["alert_rule_test"]))
            .filter(|test| test["alertname"] == alert)
            .map(|test| list(&test["exp_alerts"]).count())
            .collect();
        assert!(expected.contains(&0) && expected.iter().any(|alerts| *alerts > 0), "{alert}: {expected:?}");
        for annotation in ["summary", "description"] {
            assert!(!text(&rule["annotations"], annotation).is_empty(), "{alert}");
        }
        let command = text(&rule["annotations"], "command");
        assert!(command.starts_with("leno ") || command.starts_with("kubectl "), "{alert}: {command}");
        assert!(page.contains(&format!("| `{alert}` |")), "docs/monitoring.md does not describe {alert}");
    }
}

/// Returns the metrics that the queries of a dashboard's variables name: METRIC in `label_values(METRIC, LABEL)`.
fn variables(dashboard: &Value) -> Vec<String> {
    let queries = list(&dashboard["templating"]["list"]).filter_map(|variable| variable["query"]["query"].as_str());
    let metric = |query: &str| {
        let (metric, _) =
            query.strip_prefix("label_values(").and_then(|rest| rest.rsplit_once(',')).expect("label_values");
        metric.to_owned()
    };
    queries.map(metric).collect()
}

/// Returns the names of the metrics in a PromQL expression.
fn metrics(expression: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let closing = match first {
            '"' => Some('"'),
            '{' => Some('}'),
            '[' => Some(']'),
            _ => None,
        };
        if let Some(closing) = closing {
            // This simple parser is sufficient: no label value in our expressions contains a closing bracket or an
            // escaped quote.
            rest = rest[1..].split_once(closing).map_or("", |(_, after)| after);
            continue;
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
        let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        rest = &rest[word.len().max(first.len_utf8())..];
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let next = rest.trim_start();
        let is_called = ["(", "by ", "without "].iter().any(|next_word| next.starts_with(next_word));
        match word {
            "by" | "without" | "on" | "ignoring" => rest = rest.split_once(')').map_or("", |(_, after)| after),
            "and" | "or" | "unless" | "bool" | "offset" => {}
            _ if is_called => {}
            _ => {
                names.insert(word.to_owned());
            }
        }
    }
    names
}

#[test]
fn the_names_of_metrics_are_found_in_expressions() {
    let expression =
        r#"sum by (a, le) (rate(x_total{job="y", a!=""}[5m])) / on (b) (z_bytes > 0) and w:r:5m{} or up == 1"#;
    assert_eq!(Vec::from_iter(metrics(expression)), ["up", "w:r:5m", "x_total", "z_bytes"]);
}

#[test]
fn the_panel_of_mutual_tls_shows_a_workload_with_only_plaintext_calls() {
    if !is_installed("promtool", "prometheus") {
        return;
    }
    let dashboard = read_yaml("charts/leno/files/dashboards/workloads.json");
    let panel = list(&dashboard["panels"]).find(|panel| panel["title"] == "Calls over mutual TLS").expect("the panel");
    let expression = expressions(&json!({"panels": [panel]})).pop_first().expect("an expression");
    let calls = |workload: &str, labels: &str, values: &str| {
        let labels =
            format!(r#"job="leno-proxy", direction="inbound", namespace="shop", workload="{workload}", {labels}"#);
        json!({"series": format!("request_total{{{labels}}}"), "values": values})
    };
    let mutual = r#"tls="true", client_id="spiffe://a/ns/shop/sa/web""#;
    let plaintext = r#"tls="no_identity", no_tls_reason="no_tls_from_remote""#;
    let share = |workload: &str, share: f64| {
        let labels = format!(r#"{{namespace="shop", workload="{workload}"}}"#);
        json!({"labels": labels, "value": share})
    };
    let test = json!({
        "interval": "15s",
        "input_series": [
            calls("plain", plaintext, "0+15x20"),
            calls("both", mutual, "0+45x20"),
            calls("both", plaintext, "0+15x20"),
            calls("both", r#"tls="unknown""#, "0+15x20"),
            calls("idle", plaintext, "5+0x20"),
            calls("probed", r#"tls="no_identity", no_tls_reason="probe""#, "0+15x20"),
        ],
        "promql_expr_test":
            [{"expr": expression, "eval_time": "5m", "exp_samples": [share("plain", 0.0), share("both", 0.75)]}],
    });
    let tests = json!({"rule_files": [], "evaluation_interval": "1m", "tests": [test]});
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), tests.to_string()).expect("the file is ours");
    run_well("promtool", &["test", "rules", &file.path().display().to_string()], PATIENCE);
}

/// Starts a Prometheus that reads the targets once a second. Each target has a job, a workload and an address.
fn reading(targets: &[(&str, &str, SocketAddr)]) -> Prometheus {
    let mut jobs: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (job, workload, at) in targets {
        let mut labels = json!({"namespace": "shop", "pod": format!("{workload}-1"), "container": job});
        if *job == "leno-proxy" {
            labels["workload"] = (*workload).into();
        }
        jobs.entry(*job).or_default().push(json!({"targets": [at.to_string()], "labels": labels}));
    }
    let jobs = jobs.into_iter().map(|(job, targets)| json!({"job_name": job, "static_configs": targets}));
    Prometheus::start(&jobs.collect())
}

/// A meshed server with a meshed client, and a client that uses a control plane.
struct Stage {
    server: ServerSide,
    client: Proxy,
    asking: Proxy,
    control: Control,
    calls: JoinHandle<()>,
    _backend: Backend,
    _authority: Authority,
}

impl Stage {
    async fn start() -> Self {
        let authority = Authority::new();
        let servers = [ServerSide::start(&authority, "echo", Default::default(), &[]).await];
        let echo = echo(&servers).annotated("leno.dev/objective", "test.Test/Fast: success 50 %, p50 10s");
        let client = client_side(&authority, &[echo, Service::new("dead", &[free_address()])], &[]);
        let backend = Backend::start().await;
        let control = Control::start(&[Service::echo(&[backend.address()])]);
        let asking = Proxy::start_asking(control.xds(), &[]);
        let calls = tokio::spawn(call_for_ever(client.outbound(), asking.outbound()));
        let [server] = servers;
        Self { server, client, asking, control, calls, _backend: backend, _authority: authority }
    }

    /// All programs, each with its job and its name.
    fn targets(&self) -> [(&'static str, &'static str, SocketAddr); 4] {
        [
            ("leno-proxy", "echo", self.server.proxy().admin()),
            ("leno-proxy", "web", self.client.admin()),
            ("leno-proxy", "asking", self.asking.admin()),
            ("leno-control", "leno-control", self.control.admin()),
        ]
    }

    /// The current metrics of all programs.
    fn scrapes(&self) -> Vec<Scrape> {
        let page = |at| admin::get(at, "/metrics").expect("the admin listener answers").1;
        self.targets().into_iter().map(|(.., at)| Scrape::parse(&page(at))).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.calls.abort();
    }
}

/// Makes calls of all kinds: calls with and without a deadline, failing calls, and calls to a server that does not
/// exist.
async fn call_for_ever(web: SocketAddr, asking: SocketAddr) {
    let (web, asking) = (Client::connect(web, ECHO).await, Client::connect(asking, ECHO).await);
    let calls = [
        Call::new("Fast").with("grpc-timeout", "10S"),
        Call::new("Fast"),
        Call::new("Failing").with("reply-status", "14"),
        Call::new("Fast").to("dead.default:50051").with("grpc-timeout", "500m"),
    ];
    loop {
        for call in &calls {
            // Ignore the result: some calls must fail, and the proxies count every call.
            let _ = web.try_call(call, b"hello").await;
        }
        let _ = asking.try_call(&Call::new("Fast"), b"hello").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Pairs of a label's name and value.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// Returns a target with the labels that Prometheus finds in a cluster. `labels` are labels of the Pod and its
/// container, without the prefix `__meta_kubernetes_`.
fn found(at: SocketAddr, labels: Labels) -> Value {
    let pod = [("namespace", "shop"), ("pod_labelpresent_leno_dev_injected", "true"), ("pod_phase", "Running")];
    let container = [("pod_container_name", "leno-proxy"), ("pod_container_port_name", "leno-admin")];
    let mut all = BTreeMap::new();
    for (name, value) in pod.iter().chain(&container).chain(labels) {
        all.insert(format!("__meta_kubernetes_{name}"), *value);
    }
    json!({"targets": [at.to_string()], "labels": all})
}

/// Returns a job of our configuration for Prometheus. The job has these targets in place of its discovery of Pods.
fn in_a_cluster(job: &str, targets: Vec<Value>) -> Value {
    let configuration = read_yaml("docs/monitoring/prometheus.yml");
    let mut found = list(&configuration["scrape_configs"]).filter(|found| found["job_name"] == job).cloned();
    let mut found = found.next().expect("the job");
    found.as_object_mut().expect("a mapping").remove("kubernetes_sd_configs");
    found["static_configs"] = targets.into();
    found
}

#[test]
fn pods_are_found_with_their_workloads_and_other_containers_are_left_out() {
    if !is_installed("prometheus", "prometheus") {
        return;
    }
    const NAME: &str = "pod_name";
    const KIND: &str = "pod_controller_kind";
    const CONTROLLER: &str = "pod_controller_name";
    let hash = ("pod_label_pod_template_hash", "7c9f");
    let cases: [(Labels, &str, &str); 9] = [
        (&[(NAME, "a"), (KIND, "ReplicaSet"), (CONTROLLER, "my-web-7c9f"), hash], "my-web", "deployment"),
        (&[(NAME, "b"), (KIND, "ReplicaSet"), (CONTROLLER, "own-set")], "own-set", "replicaset"),
        (&[(NAME, "c"), (KIND, "StatefulSet"), (CONTROLLER, "my-db")], "my-db", "statefulset"),
        (&[(NAME, "d"), (KIND, "Job"), (CONTROLLER, "nightly-29123456")], "nightly", "cronjob"),
        (&[(NAME, "e"), (KIND, "Job"), (CONTROLLER, "import-2")], "import-2", "k8s_job"),
        (&[(NAME, "f"), (KIND, "DaemonSet"), (CONTROLLER, "agent")], "agent", "daemonset"),
        (&[(NAME, "g"), (KIND, "ReplicationController"), (CONTROLLER, "old")], "old", "replicationcontroller"),
        (&[(NAME, "h"), (KIND, "Rollout"), (CONTROLLER, "canary")], "canary", ""),
        (&[(NAME, "i")], "i", ""),
    ];
    let mut targets: Vec<Value> = cases.iter().map(|(labels, ..)| found(free_address(), labels)).collect();
    targets.push(found(free_address(), &[(NAME, "port"), ("pod_container_port_name", "http")]));
    targets.push(found(free_address(), &[(NAME, "ended"), ("pod_phase", "Succeeded")]));
    let control = [("pod_container_port_name", "admin"), ("pod_label_app_kubernetes_io_name", "leno-control")];
    targets.push(found(free_address(), &[&[(NAME, "control")][..], &control].concat()));

    let jobs = ["leno-proxy", "leno-control"].map(|job| in_a_cluster(job, targets.clone()));
    let prometheus = Prometheus::start(&json!(jobs));
    let is_there = |series: &str| wait_for(series, PATIENCE, || (prometheus.count(series) == 1).then_some(()));
    const OF_LINKERD: [&str; 7] =
        ["deployment", "replicaset", "statefulset", "daemonset", "replicationcontroller", "k8s_job", "cronjob"];
    for (labels, workload, kind) in cases {
        let (_, pod) = labels[0];
        // A Pod has only one of Linkerd's controller labels: the label for the kind of its own controller. The other
        // labels are empty.
        let of_linkerd = OF_LINKERD.map(|label| format!(r#"{label}="{}""#, if label == kind { workload } else { "" }));
        is_there(&format!(
            r#"up{{job="leno-proxy", namespace="shop", container="leno-proxy", pod="{pod}", workload="{workload}", {}}}"#,
            of_linkerd.join(", ")
        ));
    }
    is_there(r#"up{job="leno-control", pod="control", workload=""}"#);
    assert_eq!(prometheus.count("up"), 10, "all other targets are left out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_traced_call_is_an_exemplar_of_its_method_s_durations() {
    if !is_installed("prometheus", "prometheus") {
        return;
    }
    let backend = Backend::start().await;
    // No collector listens at this address, because this test checks only exemplars. Other tests check that spans
    // arrive.
    let collector = free_address().to_string();
    let services = [Service::echo(&[backend.address()])];
    let proxy = Proxy::start_with(free_address(), &services, &["--trace-collector", &collector, "--trace-ratio", "0"]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traced = Call::new("Fast").with("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
    client.try_call(&traced, b"hello").await.expect("the server answers");
    client.try_call(&Call::new("Fast"), b"hello").await.expect("the server answers");

    let prometheus = reading(&[("leno-proxy", "web", proxy.admin())]);
    let series = tokio::task::block_in_place(|| {
        wait_for("an exemplar", PATIENCE, || {
            Some(prometheus.exemplars("leno_method_duration_seconds_bucket")).filter(|series| !series.is_empty())
        })
    });
    let [series] = &series[..] else { panic!("one bucket: {series:#?}") };
    let (labels, exemplar) = (&series["seriesLabels"], &series["exemplars"][0]);
    assert_eq!((&labels["grpc_method"], &labels["direction"]), (&json!("Fast"), &json!("outbound")), "{series:#}");
    assert_eq!(exemplar["labels"], json!({"trace_id": trace}), "{series:#}");
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok()).expect("a number");
    assert!(number(&exemplar["value"]) <= number(&labels["le"]), "{series:#}");
    // Without content negotiation, the proxy uses Prometheus' older text format, which cannot contain exemplars.
    assert!(!proxy.get("/metrics").expect("the admin listener answers").1.contains("trace_id"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_expression_of_the_dashboards_and_rules_finds_what_the_programs_export() {
    if !is_installed("prometheus", "prometheus") {
        return;
    }
    let mut stage = Stage::start().await;
    let prometheus = reading(&stage.targets());
    let dashboards = DASHBOARDS.map(|name| read_yaml(&format!("charts/leno/files/dashboards/{name}.json")));
    let rules = rules();
    let records: BTreeSet<&str> = rules.iter().filter_map(|rule| rule["record"].as_str()).collect();

    let mut wanted: BTreeSet<String> = dashboards.iter().flat_map(expressions).collect();
    wanted.extend(dashboards.iter().flat_map(variables).map(|query| query.replace("$namespace", ".*")));
    wanted.extend(records.iter().map(|record| (*record).to_owned()));
    let all: Vec<String> =
        wanted.iter().cloned().chain(rules.iter().map(|rule| text(rule, "expr").to_owned())).collect();
    let (in_a_cluster, mut wanted): (BTreeSet<String>, BTreeSet<String>) =
        wanted.into_iter().partition(|expression| needs_a_cluster(expression));

    tokio::task::block_in_place(|| {
        // Wait longer than usual: Prometheus evaluates the rules of objectives only every 30 s.
        let deadline = std::time::Instant::now() + 2 * PATIENCE;
        while !wanted.is_empty() {
            wanted.retain(|expression| prometheus.count(expression) == 0);
            assert!(std::time::Instant::now() < deadline, "no data for {wanted:#?}");
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    // Prometheus must accept every expression, even an expression that finds no data.
    for expression in &all {
        prometheus.count(expression);
    }
    for expression in &in_a_cluster {
        assert_eq!(prometheus.count(expression), 0, "{expression} has data: it is no exception any more");
    }
    assert_eq!(prometheus.count("up == 1"), 4);
    // A third of the calls to the server fail, so only LenoWorkloadFailing may fire. Wait for it: Prometheus evaluates
    // rules only at intervals.
    let failing = r#"ALERTS{alertname="LenoWorkloadFailing", workload="echo"}"#;
    tokio::task::block_in_place(|| {
        wait_for("the alert of the failing workload", PATIENCE, || (prometheus.count(failing) == 1).then_some(()));
    });
    assert_eq!(prometheus.count(r#"ALERTS{alertname!="LenoWorkloadFailing"}"#), 0, "another alert is pending or fires");

    let scrapes = stage.scrapes();
    for name in all.iter().flat_map(|expression| metrics(expression)) {
        let is_known =
            records.contains(name.as_str()) || OF_PROMETHEUS.contains(&name.as_str()) || needs_a_cluster(&name);
        assert!(is_known || scrapes.iter().any(|scrape| scrape.has(&name)), "no program exports {name}");
    }
    stage.control.kill();
    wait_for("the proxy counts as disconnected", PATIENCE, || {
        let disconnected = prometheus.count("leno_control_plane_connected == 0") == 1;
        (disconnected && prometheus.count(r#"ALERTS{alertname="LenoProxyDisconnected"}"#) == 1).then_some(())
    });
}
