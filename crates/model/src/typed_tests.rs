use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a Kubernetes object")
}

fn a_service(spec: &Value) -> Service {
    from(json!({ "metadata": { "name": "echo", "namespace": "shop" }, "spec": spec }))
}

fn problems(read: Result<Manifest, Invalid>) -> Vec<String> {
    read.map_or_else(|invalid| invalid.problems.iter().map(Problem::to_string).collect(), |_| Vec::new())
}

#[test]
fn services_and_slices_are_read() {
    let service = super::service(a_service(&json!({ "clusterIP": "10.96.0.10", "ports": [{ "port": 80 }] })));
    let objects = service.expect("no mistake").objects;
    assert!(matches!(&objects[..], [Object::Service(service)] if service.ports[0].port == 80));

    let slice = endpoint_slice(from(json!({
        "metadata": { "name": "echo-1", "namespace": "shop", "labels": { "kubernetes.io/service-name": "echo" } },
        "addressType": "IPv4",
        "ports": [{ "name": "", "port": 8080 }],
        "endpoints": [{ "addresses": ["10.244.1.9"] }],
    })));
    let objects = slice.expect("no mistake").objects;
    assert!(matches!(&objects[..], [Object::EndpointSlice(slice)] if slice.addresses.len() == 1));
}

#[test]
fn the_age_of_an_object_is_known() {
    let mut service = a_service(&json!({ "ports": [{ "port": 80 }] }));
    service.metadata.creation_timestamp = Some(from(json!("1970-01-01T00:01:00Z")));
    assert_eq!(super::service(service).expect("no mistake").objects[0].identity().created_s, 60);
}

#[test]
fn a_mistake_names_the_object_and_its_field_and_no_file() {
    let mut service = a_service(&json!({ "ports": [{ "port": 80 }] }));
    service.metadata.annotations = Some([("leno.dev/balancer".to_owned(), "best".to_owned())].into());
    let found = problems(super::service(service));
    assert_eq!(found.len(), 1, "{found:?}");
    let field = "metadata.annotations[\"leno.dev/balancer\"]";
    assert!(found[0].starts_with(&format!("{field} of Service shop/echo: \"best\" is not a balancer; ")), "{found:?}");
}

#[test]
fn a_service_with_invalid_annotations_has_a_stand_in_without_them() {
    let invalid = |annotations: Value, spec: Value| {
        let service =
            json!({ "metadata": { "name": "echo", "namespace": "shop", "annotations": annotations }, "spec": spec });
        super::service(from(service)).expect_err("it is invalid")
    };
    let ports = json!([{ "port": 80 }, { "name": "b", "port": 81 }]);
    let spec = json!({ "clusterIP": "10.96.0.10", "ports": [ports[0]] });
    let annotations = json!({ "leno.dev/balancer": "best", "leno.dev/new": "1", "leno.dev/idle-timeout": "5s" });
    let Invalid { problems, stand_in, .. } = invalid(annotations.clone(), spec);
    let Some(Object::Service(service)) = stand_in.as_deref() else { panic!("{stand_in:?}") };
    assert_eq!((problems.len(), service.balancer, service.cluster_ips.len()), (2, Default::default(), 1));
    assert_eq!(service.settings.idle_timeout.as_secs(), 5);
    // A Service with a mistake outside the annotations has no stand-in. Here, the first of two ports has no name.
    assert!(invalid(annotations, json!({ "clusterIP": "10.96.0.10", "ports": ports })).stand_in.is_none());
}

/// Reads a slice of the Service shop/echo with these annotations and endpoints.
fn slice_with(annotations: &Value, endpoints: &Value) -> Result<Manifest, Invalid> {
    endpoint_slice(from(json!({
        "metadata": {
            "name": "echo-1",
            "namespace": "shop",
            "labels": { "kubernetes.io/service-name": "echo" },
            "annotations": annotations,
        },
        "addressType": "IPv4",
        "ports": [{ "name": "", "port": 8080 }],
        "endpoints": endpoints,
    })))
}

