use k8s_openapi::api::core::v1::PodSpec;

use super::*;

fn pod(name: &str, node: &str) -> Pod {
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": []}});
    serde_json::from_value(pod).expect("a Pod")
}

#[test]
fn the_first_mesh_decides_about_the_nodes_of_all() {
    let nodes = Nodes::default();
    let shared = nodes.clone();
    assert_eq!(nodes.of("backend-0"), None);
    nodes.fix(&[pod("backend-0", "node1"), pod("load-0", "node2")]);
    nodes.fix(&[pod("backend-0", "node2")]);
    assert_eq!(
        (shared.of("backend-0"), shared.of("load-0"), shared.of("load-1")),
        (Some("node1"), Some("node2"), None)
    );
}

#[test]
fn a_pod_on_another_node_is_named_with_both_nodes() {
    let nodes = Nodes::default();
    assert_eq!(nodes.misplaced(&[pod("backend-0", "node2")]), None);
    nodes.fix(&[pod("backend-0", "node1")]);
    assert_eq!(nodes.misplaced(&[pod("backend-0", "node1"), pod("other", "node2")]), None);
    let why = nodes.misplaced(&[pod("backend-0", "node2")]).expect("a reason");
    assert!(why.starts_with("backend-0 runs on node2, and in the first mesh on node1; "), "{why}");
}

#[test]
fn a_released_pod_must_run_on_its_node() {
    let patch = release(Some("node1"));
    assert_eq!(patch["spec"]["schedulingGates"], json!([{"$patch": "delete", "name": GATE}]));
    // The affinity in the patch is a valid part of a Pod's specification.
    let spec = json!({"containers": [], "affinity": patch["spec"]["affinity"]});
    let spec: PodSpec = serde_json::from_value(spec).expect("a Pod");
    let required = spec.affinity.and_then(|it| it.node_affinity?.required_during_scheduling_ignored_during_execution);
    let fields = required.expect("required nodes").node_selector_terms[0].match_fields.clone().expect("a field");
    assert_eq!((&fields[0].key[..], fields[0].values.clone()), ("metadata.name", Some(vec!["node1".to_owned()])));
    assert_eq!(release(None)["spec"].as_object().expect("an object").len(), 1);
}

#[test]
fn only_the_gate_of_the_lab_holds_a_pod_for_the_lab() {
    let of = |gates: Value| {
        let spec = json!({"containers": [], "schedulingGates": gates});
        is_held(&serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).expect("a Pod"))
    };
    assert!(of(json!([{"name": "example.org/quota"}, {"name": GATE}])));
    assert!(!of(json!([{"name": "example.org/quota"}])));
    assert!(!of(json!(null)));
}

#[test]
fn the_reason_of_the_scheduler_is_found() {
    let of = |reason: &str| {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/2 nodes"});
        serde_json::from_value(json!({"metadata": {}, "status": {"conditions": [condition]}})).expect("a Pod")
    };
    assert_eq!(unschedulable(&of("Unschedulable")), Some("0/2 nodes"));
    assert_eq!(unschedulable(&of("SchedulingGated")), None);
    assert_eq!(unschedulable(&pod("backend-0", "node1")), None);
}
