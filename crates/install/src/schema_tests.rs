use serde_json::json;

use super::*;
use crate::yaml;

pub(super) fn violations(schema: &Value, value: &Value) -> Vec<String> {
    check(schema, value).iter().map(ToString::to_string).collect()
}

#[test]
fn violations_name_the_field_and_what_would_fit() {
    let schema = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "mode": {"enum": ["On", "Off"]},
            "port": {"type": "integer", "not": {"enum": [80, 443]}},
            "ports": {"type": "array", "minItems": 1, "items": {"type": "integer", "maximum": 65535}},
            "labels": {"type": "object"},
        },
    });
    assert_eq!(
        violations(&schema, &json!({"name": "a", "mode": "On", "port": 81, "ports": [1], "labels": {"x": [1]}})),
        [""; 0]
    );
    assert_eq!(violations(&schema, &json!([])), ["the list is not a mapping"]);
    let wrong = json!({"name": "", "mode": "on", "port": 443, "ports": [70000, "x"], "lables": {}, "other": 1});
    let expected = [
        "name: \"\" is less than 1 letters",
        "mode: \"on\" is not one of \"On\", \"Off\"",
        "port: 443 is one of 80, 443, which are reserved",
        "ports[0]: 70000 is more than 65535",
        "ports[1]: \"x\" is not a whole number",
        "lables: there is no such field; did you mean labels?",
        "other: there is no such field",
    ];
    assert_eq!(violations(&schema, &wrong), expected);
    let form = json!({"type": "string", "pattern": "^[a-z]+$"});
    assert_eq!(violations(&form, &json!("abc")), [""; 0]);
    assert_eq!(violations(&form, &json!("ab1")), ["\"ab1\" is not of the form ^[a-z]+$"]);
    assert_eq!(violations(&schema, &json!({"ports": []})), ["name: missing", "ports: the list is less than 1 items"]);
}

const CRD: &str = include_str!("../../../charts/leno/crds/authorizationpolicies.yaml");

fn policy_schema() -> Value {
    schema_of(CRD)
}

/// Returns the schema of a custom resource definition.
pub(super) fn schema_of(crd: &str) -> Value {
    let crd = yaml::read(crd).expect("it is YAML");
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema").expect("it has a schema").clone()
}

/// The AuthorizationPolicies in the YAML blocks of docs/policy.md.
fn documented() -> Vec<String> {
    let page = include_str!("../../../docs/policy.md");
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0.to_owned()));
    blocks.filter(|block| block.contains("kind: AuthorizationPolicy")).collect()
}

pub(super) fn model_reads(text: &str) -> Result<(), String> {
    let file = leno_model::manifest::SourceFile { path: "policy.yaml".to_owned(), text: text.to_owned() };
    leno_model::manifest::parse_file(&file, "shop").map(drop).map_err(|refused| refused.problems[0].to_string())
}

#[test]
fn the_documented_policy_fits_its_custom_resource_and_has_all_of_its_fields() {
    let schema = policy_schema();
    let documented = documented();
    assert!(!documented.is_empty());
    for text in &documented {
        let policy = yaml::read(text).expect("it is YAML");
        assert_eq!(violations(&schema, &policy), [""; 0]);
        assert_eq!(model_reads(text), Ok(()));
    }
    let policy = yaml::read(&documented[0]).expect("it is YAML");
    let spec = schema["properties"]["spec"]["properties"].as_object().expect("it has fields");
    for field in spec.keys() {
        assert!(policy["spec"].get(field).is_some(), "docs/policy.md says nothing of {field}");
    }
}

/// Each field of the schema's spec with a valid value.
const FIELDS: [(&str, &str); 9] = [
    ("targetRef.group", "{allow: [], targetRef: {group: '', kind: ServiceAccount, name: a}}"),
    ("targetRef.kind", "{allow: [], targetRef: {kind: Namespace, name: shop}}"),
    ("targetRef.name", "{allow: [], targetRef: {kind: ServiceAccount, name: a}}"),
    ("ports", "{allow: [], ports: [1, 65535]}"),
    ("mode", "{allow: [], mode: Audit}"),
    ("allow", "{allow: []}"),
    ("allow[].identities", "{allow: [{identities: ['*']}]}"),
    ("allow[].networks", "{allow: [{networks: [10.0.0.0/8]}]}"),
    ("healthChecks", "{allow: [], healthChecks: [/healthz]}"),
];

fn with_spec(spec: &str) -> String {
    format!(
        "apiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {{name: p, namespace: shop}}\nspec: {spec}\n"
    )
}

