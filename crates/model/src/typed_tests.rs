use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a Kubernetes object")
}

fn a_service(spec: Value) -> Service {
    from(json!({ "metadata": { "name": "echo", "namespace": "shop" }, "spec": spec }))
}

fn problems(reading: Result<Reading, Vec<Problem>>) -> Vec<String> {
    reading.map_or_else(|problems| problems.iter().map(Problem::to_string).collect(), |_| Vec::new())
}

#[test]
fn services_slices_and_policies_are_read() {
    let service = super::service(a_service(json!({ "clusterIP": "10.96.0.10", "ports": [{ "port": 80 }] })));
    assert!(
        matches!(service.expect("no mistake").object, Some(Object::Service(service)) if service.ports[0].port == 80)
    );

    let slice = endpoint_slice(from(json!({
        "metadata": { "name": "echo-1", "namespace": "shop", "labels": { "kubernetes.io/service-name": "echo" } },
        "addressType": "IPv4",
        "ports": [{ "name": "", "port": 8080 }],
        "endpoints": [{ "addresses": ["10.244.1.9"] }],
    })));
    assert!(
        matches!(slice.expect("no mistake").object, Some(Object::EndpointSlice(slice)) if slice.addresses.len() == 1)
    );

    let written = json!({
        "apiVersion": "leno.dev/v1alpha1",
        "kind": "AuthorizationPolicy",
        "metadata": { "name": "web", "namespace": "shop", "resourceVersion": "7" },
        "spec": { "allow": [{ "identities": ["ns/shop/sa/web"] }] },
    });
    let policy = authorization_policy("shop", "web", written).expect("no mistake").object;
    assert!(matches!(policy, Some(Object::AuthorizationPolicy(_))));
}

#[test]
fn routes_and_grants_are_read() {
    let metadata = json!({ "name": "echo", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z" });
    let parent = json!({ "group": "", "kind": "Service", "name": "echo" });
    let route = |kind: &str| {
        let version = "gateway.networking.k8s.io/v1";
        json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": { "parentRefs": [parent] } })
    };
    let http = http_route("shop", "echo", route("HTTPRoute")).expect("no mistake").object;
    assert!(matches!(http, Some(Object::Route(route)) if route.parents.len() == 1));
    let grpc = grpc_route("shop", "echo", route("GRPCRoute")).expect("no mistake").object;
    assert!(matches!(grpc, Some(Object::Route(route)) if route.parents.len() == 1));
    let from = json!({ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "web" });
    let spec = json!({ "from": [from], "to": [{ "group": "", "kind": "Service" }] });
    let grant = reference_grant("shop", "echo", json!({ "metadata": metadata, "spec": spec })).expect("no mistake").object;
    assert!(matches!(grant, Some(Object::ReferenceGrant(_))));
}

#[test]
fn a_mistake_names_the_object_and_its_field_and_no_file() {
    let mut service = a_service(json!({ "ports": [{ "port": 80 }] }));
    service.metadata.annotations = Some([("leno.dev/balancer".to_owned(), "best".to_owned())].into());
    let found = problems(super::service(service));
    assert_eq!(found.len(), 1, "{found:?}");
    let field = "metadata.annotations[\"leno.dev/balancer\"]";
    assert!(found[0].starts_with(&format!("{field} of Service shop/echo: \"best\" is not a balancer; ")), "{found:?}");
}

#[test]
fn a_policy_that_does_not_have_the_fields_of_one_is_a_mistake() {
    let found = problems(authorization_policy("shop", "web", json!({ "spec": { "allow": "everybody" } })));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("AuthorizationPolicy shop/web: invalid type: string \"everybody\""), "{found:?}");
}

#[test]
fn what_a_mesh_has_no_use_for_is_no_mistake() {
    let alias =
        a_service(json!({ "type": "ExternalName", "externalName": "db.example.org", "ports": [{ "port": 80 }] }));
    let without_ports = a_service(json!({ "clusterIP": "None" }));
    for service in [alias, without_ports] {
        assert!(super::service(service).expect("no mistake").object.is_none());
    }
    let names = json!({ "metadata": { "name": "db", "namespace": "shop" }, "addressType": "FQDN", "endpoints": [] });
    assert!(endpoint_slice(from(names)).expect("no mistake").object.is_none());
}
