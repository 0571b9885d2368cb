//! Traces of calls, exported to a collector in the cluster.

use leno_tests::kubernetes::Cluster;
use leno_tests::mesh::skipped;
use leno_tests::programs::text;
use leno_tests::proxy::wait_for;
use leno_tests::traces::{Kind, Span, are_installed, chain, read_spans, services};

use super::load::{Load, in_client};
use super::user::{PATIENCE, call, image, leno, rolled_out, state};

/// The collector, and an instrumented server. The collector writes the spans that it receives to its log.
const MANIFEST: &str = r#"---
apiVersion: v1
kind: Namespace
metadata: {name: observability, annotations: {leno.dev/inject: enabled}}
---
apiVersion: v1
kind: Service
metadata: {name: collector, namespace: observability}
spec:
  selector: {app: collector}
  ports: [{port: 4317, appProtocol: kubernetes.io/h2c}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: collector, namespace: observability}
spec:
  selector: {matchLabels: {app: collector}}
  template:
    metadata: {labels: {app: collector}, annotations: {leno.dev/inject: INJECT}}
    spec:
      terminationGracePeriodSeconds: 1
      # Only root may open the pipe of its own output.
      securityContext: {runAsUser: 0}
      containers:
      - name: collector
        image: IMAGE
        command: [/otel-collector]
        args:
        - |-
          --config=yaml:{
            receivers: {otlp: {protocols: {grpc: {endpoint: "0.0.0.0:4317"}}}},
            exporters: {file: {path: /dev/stdout, flush_interval: 50ms}},
            service: {telemetry: {metrics: {level: none}, logs: {level: error}},
              pipelines: {traces: {receivers: [otlp], exporters: [file]}}}}
        ports: [{containerPort: 4317}]
        readinessProbe: {tcpSocket: {port: 4317}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: traced, namespace: shop}
spec:
  selector: {app: traced}
  ports: [{port: 50051, appProtocol: kubernetes.io/h2c}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: traced, namespace: shop}
spec:
  selector: {matchLabels: {app: traced}}
  template:
    metadata: {labels: {app: traced}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: traced
        image: IMAGE
        command: [/traced, serve, "--listen=0.0.0.0:50051", "--collector=collector.observability:4317", --service-name=server]
        ports: [{containerPort: 50051}]
        readinessProbe: {tcpSocket: {port: 50051}, periodSeconds: 1}
"#;
/// The arguments of `leno` that set the chart's values. The trace ratio is 0: a proxy begins traces only if an
/// annotation sets another ratio.
const VALUES: [&str; 5] =
    ["upgrade", "--set", "proxy.traceCollector=collector.observability:4317", "--set", "proxy.traceRatio=0"];
/// A patch of the client's Deployment. With it, the client's proxy begins a trace for every call without a trace.
const ANNOTATED: &str = r#"{"spec":{"template":{"metadata":{"annotations":{"leno.dev/trace-ratio":"1"}}}}}"#;
const COLLECTOR: &str = "collector.observability:4317";

fn manifest(inject: &str) -> String {
    MANIFEST.replace("IMAGE", &image("leno-tools")).replace("INJECT", inject)
}

/// The spans that the collector has received since its start.
fn spans(cluster: &Cluster) -> Vec<Span> {
    let log = cluster.try_kubectl(&["-n", "observability", "logs", "deploy/collector", "-c", "collector"]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    // The last line may be incomplete.
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    read_spans(whole.lines().filter(|line| line.starts_with('{')))
}

/// Waits for a trace that contains a span for which `is_it` is true and that has `count` spans in all. Returns the
/// services and kinds of these spans, from the first to the last.
fn trace(cluster: &Cluster, is_it: impl Fn(&Span) -> bool, count: usize) -> Vec<(String, Kind)> {
    let found = wait_for("a trace at the collector", PATIENCE, || {
        let all = spans(cluster);
        let of = |trace: &str| all.iter().filter(|span| span.trace == trace).cloned().collect::<Vec<Span>>();
        // Ignore incomplete traces: while the collector is away, some spans of a trace may be lost.
        all.iter().filter(|span| is_it(span)).map(|span| of(&span.trace)).find(|spans| spans.len() == count)
    });
    services(&chain(&found))
}

fn named(spans: &[(&str, Kind)]) -> Vec<(String, Kind)> {
    spans.iter().map(|(service, kind)| ((*service).to_owned(), *kind)).collect()
}

/// Enables tracing by the chart's values and by an annotation. Then deletes the collector under load, and deploys it
/// again without a proxy.
pub(super) fn a_call_is_one_trace_at_a_collector_that_may_go_away(cluster: &Cluster) {
    if !cluster.is_ours() {
        return skipped("the image of the tools of LENO_KUBECONFIG's cluster may lack the collector");
    }
    if !are_installed() {
        return;
    }
    cluster.apply(&leno(cluster, &VALUES));
    rolled_out(cluster, "leno", "deploy/leno-control");
    // Wait, because an old replica of the control plane would still inject proxies with the old values.
    wait_for("the old replicas have ended", PATIENCE, || {
        let ending = "jsonpath={.items[*].metadata.deletionTimestamp}";
        cluster.kubectl(&["-n", "leno", "get", "pods", "-o", ending]).is_empty().then_some(())
    });
    cluster.apply(&manifest("enabled"));
    cluster.kubectl(&["-n", "shop", "patch", "deploy/web", "-p", ANNOTATED]);
    cluster.kubectl(&["-n", "shop", "rollout", "restart", "deploy/echo"]);
    for (namespace, deployment) in [
        ("observability", "deploy/collector"),
        ("shop", "deploy/traced"),
        ("shop", "deploy/web"),
        ("shop", "deploy/echo"),
    ] {
        rolled_out(cluster, namespace, deployment);
    }

    let program =
        ["/traced", "call", "--target", "traced.shop:50051", "--collector", COLLECTOR, "--service-name", "client"];
    let called = cluster.try_kubectl(&in_client(&program));
    assert!(called.status.success(), "{}\n{}", text(&called), state(cluster));
    let whole = [
        ("client", Kind::Client),
        ("web", Kind::Internal),
        ("web", Kind::Client),
        ("traced", Kind::Server),
        ("server", Kind::Server),
    ];
    assert_eq!(trace(cluster, |span| span.service == "client", 5), named(&whole));

    // The client has no instrumentation: its proxy begins the trace, because of the annotation.
    wait_for("a call", PATIENCE, || call(cluster));
    let begun = [("web", Kind::Internal), ("web", Kind::Client), ("echo", Kind::Server)];
    let is_begun = |span: &Span| span.service == "echo";
    assert_eq!(trace(cluster, is_begun, 3), named(&begun));

    let load = Load::at_rate(cluster, 30, 50);
    let collector = ["service/collector", "deploy/collector"];
    cluster.kubectl(&[&["-n", "observability", "delete"], &collector[..]].concat());
    cluster.apply(&manifest("disabled"));
    rolled_out(cluster, "observability", "deploy/collector");
    load.end().assert_well(1_000);
    wait_for("a call", PATIENCE, || call(cluster));
    assert_eq!(trace(cluster, is_begun, 3), named(&begun));
    cluster.kubectl(&["-n", "shop", "delete", "deploy/traced", "service/traced"]);
    cluster.kubectl(&["delete", "namespace", "observability", "--timeout=120s"]);
}
