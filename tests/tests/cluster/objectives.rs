//! Objectives of methods: annotations of a Service and of a TrafficPolicy, and the commands that show calls that miss
//! an objective.

use leno_tests::kubernetes::Cluster;
use leno_tests::programs::text;
use leno_tests::proxy::wait_for;
use serde_json::Value;

use super::load::{Load, METHOD};
use super::user::{PATIENCE, image, leno, state};
use super::wire::service;

const OBJECTIVE: &str = "success 99 %, p99 10s";
const ANNOTATION: &str = "leno.dev/objective";
/// Allowed burn rates. Half of the calls fail, and the objective allows one in a hundred, so the rate is about 50. The
/// range is wide because the window has only about 200 calls.
const BURN: std::ops::Range<f64> = 25.0..75.0;

/// A meshed server that fails half of its calls.
fn flaky() -> String {
    let image = image("leno");
    format!(
        r#"---
apiVersion: v1
kind: Pod
metadata:
  name: flaky
  namespace: shop
  labels: {{app: flaky}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: echo
    image: {image}
    args: [echo, "--listen=0.0.0.0:50051", "--fail-percent=50"]
"#
    )
}

fn policy(objective: &str) -> String {
    format!(
        r#"---
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata:
  name: flaky
  namespace: shop
  annotations: {{{ANNOTATION}: "{objective}"}}
spec:
  targetRefs: [{{group: '', kind: Service, name: flaky}}]
"#
    )
}

/// Waits until `leno explain` shows this line of the objective.
fn explained(cluster: &Cluster, line: &str) {
    let question = ["explain", METHOD, "flaky:50051", "--via", "deploy/web", "-n", "shop"];
    wait_for(line, PATIENCE, || leno(cluster, &question).contains(line).then_some(()));
}

/// Asserts that kubectl's output is a refusal by the API server because of the objective.
fn assert_refused(output: &std::process::Output) {
    let why = text(output);
    assert!(!output.status.success() && why.contains("is not a share of successful calls"), "{why}");
    assert!(why.contains(ANNOTATION) && why.contains("write 1 % to 99.999 %"), "{why}");
}

/// Calls a server that fails half of its calls. `leno stat methods` must show the burn rate, and `leno explain` the
/// objective. The API server must refuse an invalid annotation; the earlier objective stays in force.
pub(super) fn calls_that_miss_an_objective_are_seen(cluster: &Cluster) {
    let annotate = |value: &str| {
        let annotation = format!("{ANNOTATION}={value}");
        cluster.try_kubectl(&["-n", "shop", "annotate", "service/flaky", "--overwrite", &annotation])
    };
    cluster.apply(&[flaky(), service("flaky")].concat());
    let annotated = annotate(OBJECTIVE);
    assert!(annotated.status.success(), "{}", text(&annotated));
    cluster.kubectl(&["-n", "shop", "wait", "--for=condition=Ready", "pod/flaky", "--timeout=120s"]);
    explained(cluster, &format!("objective  {OBJECTIVE}, set by Service shop/flaky"));

    let load = Load::to(cluster, "flaky", 30, 100);
    let stat = |words: &[&str]| {
        let words = [&["stat", "methods", "deploy/web", "-n", "shop", "--to", "flaky", "--window", "2s"], words];
        leno(cluster, &words.concat())
    };
    let row = wait_for("the method has a burn rate", PATIENCE, || {
        let rows: Value = serde_json::from_str(&stat(&["-o", "json"])).expect("JSON");
        let row = rows.as_array()?.iter().find(|row| row["method"] == METHOD)?;
        row["objective"]["success"]["burn_rate"].as_f64().filter(|burn| *burn > 0.0).map(|_| row.clone())
    });
    let objective = &row["objective"];
    assert!(objective["success"]["burn_rate"].as_f64().is_some_and(|burn| BURN.contains(&burn)), "{row}");
    assert_eq!((&objective["success"]["ratio"], &objective["latency_ms"]), (&0.99.into(), &10_000.0.into()), "{row}");
    let table = stat(&[]);
    assert!(table.contains("OBJECTIVE") && table.contains("BURN") && table.contains(OBJECTIVE), "{table}");
    let report = load.end();
    assert!(report.calls > 1_000, "{report:?}\n{}", state(cluster));

    assert_refused(&annotate("success 101 %"));
    assert_refused(&cluster.try_apply(&policy("success 101 %")));
    explained(cluster, &format!("objective  {OBJECTIVE}, set by Service shop/flaky"));

    // Without an annotation of the Service, the policy's annotation is in force.
    cluster.apply(&policy("success 90 %"));
    cluster.kubectl(&["-n", "shop", "annotate", "service/flaky", &format!("{ANNOTATION}-")]);
    explained(cluster, "objective  success 90 %, set by TrafficPolicy shop/flaky");
    cluster.kubectl(&["-n", "shop", "delete", "trafficpolicy/flaky", "pod/flaky", "service/flaky"]);
}
