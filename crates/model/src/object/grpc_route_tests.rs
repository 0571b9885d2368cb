use std::sync::Arc;

use crate::fixtures::{objects, problems};
use crate::object::{Object, Route};
use crate::route::{GrpcMethod, HeaderMatch, Match, PathMatch, Pattern, RouteKind, ValueMatch};

fn with_rules(rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {{name: canary}}\n\
         spec:\n  parentRefs: [{{group: '', kind: Service, name: echo}}]\n  rules: {rules}\n"
    )
}

fn route(rules: &str) -> Route {
    match objects(&with_rules(rules)).remove(0) {
        Object::Route(route) => route,
        other => panic!("{other:?}"),
    }
}

fn method(service: Option<ValueMatch>, method: Option<ValueMatch>) -> Arc<Match> {
    Arc::new(Match { path: PathMatch::Grpc(GrpcMethod { service, method }), ..Match::any() })
}

fn exact(text: &str) -> Option<ValueMatch> {
    Some(ValueMatch::Exact(text.into()))
}

#[test]
fn a_route_is_read() {
    let read = route(
        "[{name: v2, matches: [{method: {service: shop.v1.Cart, method: Add}, headers: [{name: X-Env, value: canary}]}],
           filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [a]}}],
           backendRefs: [{name: echo-v2, port: 80}]}]",
    );
    assert_eq!(read.kind, RouteKind::Grpc);
    let rule = &read.rules[0];
    let headers = [HeaderMatch { name: "x-env".into(), value: ValueMatch::Exact("canary".into()) }];
    assert_eq!(
        rule.matches,
        [Arc::new(Match { headers: headers.into(), ..Match::clone(&method(exact("shop.v1.Cart"), exact("Add"))) })]
    );
    assert_eq!((&*rule.backends[0].to.name, rule.backends[0].to.port), ("echo-v2", Some(80)));
    assert!(rule.filters.fixed.response_headers.is_some());
}

#[test]
fn a_service_or_a_method_may_be_missing_and_may_be_a_pattern() {
    let matches = |matches: &str| route(&format!("[{{matches: [{matches}]}}]")).rules[0].matches.clone();
    let pattern = |text: &str| Some(ValueMatch::Pattern(Pattern::new(text).expect("a pattern")));
    assert_eq!(matches("{method: {service: Cart}}"), [method(exact("Cart"), None)]);
    assert_eq!(matches("{method: {method: Add}}"), [method(None, exact("Add"))]);
    let written = "{method: {type: RegularExpression, service: 'shop[.].*', method: 'Get.*'}}";
    assert_eq!(matches(written), [method(pattern("shop[.].*"), pattern("Get.*"))]);
    assert_eq!(matches("{}"), [method(None, None)]);
    assert_eq!(route("[{}]").rules[0].matches, [Arc::new(Match::any())]);
}

#[test]
fn a_route_without_rules_has_none() {
    assert!(route("[]").rules.is_empty());
}

#[test]
fn mistakes_are_said_with_their_line_and_a_fix() {
    for (rules, line) in [
        (
            "[{matches: [{path: {value: /}}]}]",
            "path of GRPCRoute default/canary: GRPCRouteMatch has no such field; remove it",
        ),
        (
            "[{matches: [{method: {}}]}]",
            "method of GRPCRoute default/canary: neither a service nor a method; name one or both of them",
        ),
        (
            "[{matches: [{method: {service: /shop.Cart}}]}]",
            "method.service of GRPCRoute default/canary: \"/shop.Cart\" is not the name of a gRPC service; write the service as the .proto file names it",
        ),
        (
            "[{matches: [{method: {method: 7up}}]}]",
            "method.method of GRPCRoute default/canary: \"7up\" is not the name of a gRPC method; write the method as the .proto file names it",
        ),
        (
            "[{matches: [{method: {type: exact, service: A}}]}]",
            "method.type of GRPCRoute default/canary: \"exact\" is not one of its values; did you mean Exact?",
        ),
    ] {
        assert_eq!(problems(&with_rules(rules)), [format!("echo.yaml:6: spec.rules[0].matches[0].{line}")], "{rules}");
    }
}

#[test]
fn a_grpc_route_neither_redirects_nor_rewrites() {
    let rules = "[{filters: [{type: URLRewrite, urlRewrite: {hostname: a}}]}]";
    assert_eq!(
        problems(&with_rules(rules)),
        [
            "echo.yaml:6: spec.rules[0].filters[0].type of GRPCRoute default/canary: \"URLRewrite\" is not one of its values; \
          use one of RequestHeaderModifier, ResponseHeaderModifier, RequestMirror, ExtensionRef"
        ]
    );
}
