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

#[test]
fn an_injected_pod_is_known_by_its_service_account() {
    let labels = json!({ "leno.dev/injected": "true" });
    let spec = json!({ "serviceAccountName": "echo", "containers": [{ "name": "app", "image": "echo" }] });
    assert_eq!(injected_as(json!({ "metadata": { "labels": labels }, "spec": spec })).as_deref(), Some("echo"));
    assert_eq!(injected_as(json!({ "metadata": { "labels": labels }, "spec": {} })).as_deref(), Some("default"));
}

#[test]
fn a_pod_without_the_label_or_with_another_value_has_no_proxy() {
    for labels in [json!({}), json!({ "leno.dev/injected": "false" }), json!({ "leno.dev/injected": "" })] {
        let spec = json!({ "serviceAccountName": "echo" });
        assert_eq!(injected_as(json!({ "metadata": { "labels": labels }, "spec": spec })), None, "{labels}");
    }
}

#[test]
fn how_an_injected_pods_proxy_treats_its_ports_is_read_from_its_containers() {
    let containers = json!([{ "name": "leno-init", "args": ["--proxy-uid=2102", "--skip-inbound-ports=22"] }]);
    let of = |labels: Value| {
        let object = json!({ "metadata": { "labels": labels }, "spec": { "initContainers": containers } });
        match pod(&Name::new("shop", "echo-a"), from(object)) {
            Content::Pod(pod) => pod.ports,
            other => panic!("{other:?}"),
        }
    };
    assert!(of(json!({ "leno.dev/injected": "true" })).skipped.contains(22));
    assert_eq!(of(json!({})), InboundPorts::default());
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
}
