//! The schema of TrafficPolicies accepts what the model reads, and refuses what the model refuses.

use serde_json::Value;

use super::tests::{leaves, model_reads, schema_of, violations};
use crate::yaml;

fn schema() -> Value {
    schema_of(include_str!("../../../charts/leno/crds/trafficpolicies.yaml"))
}

/// Returns a TrafficPolicy for the Service `cart`. `spec` has the fields of its spec besides `targetRefs`.
fn with_spec(spec: &str) -> String {
    with_targets("[{kind: Service, name: cart}]", spec)
}

fn with_targets(targets: &str, spec: &str) -> String {
    format!(
        "apiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: p, namespace: shop}}\n\
         spec: {{targetRefs: {targets}, {spec}}}\n"
    )
}

fn refused(text: &str) -> bool {
    !violations(&schema(), &yaml::read(text).expect("it is YAML")).is_empty()
}

/// Each field of the schema's spec with a valid value.
const FIELDS: [(&str, &str); 21] = [
    ("targetRefs", "retry: {}"),
    ("targetRefs[].group", "retry: {}"),
    ("targetRefs[].kind", "retry: {}"),
    ("targetRefs[].name", "retry: {}"),
    ("targetRefs[].sectionName", "retry: {}"),
    ("timeouts.mode", "timeouts: {mode: 'Off'}"),
    ("timeouts.request", "timeouts: {request: 1m30s}"),
    ("timeouts.backendRequest", "timeouts: {request: 2s, backendRequest: 300ms}"),
    ("timeouts.streamIdle", "timeouts: {mode: Audit, streamIdle: 5m}"),
    ("retry.mode", "retry: {mode: Audit}"),
    ("retry.grpcCodes", "retry: {grpcCodes: [UNAVAILABLE, RESOURCE_EXHAUSTED]}"),
    ("retry.httpCodes", "retry: {httpCodes: [400, 502, 599]}"),
    ("retry.attempts", "retry: {attempts: 10}"),
    ("retry.backoff", "retry: {backoff: 10s}"),
    ("hedge.mode", "hedge: {mode: 'Off'}"),
    ("hedge.delay", "hedge: {delay: p99.9, methods: [GET]}"),
    ("hedge.attempts", "hedge: {delay: 50ms, attempts: 3, methods: [GET]}"),
    ("hedge.methods", "hedge: {delay: p95, methods: [shop.v1.Cart/GetItem, 'shop.v1.Cart/*', Cart/Get, HEAD]}"),
    ("budget.mode", "budget: {mode: Audit}"),
    ("budget.percent", "budget: {percent: 0}"),
    ("budget.interval, budget.minPerSecond", "budget: {interval: 60s, minPerSecond: 1000}"),
];

#[test]
fn the_model_reads_every_field_that_the_custom_resource_has() {
    let mut names = Vec::new();
    leaves("", &schema()["properties"]["spec"], &mut names);
    let expected: Vec<&str> = FIELDS.iter().flat_map(|(names, _)| names.split(", ")).collect();
    assert_eq!(names, expected);
    for (name, spec) in FIELDS {
        let text = with_spec(spec);
        assert_eq!(violations(&schema(), &yaml::read(&text).expect("it is YAML")), [""; 0], "{name}");
        assert_eq!(model_reads(&text), Ok(()), "{name}");
    }
}

#[test]
fn every_target_that_the_model_reads_the_custom_resource_accepts() {
    let route = "group: gateway.networking.k8s.io, kind: ";
    for targets in [
        "[{group: '', kind: Service, name: cart, sectionName: grpc}]".to_owned(),
        "[{group: core, kind: Service, name: a.b-c}]".to_owned(),
        format!("[{{{route}HTTPRoute, name: cart}}, {{{route}GRPCRoute, name: cart, sectionName: get}}]"),
    ] {
        let text = with_targets(&targets, "retry: {}");
        assert_eq!(model_reads(&text), Ok(()), "{targets}");
        assert_eq!(violations(&schema(), &yaml::read(&text).expect("it is YAML")), [""; 0], "{targets}");
    }
}

