//! The control plane's own Pods are in the mesh.

use leno_tests::kubernetes::Cluster;
use leno_tests::proxy::wait_for;
use serde_json::Value;

use super::user::{PATIENCE, leno, state};

const IDENTITY: &str = "spiffe://cluster.local/ns/leno/sa/leno-control";

/// Returns the JSON that a command of `leno` prints for the control plane's namespace.
fn told(cluster: &Cluster, command: &[&str]) -> Vec<Value> {
    let text = leno(cluster, &[command, &["-n", "leno", "-o", "json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Asserts that each Pod of the control plane has a ready proxy with the control plane's identity.
pub(super) fn the_control_plane_has_a_proxy(cluster: &Cluster) {
    let names = cluster.kubectl(&["-n", "leno", "get", "pods", "-l", "leno.dev/injected=true", "-o", "name"]);
    let pods: Vec<&str> = names.lines().map(|name| name.trim_start_matches("pod/")).collect();
    assert!(!pods.is_empty(), "{}", state(cluster));
    for pod in &pods {
        let path = format!("/api/v1/namespaces/leno/pods/{pod}:4191/proxy/ready");
        wait_for("the control plane's proxy is ready", PATIENCE, || {
            cluster.try_kubectl(&["get", "--raw", &path]).status.success().then_some(())
        });
    }
    let shown = told(cluster, &["identity"]);
    assert_eq!(shown.len(), pods.len(), "{shown:?}");
    for proxy in shown {
        assert!(proxy["identity"] == IDENTITY && proxy["problem"].is_null(), "{proxy:#}");
    }
    let [row] = &told(cluster, &["stat", "deploy", "--window", "1s"])[..] else { panic!("there is one Deployment") };
    assert!(row["name"] == "leno-control" && row["meshed_pods"] == pods.len(), "{row:#}");
    leno(cluster, &["check", "--proxy", "--wait", "60s"]);
}