#[test]
fn the_stand_in_of_a_slice_has_only_endpoints_whose_proxy_is_known_without_it() {
    let addresses = |annotations: Value| {
        let endpoints = json!([
            { "addresses": ["10.244.1.9"], "targetRef": { "kind": "Pod", "name": "echo-a" } },
            { "addresses": ["10.0.0.9"] },
        ]);
        let invalid = slice_with(&annotations, &endpoints).expect_err("it is invalid");
        let Object::EndpointSlice(slice) = *invalid.stand_in? else { return None };
        Some(slice.addresses.iter().map(|address| address.ip.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(addresses(json!({ "leno.dev/balancer": "latency" })), Some(vec!["10.244.1.9".to_owned()]));
    assert_eq!(addresses(json!({ "leno.dev/identity": "ns/shop/sa/echo" })), Some(vec!["10.244.1.9".to_owned()]));
    for of_proxies in [json!({ "leno.dev/identity": "echo" }), json!({ "leno.dev/tunnel-port": "15008" })] {
        assert_eq!(addresses(of_proxies), None);
    }
}

#[test]
fn an_invalid_object_has_its_ports_and_addresses_without_its_annotations() {
    let slice = |annotations: Value, ip: &str| slice_with(&annotations, &json!([{ "addresses": [ip] }]));
    let valid = slice(json!({ "leno.dev/controller": "deployment/echo" }), "10.0.0.8").expect("no mistake").objects;
    for annotations in [json!({ "leno.dev/identity": "echo" }), json!({ "leno.dev/balancer": "latency" })] {
        let bare = slice(annotations.clone(), "10.0.0.9").expect_err("it is invalid").bare.expect("the rest is valid");
        let Some(Object::EndpointSlice(renewed)) = valid[0].renewed(&bare) else { panic!("a slice") };
        let controller = renewed.controller.as_ref().map(ToString::to_string);
        assert_eq!((controller.as_deref(), renewed.addresses.len()), (Some("deployment/echo"), 1));
        assert_eq!(renewed.addresses[0].ip.to_string(), "10.0.0.9");
        assert!(slice(annotations, "localhost").expect_err("an address is invalid too").bare.is_none());
    }
}

/// Otherwise the author of a slice could send the calls to any address to a proxy of his own.
#[test]
fn a_slice_in_a_cluster_declares_no_proxy() {
    let annotations = json!({ "leno.dev/identity": "ns/shop/sa/evil", "leno.dev/inbound-port": "30666" });
    let invalid = slice_with(&annotations, &json!([{ "addresses": ["10.0.0.9"] }])).expect_err("it names a proxy");
    for slice in [invalid.stand_in, invalid.bare] {
        let Some(Object::EndpointSlice(slice)) = slice.as_deref() else { panic!("{slice:?}") };
        assert!(slice.proxy.is_none());
    }
    let problems: Vec<_> = invalid.problems.iter().map(Problem::to_string).collect();
    let told = "metadata.annotations[\"leno.dev/identity\"] of EndpointSlice shop/echo-1: in a cluster, only a Pod has a \
                proxy, and the control plane finds it without annotations; remove it";
    assert_eq!(problems, [told]);
}

#[test]
fn what_a_mesh_has_no_use_for_is_no_mistake() {
    let alias =
        a_service(&json!({ "type": "ExternalName", "externalName": "db.example.org", "ports": [{ "port": 80 }] }));
    let without_ports = a_service(&json!({ "clusterIP": "None" }));
    for service in [alias, without_ports] {
        let objects = super::service(service).expect("no mistake").objects;
        assert!(matches!(&objects[..], [Object::Service(service)] if service.ports.is_empty()), "{objects:?}");
    }
    let names = json!({ "metadata": { "name": "db", "namespace": "shop" }, "addressType": "FQDN", "endpoints": [] });
    assert!(endpoint_slice(from(names)).expect("no mistake").objects.is_empty());
}
