use leno_model::manifest::{SourceFile, parse_file};
use leno_model::translate::translate;
use serde_json::{Value, json};

use super::conditions::{calls, has_only_a_path, may_match};
use super::*;

const POLICY: &str = "\
---
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: cart, namespace: shop}
spec:
  targetRefs: [{kind: Service, name: cart}]
  timeouts: {request: 2s, streamIdle: 5m}
  retry: {grpcCodes: [UNAVAILABLE], httpCodes: [502, 503], attempts: 2, mode: Audit}
  hedge: {delay: p95, methods: [shop.v1.Cart/GetItems]}
";

const ROUTE: &str = "\
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: cart, namespace: shop}
spec:
  parentRefs: [{group: '', kind: Service, name: cart}]
  rules:
  - name: pay
    matches: [{method: {service: shop.v1.Cart, method: Pay}}]
    backendRefs: [{name: cart, port: 50051}]
  - matches: [{method: {service: shop.v1.Cart}, headers: [{name: x-canary, value: yes}]}]
    backendRefs: [{name: canary, port: 50051}]
  - backendRefs: [{name: cart, port: 50051}]
---
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: pay, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: GRPCRoute, name: cart, sectionName: pay}]
  timeouts: {request: 10s}
  retry: {mode: 'Off'}
---
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: canary, namespace: shop}
spec:
  targetRefs: [{kind: Service, name: canary}]
  budget: {percent: 7}
";

/// The `/config` page of a program that has read the Services `cart` and `canary`, and these manifests.
fn config(manifests: &str) -> Value {
    let service = |name: &str| {
        let metadata = format!("{{name: {name}, namespace: shop}}");
        format!("---\napiVersion: v1\nkind: Service\nmetadata: {metadata}\nspec: {{ports: [{{port: 50051}}]}}\n")
    };
    config_of(&[service("cart"), service("canary"), manifests.to_owned()].concat())
}

/// The `/config` page of a program that has read these manifests, which must have no mistakes.
pub(in crate::cluster) fn config_of(manifests: &str) -> Value {
    let file = SourceFile { path: "mesh.yaml".to_owned(), text: manifests.to_owned() };
    let objects = parse_file(&file, "default").expect("manifests without mistakes").objects;
    let translation = translate(&objects, "default");
    assert!(translation.problems.is_empty(), "{:?}", translation.problems);
    json!({ "mesh": translation.mesh })
}

/// The lines that the command prints for a client in the namespace `shop`, with several spaces replaced by one.
fn lines(config: &Value, method: Option<&str>) -> Vec<String> {
    let text = text(&traffic(config, "cart.shop:50051", "shop", method), method);
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn each_part_of_a_service_is_shown_with_its_value_its_mode_and_the_object_that_sets_it() {
    let shown = lines(&config(POLICY), None);
    let expected = [
        "CALLS ROUTE PART MODE SET BY VALUE",
        "all Service shop/cart timeouts.request Enforce TrafficPolicy shop/cart 2s",
        "all Service shop/cart timeouts.streamIdle Enforce TrafficPolicy shop/cart 5m",
        "all Service shop/cart retry Audit TrafficPolicy shop/cart httpCodes: [502, 503], grpcCodes: [UNAVAILABLE], attempts: 2, backoff: 25ms",
        "all Service shop/cart hedge Enforce TrafficPolicy shop/cart delay: p95, attempts: 1, methods: [shop.v1.Cart/GetItems]",
        "all Service shop/cart budget Enforce default percent: 20, interval: 10s, minPerSecond: 10",
        "",
        "a call follows the first rule that it matches",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_method_has_the_parts_of_the_rules_that_its_calls_may_follow() {
    let config = config(&[POLICY, ROUTE].concat());
    let pay = lines(&config, Some("shop.v1.Cart/Pay"));
    let limits = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| line.contains("timeouts.request")).cloned().collect()
    };
    let rule = "shop.v1.Cart/Pay GRPCRoute shop/cart, rule pay";
    assert_eq!(limits(&pay), [format!("{rule} timeouts.request Enforce TrafficPolicy shop/pay 10s")]);
    assert!(!pay.iter().any(|line| line.contains("retry") || line.contains("hedge")), "{pay:?}");

    let get = lines(&config, Some("shop.v1.Cart/GetItems"));
    let canary = "shop.v1.Cart/* with header x-canary GRPCRoute shop/cart";
    let rest = "all GRPCRoute shop/cart";
    let expected = [canary, rest].map(|rule| format!("{rule} timeouts.request Enforce TrafficPolicy shop/cart 2s"));
    assert_eq!(limits(&get), expected);
    let of_canary =
        "budget of canary.shop:50051 Enforce TrafficPolicy shop/canary percent: 7, interval: 10s, minPerSecond: 10";
    assert!(get.contains(&format!("{canary} {of_canary}")), "{get:?}");
    assert_eq!(get.iter().filter(|line| line.contains(" hedge ")).count(), 2, "{get:?}");

    let other = lines(&config, Some("shop.v1.Prices/Get"));
    assert_eq!(limits(&other), [format!("{rest} timeouts.request Enforce TrafficPolicy shop/cart 2s")]);
    assert_eq!(lines(&config, None).iter().filter(|line| line.contains("timeouts.request")).count(), 3, "all rules");
}

#[test]
fn a_service_without_policies_and_calls_that_no_rule_matches_are_told_in_words() {
    assert_eq!(lines(&config(""), None), ["no route and no TrafficPolicy applies to calls to cart.shop:50051"]);
    let only_pay = ROUTE.replace("  - backendRefs: [{name: cart, port: 50051}]\n", "");
    let shown = lines(&config(&only_pay), Some("shop.v1.Prices/Get"));
    let expected =
        "no rule of the GRPCRoutes of cart.shop:50051 matches calls of shop.v1.Prices/Get, so the proxy rejects them";
    assert_eq!(shown, [expected]);
    let without_parts = lines(&config(&only_pay), Some("shop.v1.Cart/Pay"));
    assert_eq!(without_parts[1].split(" timeouts").next(), Some("shop.v1.Cart/Pay GRPCRoute shop/cart, rule pay"));
}

#[test]
fn a_client_in_another_namespace_has_the_consumer_routes_there() {
    let consumer = ROUTE
        .split("---\n")
        .nth(1)
        .map(|route| format!("---\n{route}"))
        .expect("a route")
        .replace("{name: cart, namespace: shop}", "{name: own, namespace: web}")
        .replace("name: cart}]", "name: cart, namespace: shop}]")
        .replace("name: cart, port", "name: cart, namespace: shop, port")
        .replace("name: canary, port", "name: canary, namespace: shop, port");
    let config = config(&[POLICY, &consumer].concat());
    let route = |namespace: &str| {
        let found = traffic(&config, "cart.shop:50051", namespace, None);
        found.lines().first().map(|line| line.route.clone()).expect("a rule")
    };
    assert_eq!(
        [route("web"), route("shop"), route("other")].map(|route| route
            .split(',')
            .next()
            .unwrap_or_default()
            .to_owned()),
        ["GRPCRoute web/own", "Service shop/cart", "Service shop/cart"]
    );
}

#[test]
fn a_condition_that_this_version_does_not_know_may_match() {
    let entry = json!({ "matches": { "path": { "suffix": "/a" } }, "rule": {} });
    assert!(may_match(&entry, "/b") && !has_only_a_path(&entry["matches"]));
    assert_eq!(
        calls(&json!({ "path": { "exact": "/a" }, "method": "GET", "query": [{ "name": "q" }] })),
        "GET /a with query parameter q"
    );
}