#[test]
fn the_model_reads_every_field_that_the_custom_resource_has() {
    let schema = policy_schema();
    let mut names = Vec::new();
    leaves("", &schema["properties"]["spec"], &mut names);
    assert_eq!(names, FIELDS.map(|(name, _)| name));
    for (name, spec) in FIELDS {
        let text = with_spec(spec);
        assert_eq!(violations(&schema, &yaml::read(&text).expect("it is YAML")), [""; 0], "{name}");
        assert_eq!(model_reads(&text), Ok(()), "{name}");
    }
}

/// Collects the paths of all fields that have no fields of their own; a list of mappings counts as one field.
pub(super) fn leaves(at: &str, schema: &Value, names: &mut Vec<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        if field["items"]["properties"].is_object() {
            names.push(path.clone());
            leaves(&format!("{path}[]"), &field["items"], names);
        } else if field["properties"].is_object() {
            leaves(&path, field, names);
        } else {
            names.push(path);
        }
    }
}

#[test]
fn what_the_model_reads_the_custom_resource_does_not_refuse_for_its_form() {
    let schema = policy_schema();
    for spec in [
        "{allow: [{identities: ['*', ns/shop/sa/web, ns/*/sa/web, ns/shop/sa/*, 'ns/*/sa/*', ns/a/sa/b.c-d.e]}]}",
        "{allow: [{identities: ['spiffe://other.org/ns/shop/sa/web', 'spiffe://a_b-c.org/ns/*/sa/*']}]}",
        "{allow: [{networks: [10.0.0.0/8, 10.1.2.3, 0.0.0.0/0, '::/0', 'fd00::/8', 'FD00::1', '64:ff9b::1.2.3.4']}]}",
        "{allow: [], healthChecks: [/, /healthz, /healthz/, /a/.b/..c/d.e, '/~!$&()*+,;=:@-_', \"/'\"]}",
        "{allow: [], healthChecks: [/grpc.health.v1.Health/Check]}",
        "{allow: [], targetRef: {kind: ServiceAccount, name: a.b-c}}",
    ] {
        let text = with_spec(spec);
        assert_eq!(model_reads(&text), Ok(()), "{spec}");
        assert_eq!(violations(&schema, &yaml::read(&text).expect("it is YAML")), [""; 0], "{spec}");
    }
}

#[test]
fn what_the_model_refuses_for_its_form_the_custom_resource_refuses_too() {
    let schema = policy_schema();
    let wrong = [
        "{}",
        "{allow: {}}",
        "{allow: [], ports: []}",
        "{allow: [], ports: [0]}",
        "{allow: [], ports: [65536]}",
        "{allow: [], ports: ['80']}",
        "{allow: [], mode: enforce}",
        "{allow: [{identities: []}]}",
        "{allow: [{networks: []}]}",
        "{allow: [{networks: ['']}]}",
        "{allow: [], targetRef: {kind: Service, name: a}}",
        "{allow: [], targetRef: {kind: ServiceAccount, name: ''}}",
        "{allow: [], targetRef: {group: apps, kind: ServiceAccount, name: a}}",
        "{allow: [], healthCheck: [/healthz]}",
        "{allow: [], healthChecks: ['']}",
        "{allow: [], healthChecks: [healthz]}",
        "{allow: [], healthChecks: [/a//b]}",
        "{allow: [], healthChecks: [/a/../b]}",
        "{allow: [], healthChecks: [/a/.]}",
        "{allow: [], healthChecks: ['/a%20b']}",
        "{allow: [], healthChecks: ['/a?b']}",
        "{allow: [], targetRef: {kind: ServiceAccount, name: Cart}}",
        "{allow: [{identities: [shop/web]}]}",
        "{allow: [{identities: [ns/shop/sa/]}]}",
        "{allow: [{identities: [ns/shop/sa/web/x]}]}",
        "{allow: [{identities: [ns/Shop/sa/web]}]}",
        "{allow: [{identities: ['spiffe:///ns/shop/sa/web']}]}",
        "{allow: [{identities: ['**']}]}",
        "{allow: [{networks: [10.0.0.0/8/8]}]}",
        "{allow: [{networks: [10.0.0]}]}",
        "{allow: [{networks: [everybody]}]}",
    ];
    for spec in wrong {
        let text = with_spec(spec);
        assert!(model_reads(&text).is_err(), "{spec}");
        assert!(!violations(&schema, &yaml::read(&text).expect("it is YAML")).is_empty(), "{spec}");
    }
    // Only Kubernetes evaluates a schema's CEL rules, so compare the rule's text, and test that the model agrees.
    let rule = &schema["properties"]["spec"]["properties"]["allow"]["items"]["x-kubernetes-validations"][0]["rule"];
    assert_eq!(rule, "has(self.identities) || has(self.networks)");
    assert!(model_reads(&with_spec("{allow: [{}]}")).is_err());
}
