use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a Kubernetes object")
}

fn injected_as(object: Value) -> Option<Box<str>> {
    match pod(&Name::new("shop", "echo-a"), from(object)) {
        Content::Pod(pod) => pod.injected_as,
        other => panic!("{other:?}"),
    }
}

/// The init containers of a Pod with a proxy.
fn containers() -> Value {
    json!([{ "name": "leno-init", "args": ["--proxy-uid=2102", "--skip-inbound-ports=22"] }, { "name": "leno-proxy" }])
}

#[test]
fn an_injected_pod_is_known_by_its_service_account() {
    let named = json!({ "serviceAccountName": "echo", "initContainers": containers() });
    assert_eq!(injected_as(json!({ "metadata": {}, "spec": named })).as_deref(), Some("echo"));
    let unnamed = json!({ "initContainers": containers() });
    assert_eq!(injected_as(json!({ "metadata": {}, "spec": unnamed })).as_deref(), Some("default"));
}

#[test]
fn whether_a_pod_has_a_proxy_is_told_by_its_container_and_not_by_a_label() {
    for labels in [json!({}), json!({ "leno.dev/injected": "true" }), json!({ "leno.dev/injected": "false" })] {
        let metadata = json!({ "labels": labels });
        let spec = json!({ "serviceAccountName": "echo", "containers": [{ "name": "leno-proxy" }] });
        assert_eq!(injected_as(json!({ "metadata": metadata, "spec": spec })), None, "{labels}");
        let spec = json!({ "serviceAccountName": "echo", "initContainers": containers() });
        assert_eq!(injected_as(json!({ "metadata": metadata, "spec": spec })).as_deref(), Some("echo"), "{labels}");
    }
}

