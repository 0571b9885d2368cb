//! The commands that show calls, through the API server's port-forward and from a Prometheus.

use std::fs;
use std::path::Path;
use std::process::Command;

use leno_install::yaml;
use leno_tests::kubernetes::Cluster;
use leno_tests::mesh::{is_installed, skipped};
use leno_tests::programs::{program, text};
use leno_tests::prometheus::{Prometheus, list};
use leno_tests::proxy::wait_for;
use serde_json::{Value, json};

use super::load::{METHOD, in_client};
use super::user::{PATIENCE, image, leno};

/// A route for all calls to the example's server.
const ROUTE: &str = "---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: all, namespace: shop}
spec:
  parentRefs: [{group: '', kind: Service, name: echo}]
  rules: [{backendRefs: [{name: echo, port: 50051}]}]
";
/// A policy that allows the client to tap the servers.
const TAPS: &str = "---
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: taps, namespace: shop}
spec:
  targetRef: {kind: ServiceAccount, name: default}
  ports: [4190]
  allow: [{identities: [ns/shop/sa/web]}]
";
/// A request for a stream of one minute, with one message each second.
const STREAM: &str = r#"{"messages": 60, "delay_ms": 1000}"#;
const STREAMING: &str = "leno.echo.v1.Echo/ServerStream";
/// The documentation's configuration for Prometheus.
const JOBS: &str = "docs/monitoring/prometheus.yml";

