use leno_model::manifest::{SourceFile, parse_file};
use leno_model::object::Object;

use super::*;

/// The Service `cart` in the namespace `shop`, with this address.
fn cart() -> Service {
    let text = "{apiVersion: v1, kind: Service, metadata: {name: cart, namespace: shop}, \
                spec: {clusterIP: 10.244.78.9, ports: [{port: 8080}]}}";
    let file = SourceFile { path: "cart.yaml".to_owned(), text: text.to_owned() };
    let mut objects = parse_file(&file, "default").expect("it has no mistakes").objects;
    match objects.remove(0) {
        Object::Service(service) => service.as_ref().clone(),
        other => panic!("not a Service: {other:?}"),
    }
}

#[test]
fn services_are_called_by_their_first_name_in_their_own_namespace_only() {
    let long = "cart.shop cart.shop.svc cart.shop.svc.cluster.local\n";
    let own = hosts("", &[cart()], "shop");
    assert!(own.ends_with(&format!("\n10.244.78.9 cart {long}")), "{own}");
    let other = hosts("", &[cart()], "other");
    assert!(other.ends_with(&format!("\n10.244.78.9 {long}")), "{other}");
}

#[test]
fn the_machines_own_lines_come_first_and_stay_whole() {
    for own_lines in ["127.0.0.1 localhost", "127.0.0.1 localhost\n"] {
        assert!(hosts(own_lines, &[], "shop").starts_with("127.0.0.1 localhost\n# Services"));
    }
}
