use std::sync::Arc;

use crate::fixtures::{objects, problems};
use crate::object::{Object, Route};
use crate::route::{Match, RouteKind, ServerName};

/// Returns the manifest of a TLSRoute; `hostnames` is a YAML list in flow style (`[a.example.org]`).
fn with_hostnames(hostnames: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: {{name: shop}}\nspec:\n  \
         parentRefs: [{{group: '', kind: Service, name: shop}}]\n  hostnames: {hostnames}\n  \
         rules: [{{backendRefs: [{{name: shop, port: 443}}]}}]\n"
    )
}

fn route(text: &str) -> Route {
    match objects(text).remove(0) {
        Object::Route(route) => route,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_route_is_about_connections_to_its_names() {
    let read = route(&with_hostnames("[cart.example.org, '*.shop.example.org']"));
    assert_eq!(read.kind, RouteKind::Tls);
    let [rule] = &*read.rules else { panic!("{:?}", read.rules) };
    let name = |name| Arc::new(Match::server(ServerName::parse(name).expect("a name")));
    assert_eq!(rule.matches, [name("cart.example.org"), name("*.shop.example.org")]);
    assert_eq!(rule.backends.len(), 1);
}

#[test]
fn former_versions_are_read_too_and_may_have_no_name() {
    for version in ["v1alpha2", "v1alpha3"] {
        let text = with_hostnames("[a.b]").replace("/v1", &format!("/{version}")).replace("  hostnames: [a.b]\n", "");
        assert_eq!(route(&text).rules[0].matches, [Arc::new(Match::any())], "{version}");
    }
}

#[test]
fn as_many_names_are_read_as_kubernetes_stores() {
    let names = |count: usize| {
        let names: Vec<_> = (0..count).map(|number| format!("a{number}.b")).collect();
        with_hostnames(&format!("[{}]", names.join(", ")))
    };
    assert_eq!(route(&names(1024)).rules[0].matches.len(), 1024);
    assert_eq!(
        problems(&names(1025)),
        ["echo.yaml:6: spec.hostnames of TLSRoute default/shop: 1025 items; use at most 1024"]
    );
}

#[test]
fn what_no_client_could_ask_for_is_a_mistake() {
    for odd in ["10.0.0.1", "Cart.example.org", "a.*.b", "''"] {
        let problems = problems(&with_hostnames(&format!("[a.b, {odd}]")));
        let [problem] = &problems[..] else { panic!("{odd}: {problems:?}") };
        assert!(problem.contains("spec.hostnames[1]") && problem.contains("is not a server name"), "{problem}");
    }
}