#[test]
fn what_the_model_refuses_for_its_form_the_custom_resource_refuses_too() {
    let specs = [
        "timeout: {request: 1s}",
        "timeouts: {request: 1}",
        "timeouts: {request: 1 s}",
        "timeouts: {request: 1.5s}",
        "timeouts: {request: 123456s}",
        "timeouts: {request: 1s1s1s1s1s}",
        "timeouts: {mode: audit, request: 1s}",
        "retry: {grpcCodes: [OK]}",
        "retry: {grpcCodes: [Unavailable]}",
        "retry: {grpcCodes: [14]}",
        "retry: {httpCodes: [200]}",
        "retry: {httpCodes: [600]}",
        "retry: {attempts: 0}",
        "retry: {attempts: 11}",
        "retry: {backoff: soon}",
        "hedge: {delay: p49, methods: [GET]}",
        "hedge: {delay: p100, methods: [GET]}",
        "hedge: {delay: p95.55, methods: [GET]}",
        "hedge: {delay: p95, methods: []}",
        "hedge: {delay: p95, methods: [POST]}",
        "hedge: {delay: p95, methods: [shop.v1.Cart]}",
        "hedge: {delay: p95, methods: [/shop.v1.Cart/Get]}",
        "hedge: {delay: p95, methods: ['*/Get']}",
        "hedge: {delay: p95, methods: [1a/Get]}",
        "hedge: {delay: p95, attempts: 0, methods: [GET]}",
        "hedge: {delay: p95, attempts: 4, methods: [GET]}",
        "budget: {mode: 'Off'}",
        "budget: {percent: 101}",
        "budget: {percent: -1}",
        "budget: {interval: 10}",
        "budget: {minPerSecond: 1001}",
    ];
    let targets = [
        "[]",
        "[{kind: Gateway, name: cart}]",
        "[{kind: Service}]",
        "[{kind: Service, name: Cart}]",
        "[{kind: Service, name: a..b}]",
        "[{kind: Service, name: cart, sectionName: ''}]",
        "[{group: apps, kind: Service, name: cart}]",
    ];
    let many: Vec<String> = (0..17).map(|number| format!("{{kind: Service, name: a{number}}}")).collect();
    let methods: Vec<String> = (0..17).map(|number| format!("Cart/Get{number}")).collect();
    let texts = specs.iter().map(|spec| with_spec(spec));
    let texts = texts.chain(targets.iter().map(|targets| with_targets(targets, "retry: {}"))).chain([
        "apiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: p}\nspec: {retry: {}}\n".to_owned(),
        with_targets(&format!("[{}]", many.join(", ")), "retry: {}"),
        with_spec(&format!("hedge: {{delay: p95, methods: [{}]}}", methods.join(", "))),
    ]);
    for text in texts {
        assert!(model_reads(&text).is_err(), "{text}");
        assert!(refused(&text), "{text}");
    }
}

/// Only Kubernetes evaluates a schema's CEL rules, so this test covers only the model. The control plane's tests apply
/// the same policies to an API server.
#[test]
fn what_only_a_rule_refuses_the_model_refuses_too() {
    let route = "group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart";
    let mut texts: Vec<String> = [
        "timeouts: {}",
        "timeouts: {request: 1s, backendRequest: 2s}",
        "retry: {backoff: 11s}",
        "hedge: {delay: p95}",
        "hedge: {methods: [GET]}",
        "hedge: {delay: 2h, methods: [GET]}",
        "budget: {interval: 61s}",
    ]
    .map(with_spec)
    .into();
    texts.push(with_targets("[{kind: HTTPRoute, name: cart}]", "retry: {}"));
    texts.push(with_targets("[{group: gateway.networking.k8s.io, kind: Service, name: cart}]", "retry: {}"));
    texts.push(with_targets("[{kind: Service, name: a}, {kind: Service, name: a}]", "retry: {}"));
    texts.push(with_targets(&format!("[{{{route}}}]"), "budget: {}"));
    texts.push("apiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: p, namespace: shop}\nspec: {targetRefs: [{kind: Service, name: cart}]}\n".to_owned());
    for text in texts {
        assert!(model_reads(&text).is_err(), "{text}");
        assert!(!refused(&text), "a rule is not needed: {text}");
    }
}