/// Returns the JSON that a command of `leno` prints for the example's namespace.
pub(super) fn json(cluster: &Cluster, words: &[&str]) -> Value {
    let text = leno(cluster, &[words, &["-n", "shop", "-o", "json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns whether one of the rows has these values in these fields.
fn has(rows: &Value, fields: &[(&str, &str)]) -> bool {
    let is_it = |row: &Value| fields.iter().all(|(name, value)| row[name] == *value);
    rows.as_array().is_some_and(|rows| rows.iter().any(is_it))
}

/// Asserts that commands show methods, callers, routes, streams and single calls of the example.
pub(super) fn the_example_can_be_watched(cluster: &Cluster) {
    let methods = json(cluster, &["stat", "methods", "--window", "2s"]);
    let out = [("name", "web"), ("direction", "outbound"), ("at", "echo.shop:50051"), ("method", METHOD)];
    let into = [("name", "echo"), ("direction", "inbound"), ("at", ":50051"), ("method", METHOD)];
    assert!(has(&methods, &out) && has(&methods, &into), "{methods}");
    let edges = json(cluster, &["stat", "edges", "--window", "2s"]);
    assert!(has(&edges, &[("client", "shop/web"), ("name", "echo")]), "{edges}");
    let call = json(cluster, &["tap", "deploy/web", "--method", METHOD, "--calls", "1"]);
    assert_eq!(
        (&call["direction"], &call["tls"], &call["grpc_status"]),
        (&"outbound".into(), &"true".into(), &0.into())
    );
    let refused = Command::new(program("leno"))
        .args(["tap", "deploy/web", "-n", "shop", "--headers"])
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()
        .expect("leno runs");
    assert!(text(&refused).contains("leno.dev/tap-headers: allowed"), "{}", text(&refused));
    a_workload_taps_another_if_a_policy_names_its_identity(cluster);
    a_route_has_its_calls(cluster);
    an_open_stream_is_listed_on_both_sides(cluster);
    the_live_table_shows_the_method_and_ends_at_a_key(cluster);
    a_prometheus_answers_as_the_proxies_do(cluster);
}

fn a_workload_taps_another_if_a_policy_names_its_identity(cluster: &Cluster) {
    let ip = ["-n", "shop", "get", "pods", "-l", "app=echo", "-o", "jsonpath={.items[0].status.podIP}"];
    let at = format!("{}:4190", cluster.kubectl(&ip));
    let tap = in_client(&["/leno", "tap", "--admin", &at, "--calls", "1", "--for", "20s", "-o", "json"]);
    let refused = cluster.try_kubectl(&tap);
    assert!(!refused.status.success() && text(&refused).contains("whose ports name it"), "{}", text(&refused));
    cluster.apply(TAPS);
    wait_for("the client taps a server", PATIENCE, || {
        let output = cluster.try_kubectl(&tap);
        let call: Value = serde_json::from_slice(&output.stdout).ok()?;
        (output.status.success() && call["client_id"].as_str()?.ends_with("/sa/web")).then_some(())
    });
    cluster.kubectl(&["-n", "shop", "delete", "authorizationpolicy", "taps"]);
}

fn a_route_has_its_calls(cluster: &Cluster) {
    cluster.install_gateway_api();
    cluster.apply(ROUTE);
    wait_for("leno stat routes shows the calls of the route", PATIENCE, || {
        let rows = json(cluster, &["stat", "routes", "--window", "2s"]);
        has(&rows, &[("name", "web"), ("service", "echo.shop:50051"), ("route", "GRPCRoute all.shop")]).then_some(())
    });
    cluster.kubectl(&["-n", "shop", "delete", "grpcroute", "all"]);
}

fn an_open_stream_is_listed_on_both_sides(cluster: &Cluster) {
    let image = format!("--image={}", image("leno-tools"));
    let pod = ["-n", "shop", "run", "streams", &image, "--restart=Never", "--command", "--"];
    let call = ["/grpcurl", "-plaintext", "-d", STREAM, "echo:50051", STREAMING];
    cluster.kubectl(&[&pod[..], &call].concat());
    wait_for("leno stat streams lists the stream", PATIENCE, || {
        let streams = json(cluster, &["stat", "streams", "--longer-than", "2s"]);
        let is_listed = |direction| has(&streams["calls"], &[("direction", direction), ("method", STREAMING)]);
        (is_listed("outbound") && is_listed("inbound")).then_some(())
    });
    cluster.kubectl(&["-n", "shop", "delete", "pod", "streams", "--now"]);
}

/// Runs `leno stat top` in a terminal, and types `q` after it has read each proxy twice.
fn the_live_table_shows_the_method_and_ends_at_a_key(cluster: &Cluster) {
    let leno = program("leno");
    let watch = format!("stty rows 40 cols 160; {} stat top -n shop --every 1s", leno.display());
    let output = Command::new("sh")
        .args([
            "-c",
            "(sleep 8; printf q; sleep 5) | timeout 60 script --quiet --return --command \"$0\" /dev/null",
            &watch,
        ])
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("TERM", "xterm")
        .output()
        .expect("sh runs");
    let screen = text(&output);
    assert!(output.status.success() && screen.contains("Echo/Unary"), "{screen}");
}

/// Returns a target for each port of each container, with the labels that the configuration uses. The test needs this
/// function because Debian's Prometheus cannot discover Pods itself.
fn discovered(cluster: &Cluster) -> Vec<Value> {
    let pods = cluster.kubectl(&["get", "pods", "-A", "-o", "json"]);
    let pods: Value = serde_json::from_str(&pods).expect("JSON");
    let mut found = Vec::new();
    for pod in list(&pods["items"]) {
        let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
        let mut labels = json!({
            "__meta_kubernetes_namespace": metadata["namespace"],
            "__meta_kubernetes_pod_name": metadata["name"],
            "__meta_kubernetes_pod_phase": pod["status"]["phase"],
        });
        if let Some(owner) = list(&metadata["ownerReferences"]).find(|owner| owner["controller"] == true) {
            labels["__meta_kubernetes_pod_controller_kind"] = owner["kind"].clone();
            labels["__meta_kubernetes_pod_controller_name"] = owner["name"].clone();
        }
        for (name, value) in metadata["labels"].as_object().into_iter().flatten() {
            let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
            labels[format!("__meta_kubernetes_pod_label_{name}")] = value.clone();
            labels[format!("__meta_kubernetes_pod_labelpresent_{name}")] = "true".into();
        }
        let containers = list(&spec["initContainers"]).chain(list(&spec["containers"]));
        for (container, port) in containers.flat_map(|it| list(&it["ports"]).map(move |port| (it, port))) {
            labels["__meta_kubernetes_pod_container_name"] = container["name"].clone();
            labels["__meta_kubernetes_pod_container_port_name"] = port["name"].clone();
            let address = format!("{}:{}", text_of(pod, "/status/podIP"), port["containerPort"]);
            found.push(json!({"targets": [address], "labels": labels}));
        }
    }
    found
}

fn text_of<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Starts a Prometheus on this machine with the documentation's configuration, so that it scrapes all proxies. The
/// commands of `leno` must show the calls that Prometheus recorded.
fn a_prometheus_answers_as_the_proxies_do(cluster: &Cluster) {
    if !is_installed("prometheus", "prometheus") {
        return;
    }
    if !cluster.is_ours() {
        return skipped("the Pods of LENO_KUBECONFIG's cluster may be out of reach from this machine");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(JOBS);
    let configuration = fs::read_to_string(&path).expect("the documentation has it");
    let mut jobs = yaml::read(&configuration).expect("YAML")["scrape_configs"].take();
    for job in jobs.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        job.remove("kubernetes_sd_configs");
        job.insert("static_configs".to_owned(), discovered(cluster).into());
    }
    let prometheus = Prometheus::start(&jobs);
    let url = format!("http://{}", prometheus.address);
    let asks = |words: &[&str]| json(cluster, &[words, &["--prometheus", &url, "--window", "1m"]].concat());
    wait_for("Prometheus has read the proxies", PATIENCE, || {
        let arguments = ["stat", "deploy", "-n", "shop", "--prometheus", &url, "--window", "1m"];
        let output = Command::new(program("leno")).args(arguments).output().expect("leno runs");
        output.status.success().then_some(())
    });
    // Wait for each row: Prometheus needs two scrapes of a proxy to count growth, and does not scrape all proxies at
    // the same moment.
    let shows = |words: &[&str], is_it: &dyn Fn(&Value) -> bool| {
        let what = format!("leno {} --prometheus shows the calls", words.join(" "));
        wait_for(&what, PATIENCE, || is_it(&asks(words)).then_some(()));
    };
    shows(&["stat", "deploy"], &|rows| {
        let row = rows.as_array().into_iter().flatten().find(|row| row["name"] == "echo");
        row.is_some_and(|row| row["calls_per_second"].as_f64() > Some(0.0))
    });
    let method = [("name", "web"), ("direction", "outbound"), ("method", METHOD)];
    shows(&["stat", "methods", "deploy/web"], &|methods| has(methods, &method));
    shows(&["stat", "edges"], &|edges| has(edges, &[("client", "shop/web"), ("name", "echo")]));
}
