//! A meshed namespace never runs a Pod without a proxy, even if no control plane runs that could inject the proxy.

use leno_tests::kubernetes::Cluster;
use leno_tests::programs::text;
use leno_tests::proxy::wait_for;
use serde_json::Value;

use super::load::Load;
use super::user::{PATIENCE, call, image, install_mesh, leno, rolled_out, state};

/// Returns the Pods of a namespace: the name of each Pod, and whether the Pod has a proxy.
fn pods(cluster: &Cluster, namespace: &str) -> Vec<(String, bool)> {
    let listed = cluster.kubectl(&["-n", namespace, "get", "pods", "-o", "json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let has_proxy = |pod: &Value| {
        let containers = pod["spec"]["initContainers"].as_array().cloned().unwrap_or_default();
        containers.iter().any(|container| container["name"] == "leno-proxy")
    };
    let all = listed["items"].as_array().expect("Pods").iter();
    all.map(|pod| (pod["metadata"]["name"].as_str().expect("a name").to_owned(), has_proxy(pod))).collect()
}

fn all_are_meshed(cluster: &Cluster, namespace: &str) {
    let pods = pods(cluster, namespace);
    assert!(!pods.is_empty() && pods.iter().all(|(_, has_proxy)| *has_proxy), "{pods:?}\n{}", state(cluster));
}

fn scale_control_plane(cluster: &Cluster, replicas: &str) {
    cluster.kubectl(&["-n", "leno", "scale", "deploy/leno-control", "--replicas", replicas]);
}

/// Creates a Pod called `app`.
fn run_app(cluster: &Cluster, namespace: &str) -> std::process::Output {
    let image = image("leno");
    let pod = ["-n", namespace, "run", "app", "--image", &image, "--image-pull-policy=IfNotPresent"];
    cluster.try_kubectl(&[&pod[..], &["--", "echo"]].concat())
}

/// Stops the control plane, rolls a Deployment, and starts the control plane again.
pub(super) fn no_pod_starts_without_a_proxy_while_the_control_plane_is_away(cluster: &Cluster) {
    scale_control_plane(cluster, "0");
    wait_for("the control plane is gone", PATIENCE, || pods(cluster, "leno").is_empty().then_some(()));

    let load = Load::start(cluster, 30);
    cluster.kubectl(&["-n", "shop", "rollout", "restart", "deploy/echo"]);
    wait_for("the refusal is an Event", PATIENCE, || {
        let events = cluster.kubectl(&["-n", "shop", "get", "events", "--field-selector=reason=FailedCreate"]);
        events.contains("leno-guard").then_some(())
    });
    all_are_meshed(cluster, "shop");
    // A namespace that is not meshed needs no control plane.
    cluster.namespace("plain");
    let made = run_app(cluster, "plain");
    assert!(made.status.success(), "{}", text(&made));
    let told = cluster_check(cluster);
    assert!(told.contains("ValidatingAdmissionPolicy leno-guard refuses Pods of meshed namespaces (shop)"), "{told}");

    scale_control_plane(cluster, "2");
    rolled_out(cluster, "leno", "deploy/leno-control");
    // No action is necessary: the ReplicaSet's controller tries again to create the refused Pods. Its pauses grow, but
    // a pause is at most as long as the time since the first refusal.
    rolled_out(cluster, "shop", "deploy/echo");
    all_are_meshed(cluster, "shop");
    load.end().assert_well(3_000);
    leno(cluster, &["check", "--proxy", "--wait", "60s"]);
    cluster.kubectl(&["delete", "namespace", "plain", "--timeout=120s"]);
}

/// Deletes the control plane's namespace. Then meshed namespaces refuse new Pods, other namespaces accept them, and
/// calls go on. A new installation restores everything.
pub(super) fn without_the_control_planes_namespace_only_meshed_namespaces_refuse_pods(cluster: &Cluster) {
    let load = Load::start(cluster, 20);
    cluster.kubectl(&["delete", "namespace", "leno", "--timeout=120s"]);
    let refused = run_app(cluster, "shop");
    assert!(!refused.status.success() && text(&refused).contains("leno-guard"), "{}", text(&refused));
    cluster.namespace("plain");
    let made = run_app(cluster, "plain");
    assert!(made.status.success(), "{}", text(&made));
    cluster.kubectl(&["-n", "plain", "wait", "--for=condition=Ready", "pod/app", "--timeout=120s"]);
    let told = cluster_check(cluster);
    let guard = "ValidatingAdmissionPolicy leno-guard refuses Pods of meshed namespaces (shop)";
    assert!(told.contains("there is no namespace leno") && told.contains(guard), "{told}");
    assert!(!told.contains("delete pod"), "another Pod could not start: {told}");
    load.end().assert_well(2_000);

    install_mesh(cluster);
    for deployment in ["deploy/echo", "deploy/web"] {
        cluster.kubectl(&["-n", "shop", "rollout", "restart", deployment]);
        rolled_out(cluster, "shop", deployment);
    }
    all_are_meshed(cluster, "shop");
    wait_for("a call", PATIENCE, || call(cluster));
    cluster.kubectl(&["delete", "namespace", "plain", "--timeout=120s"]);
}

/// Returns the output of `leno check`, even if a check fails.
fn cluster_check(cluster: &Cluster) -> String {
    let mut command = std::process::Command::new(leno_tests::programs::program("leno"));
    command.args(["check", "--proxy"]).env("KUBECONFIG", cluster.kubeconfig()).stdin(std::process::Stdio::null());
    text(&command.output().expect("leno runs"))
}
