use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a Kubernetes object")
}

fn a_service(spec: &Value) -> Service {
    from(json!({ "metadata": { "name": "echo", "namespace": "shop" }, "spec": spec }))
}

fn problems(read: Result<Manifest, Vec<Problem>>) -> Vec<String> {
    read.map_or_else(|problems| problems.iter().map(Problem::to_string).collect(), |_| Vec::new())
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
fn what_a_mesh_has_no_use_for_is_no_mistake() {
    let alias =
        a_service(&json!({ "type": "ExternalName", "externalName": "db.example.org", "ports": [{ "port": 80 }] }));
    let without_ports = a_service(&json!({ "clusterIP": "None" }));
    for service in [alias, without_ports] {
        assert!(super::service(service).expect("no mistake").objects.is_empty());
    }
    let names = json!({ "metadata": { "name": "db", "namespace": "shop" }, "addressType": "FQDN", "endpoints": [] });
    assert!(endpoint_slice(from(names)).expect("no mistake").objects.is_empty());
}