#[test]
fn a_pod_is_known_by_its_controller() {
    let controller = |metadata: Value| match pod(&Name::new("shop", "a"), from(json!({ "metadata": metadata }))) {
        Content::Pod(pod) => pod.controller.map(|controller| controller.to_string()),
        other => panic!("{other:?}"),
    };
    let owner = |kind: &str, name: &str, is_controller: bool| json!({ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1", "controller": is_controller });
    let owners = json!([owner("Job", "import-2", false), owner("ReplicaSet", "web-7c9f", true)]);
    let labels = json!({ "pod-template-hash": "7c9f" });
    assert_eq!(controller(json!({ "ownerReferences": owners, "labels": labels })).as_deref(), Some("deployment/web"));
    assert_eq!(controller(json!({ "ownerReferences": [owner("Job", "import-2", false)] })), None);
    assert_eq!(controller(json!({})), None);
}

#[test]
fn a_pod_without_a_proxy_says_whether_it_should_have_one() {
    let bare = |metadata: Value, spec: Value| match pod(
        &Name::new("shop", "a"),
        from(json!({ "metadata": metadata, "spec": spec })),
    ) {
        Content::Pod(pod) => pod.bare,
        other => panic!("{other:?}"),
    };
    let found = bare(json!({ "uid": "7" }), json!({ "containers": [{ "name": "app", "image": "app" }] }));
    assert_eq!(found, Some(index::Bare { wish: Wish::AsNamespace, has_grpc: false, uid: "7".into() }));
    let asking = bare(json!({ "annotations": { "leno.dev/inject": "enabled" } }), json!({}));
    assert_eq!(asking.map(|bare| bare.wish), Some(Wish::Proxy));
    assert_eq!(bare(json!({ "annotations": { "leno.dev/inject": "disabled" } }), json!({})), None);
    assert_eq!(bare(json!({}), json!({ "hostNetwork": true })), None);
    assert_eq!(bare(json!({}), json!({ "os": { "name": "windows" } })), None);
    assert_eq!(bare(json!({ "annotations": { "kubernetes.io/config.mirror": "7" } }), json!({})), None);
    assert_eq!(bare(json!({}), json!({ "nodeSelector": { "kubernetes.io/os": "windows" } })), None);
    assert!(bare(json!({}), json!({ "nodeSelector": { "kubernetes.io/os": "linux" } })).is_some());
    assert!(bare(json!({}), json!({ "nodeSelector": { "disk": "fast" } })).is_some());
    assert_eq!(bare(json!({}), json!({ "initContainers": containers() })), None);
}

#[test]
fn how_an_injected_pods_proxy_treats_its_ports_is_read_from_its_containers() {
    let of = |containers: Value| {
        let object = json!({ "metadata": {}, "spec": { "initContainers": containers } });
        match pod(&Name::new("shop", "echo-a"), from(object)) {
            Content::Pod(pod) => pod.ports,
            other => panic!("{other:?}"),
        }
    };
    assert!(of(containers()).skipped.contains(22));
    assert_eq!(of(json!([containers()[0]])), InboundPorts::default());
}

#[test]
fn a_pod_has_the_addresses_that_its_status_says() {
    let ips = |status: Value| match pod(&Name::new("shop", "echo-a"), from(json!({ "metadata": {}, "status": status })))
    {
        Content::Pod(pod) => pod.ips,
        other => panic!("{other:?}"),
    };
    let both = json!({ "podIP": "10.244.1.1", "podIPs": [{ "ip": "10.244.1.1" }, { "ip": "fd00::1" }] });
    let expected: [IpAddr; 2] = ["10.244.1.1".parse().expect("an address"), "fd00::1".parse().expect("an address")];
    assert_eq!(*ips(both), expected);
    for none in [json!({}), json!({ "podIPs": null }), json!({ "podIPs": [{ "ip": "somewhere" }] })] {
        assert!(ips(none.clone()).is_empty(), "{none}");
    }
}

#[test]
fn the_stage_of_a_pod_is_read_from_its_phase_and_its_deletion() {
    let stage = |metadata: Value, phase: &str| {
        let object = json!({ "metadata": metadata, "status": { "phase": phase } });
        match pod(&Name::new("shop", "a"), from(object)) {
            Content::Pod(pod) => pod.stage,
            other => panic!("{other:?}"),
        }
    };
    let deleted = || json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    for (metadata, phase, expected) in [
        (json!({}), "Pending", Stage::Active),
        (json!({}), "Running", Stage::Active),
        (deleted(), "Running", Stage::Terminating),
        (json!({}), "Succeeded", Stage::Ended),
        (json!({}), "Failed", Stage::Ended),
        // A finalizer keeps the Pod.
        (deleted(), "Failed", Stage::Ended),
    ] {
        assert_eq!(stage(metadata, phase), expected, "{phase}");
    }
}

#[test]
fn a_pod_on_its_nodes_network_is_told_apart() {
    for has_host_network in [true, false] {
        let object = json!({ "metadata": {}, "spec": { "hostNetwork": has_host_network } });
        let read = pod(&Name::new("shop", "a"), from(object));
        assert!(matches!(read, Content::Pod(pod) if pod.has_host_network == has_host_network));
    }
}

#[test]
fn a_namespace_injects_if_its_annotation_says_so() {
    for (annotations, injects) in [
        (json!({}), false),
        (json!({ "leno.dev/inject": "enabled" }), true),
        (json!({ "leno.dev/inject": "disabled" }), false),
    ] {
        let object = from(json!({ "metadata": { "name": "shop", "annotations": annotations } }));
        let read = namespace(&Name::of_cluster("shop"), object);
        assert!(matches!(read, Content::Namespace(namespace) if namespace.injects() == injects), "{annotations}");
    }
}

#[test]
fn a_custom_object_that_cannot_be_read_is_its_own_problem() {
    let policy = &CUSTOM[0];
    assert_eq!(policy.definition(), "authorizationpolicies.leno.dev");
    let object = |spec: Value| from(json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": spec }));
    let read = |spec| policy.read()(&Name::new("shop", "web"), object(spec));
    assert!(matches!(read(json!({ "allow": [] })), Content::Custom(_, Ok(_))));
    assert!(matches!(read(json!({ "allow": 7 })), Content::Custom(_, Err(refused)) if refused.problems.len() == 1));
    let traffic = CUSTOM.iter().find(|custom| custom.kind == Kind::TrafficPolicy).expect("it is watched");
    assert_eq!(traffic.definition(), "trafficpolicies.leno.dev");
    let read = |spec| traffic.read()(&Name::new("shop", "web"), object(spec));
    let target = json!([{ "kind": "Service", "name": "web" }]);
    assert!(matches!(read(json!({ "targetRefs": target, "retry": {} })), Content::Custom(_, Ok(_))));
    assert!(matches!(read(json!({ "retry": {} })), Content::Custom(_, Err(_))));
    let backend = CUSTOM.iter().find(|custom| custom.kind == Kind::BackendTrafficPolicy).expect("it is watched");
    assert_eq!(backend.definition(), "xbackendtrafficpolicies.gateway.networking.x-k8s.io");
    let read = |constraint| backend.read()(&Name::new("shop", "web"), object(constraint));
    let spec = |percent: i32| json!({ "targetRefs": target, "retryConstraint": { "budget": { "percent": percent } } });
    assert!(matches!(read(spec(10)), Content::Custom(_, Ok(_))));
    assert!(matches!(read(spec(101)), Content::Custom(_, Err(_))));
}
