//! The panels of the control plane's dashboard that need a cluster. tests/tests/monitoring.rs checks the other panels,
//! with a control plane that serves a directory.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use leno_install::yaml;
use leno_tests::control::Control;
use leno_tests::kubernetes::Cluster;
use leno_tests::mesh::is_installed;
use leno_tests::prometheus::{Prometheus, expressions, needs_a_cluster};
use serde_json::json;

use super::webhooks::{Installed, PATIENCE, init_containers, pod};

/// Number of the dashboard's queries that have data only if the control plane has a cluster.
const QUERIES: usize = 7;

#[test]
fn in_a_cluster_every_panel_of_the_control_planes_dashboard_has_data() {
    if !is_installed("prometheus", "prometheus") {
        return;
    }
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("observed");
    // The Pod is older than the annotation that asks for a proxy, so the Pod has no proxy although it should have one.
    cluster.apply(&pod("observed", "old", ""));
    cluster.kubectl(&["annotate", "namespace", "observed", "leno.dev/inject=enabled"]);
    let control = Control::start(&cluster);
    let _installed = Installed::new(&cluster, &control);
    cluster.apply(&pod("observed", "new", ""));
    assert_eq!(init_containers(&cluster, "observed", "new"), ["leno-init", "leno-proxy"], "the webhook was called");

    let labels = json!({"namespace": "leno", "pod": "leno-control-1", "container": "leno-control"});
    let target = json!({"targets": [control.admin().to_string()], "labels": labels});
    let prometheus = Prometheus::start(&json!([{"job_name": "leno-control", "static_configs": [target]}]));
    let dashboard = yaml::read(include_str!("../../../charts/leno/files/dashboards/control.json")).expect("JSON");
    let mut wanted: BTreeSet<String> =
        expressions(&dashboard).into_iter().filter(|expression| needs_a_cluster(expression)).collect();
    assert_eq!(wanted.len(), QUERIES, "{wanted:#?}");
    let deadline = Instant::now() + PATIENCE;
    while !wanted.is_empty() {
        wanted.retain(|expression| prometheus.count(expression) == 0);
        assert!(Instant::now() < deadline, "no data for {wanted:#?}");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(prometheus.count(r#"leno_control_unmeshed_pods{exported_namespace="observed"} == 1"#), 1);
    cluster.kubectl(&["delete", "namespace", "observed", "--wait=false"]);
}
