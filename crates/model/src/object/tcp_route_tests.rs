use std::sync::Arc;

use crate::fixtures::{notices, objects, problems};
use crate::object::{Object, Route};
use crate::route::{Match, RouteKind};

const TEXT: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: db}
spec:
  parentRefs: [{group: '', kind: Service, name: db, port: 5432}]
  rules: [{name: all, backendRefs: [{name: db-a, port: 5432, weight: 9}, {name: db-b, namespace: shop, port: 5433}]}]
";

fn route(text: &str) -> Route {
    match objects(text).remove(0) {
        Object::Route(route) => route,
        other => panic!("{other:?}"),
    }
}

fn only_mistake(text: &str) -> String {
    let mut problems = problems(text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0).replacen("echo.yaml:", "", 1).replacen(" of TCPRoute default/db", "", 1)
}

#[test]
fn a_route_has_one_rule_for_everything() {
    let read = route(TEXT);
    assert_eq!((read.kind, &*read.identity.name), (RouteKind::Tcp, "db"));
    let [rule] = &*read.rules else { panic!("{:?}", read.rules) };
    assert_eq!(rule.matches, [Arc::new(Match::any())]);
    assert_eq!(rule.name.as_deref(), Some("all"));
    let backends: Vec<_> = rule.backends.iter().map(|b| (&*b.to.name, b.to.port, b.weight)).collect();
    assert_eq!(backends, [("db-a", Some(5432), 9), ("db-b", Some(5433), 1)]);
}

#[test]
fn its_first_version_is_read_too() {
    assert_eq!(route(&TEXT.replace("/v1", "/v1alpha2")).kind, RouteKind::Tcp);
    let version = TEXT.replace("/v1", "/v1alpha3");
    assert!(
        only_mistake(&version).ends_with("is not read; use gateway.networking.k8s.io/v1"),
        "{}",
        only_mistake(&version)
    );
}

#[test]
fn what_kubernetes_would_not_store_is_a_mistake() {
    let rules = |rules: &str| {
        let start = TEXT.find("  rules:").expect("rules");
        format!("{}  rules: {rules}\n", &TEXT[..start])
    };
    let missing = "6: spec.rules: missing; write one, with the backendRefs";
    assert_eq!(only_mistake(&rules("[]")), missing);
    let no_backend = "6: spec.rules[0].backendRefs: missing; name the Service that receives the connections";
    assert_eq!(only_mistake(&rules("[{}]")), no_backend);
    let filters = "[{backendRefs: [{name: a, port: 1, filters: []}]}]";
    assert!(
        only_mistake(&rules(filters)).contains("BackendRef has no such field"),
        "{}",
        only_mistake(&rules(filters))
    );
    let weight = "[{backendRefs: [{name: a, port: 1, weight: -1}]}]";
    assert!(only_mistake(&rules(weight)).contains("-1 is not a weight"));
    let hostnames = TEXT.replace("  rules:", "  hostnames: [a.b]\n  rules:");
    assert!(only_mistake(&hostnames).contains("TCPRouteSpec has no such field"), "{}", only_mistake(&hostnames));
    let port = TEXT.replace("port: 5433", "port: 0");
    assert!(only_mistake(&port).contains("0 is not a port"));
}

/// Former versions of the API allow several rules, but a TCPRoute's first rule matches every connection.
#[test]
fn a_second_rule_is_told_to_be_never_used() {
    let two = TEXT.replace("}]}]", "}]}, {backendRefs: [{name: db-c, port: 1}]}]");
    assert_eq!(route(&two).rules.len(), 2);
    let [notice] = &notices(&two)[..] else { panic!("{:?}", notices(&two)) };
    assert!(notice.contains("spec.rules[1]") && notice.contains("never used"), "{notice}");
}
