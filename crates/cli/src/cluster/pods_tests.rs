use serde_json::{Value, json};

use super::*;

fn pod(value: Value) -> Pod {
    serde_json::from_value(value).expect("a Pod")
}

fn with_status(status: &Value) -> Pod {
    pod(json!({"metadata": {"name": "web-1"}, "spec": {"nodeName": "n", "containers": []}, "status": status}))
}

#[test]
fn the_deployment_of_a_pod_is_found_by_its_replica_sets_name() {
    let pod = pod(json!({"metadata": {
        "name": "web-5f6d-x", "labels": {"pod-template-hash": "5f6d"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5f6d", "uid": "1", "controller": true}],
    }}));
    let owner = owner(&pod);
    assert_eq!(owner, Owner { kind: "deployment".to_owned(), name: "web".to_owned() });
    assert_eq!(owner.restart("shop"), "kubectl rollout restart -n shop deployment/web");
}

#[test]
fn other_owners_are_themselves_and_a_pod_without_one_is_its_own() {
    let daemon = pod(json!({"metadata": {
        "name": "log-x", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "uid": "1", "controller": true}],
    }}));
    assert_eq!(owner(&daemon).restart("shop"), "kubectl rollout restart -n shop daemonset/log");
    let alone = pod(json!({"metadata": {"name": "debug"}}));
    assert_eq!(owner(&alone).restart("shop"), "kubectl delete pod -n shop debug, and create it again");
}

#[test]
fn a_pod_is_meshed_if_it_has_the_container_whatever_its_labels_say() {
    let meshed = |labels: Value, name: &str| {
        is_meshed(&pod(json!({
            "metadata": {"name": "a", "labels": labels},
            "spec": {"initContainers": [{"name": name, "image": "r:5000/leno-proxy:0.1.0"}], "containers": []},
        })))
    };
    assert!(meshed(json!({"leno.dev/injected": "true"}), "leno-proxy"));
    assert!(!meshed(json!({"leno.dev/injected": "true"}), "other"));
    assert!(meshed(json!({}), "leno-proxy"));
}

#[test]
fn the_version_of_a_proxy_is_its_images_tag() {
    let version = |image: &str| {
        let pod = pod(json!({"spec": {"containers": [{"name": "leno-proxy", "image": image}]}}));
        sidecar_version(&pod).map(str::to_owned)
    };
    assert_eq!(version("r.example:5000/mesh/leno-proxy:0.1.0").as_deref(), Some("0.1.0"));
    assert_eq!(version("r.example:5000/mesh/leno-proxy"), None);
    assert_eq!(version("leno-proxy"), None);
    assert_eq!(version("r.example:5000/mesh/leno-proxy:0.1.0@sha256:0123abcd").as_deref(), Some("0.1.0"));
    assert_eq!(version("r.example:5000/mesh/leno-proxy@sha256:0123abcd"), None);
}

#[test]
fn the_admin_port_is_the_one_that_the_proxy_names() {
    let ports = json!([{"name": "leno-inbound", "containerPort": 4143}, {"name": "leno-admin", "containerPort": 9191}]);
    let moved = pod(json!({"spec": {"initContainers": [{"name": "leno-proxy", "ports": ports}], "containers": []}}));
    assert_eq!(admin_port(&moved), 9191);
    assert_eq!(admin_port(&pod(json!({"spec": {"containers": []}}))), 4191);
}

#[test]
fn the_control_planes_port_is_its_own_and_not_its_proxys() {
    let proxy = json!({"name": "leno-proxy", "ports": [{"name": "leno-admin", "containerPort": 4191}]});
    let control = json!({"name": "leno-control", "ports": [{"name": "admin", "containerPort": 15999}]});
    let labels = json!({"app.kubernetes.io/name": "leno-control"});
    let meshed = pod(json!({
        "metadata": {"namespace": "leno", "labels": labels},
        "spec": {"initContainers": [proxy], "containers": [control]},
    }));
    assert!(is_control(&meshed));
    assert_eq!((control_admin_port(&meshed), admin_port(&meshed)), (15_999, 4191));
    let elsewhere = pod(json!({"metadata": {"namespace": "shop", "labels": labels}, "spec": {"containers": []}}));
    assert!(!is_control(&elsewhere));
}

#[test]
fn a_pod_that_is_ready_has_no_reason() {
    assert_eq!(why_not_ready(&with_status(&json!({"conditions": [{"type": "Ready", "status": "True"}]}))), None);
}

#[test]
fn a_container_that_waits_says_why_and_that_others_start_first_is_no_reason() {
    let waiting = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "leno-init", "ready": false, "restartCount": 0, "image": "", "imageID": "",
         "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling\nimage \"leno-proxy:0.1.0\""}}},
    ], "containerStatuses": [
        {"name": "app", "ready": false, "restartCount": 0, "image": "", "imageID": "",
         "state": {"waiting": {"reason": "PodInitializing"}}},
    ]});
    assert_eq!(
        why_not_ready(&with_status(&waiting)).as_deref(),
        Some("leno-init: ImagePullBackOff: Back-off pulling image \"leno-proxy:0.1.0\"")
    );
    let creating = json!({"phase": "Pending", "containerStatuses": [
        {"name": "app", "ready": false, "restartCount": 0, "image": "", "imageID": "",
         "state": {"waiting": {"reason": "ContainerCreating"}}},
    ]});
    assert_eq!(why_not_ready(&with_status(&creating)).as_deref(), Some("it is Pending, and not ready: app"));
}

#[test]
fn a_pod_without_a_node_says_what_the_scheduler_says_if_anything() {
    let unscheduled =
        |status: Value| why_not_ready(&pod(json!({"spec": {"containers": []}, "status": status}))).expect("a reason");
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available"});
    assert_eq!(unscheduled(json!({"conditions": [condition]})), "Unschedulable: 0/2 nodes are available");
    assert_eq!(unscheduled(json!({"phase": "Pending"})), "no node was found for it");
}

#[test]
fn a_proxy_has_started_when_its_container_runs() {
    let status = |name: &str, state: &Value| json!({"name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": state});
    let running = json!({"running": {}});
    let with_proxy = |state: &Value| {
        with_status(&json!({"initContainerStatuses": [status("leno-init", &running), status("leno-proxy", state)]}))
    };
    assert!(has_proxy_started(&with_proxy(&running)));
    assert!(!has_proxy_started(&with_proxy(&json!({"waiting": {"reason": "PodInitializing"}}))));
    assert!(!has_proxy_started(&Pod::default()));
}
