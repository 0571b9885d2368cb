use super::{FILE_MAX_BYTES, FINDINGS_MAX};
use crate::fixtures::{ECHO, echo_with, notices, objects, parse, problems};

#[test]
fn every_document_of_a_file_is_read_in_order() {
    let kinds: Vec<&str> = objects(ECHO).iter().map(super::Object::kind).collect();
    assert_eq!(kinds, ["Service", "EndpointSlice"]);
    assert!(objects("").is_empty());
    assert!(objects("---\n---\n# nothing\n").is_empty());
}

#[test]
fn a_list_is_expanded_and_its_items_keep_their_lines() {
    let list = |port: &str| {
        format!(
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {{name: a}}\n  spec:\n    ports:\n    - port: {port}\n"
        )
    };
    assert_eq!(objects(&list("80")).len(), 1);
    assert_eq!(
        problems(&list("70000")),
        ["echo.yaml:9: spec.ports[0].port of Service default/a: 70000 is not a port; use 1 to 65535"]
    );
    assert_eq!(problems("apiVersion: v1\nkind: List\n"), ["echo.yaml:1: items of List: a List has items; add them"]);
}

#[test]
fn json_is_read_with_its_lines() {
    let json = r#"{
  "apiVersion": "v1", "kind": "Service",
  "metadata": {"name": "echo", "namespace": "shop"},
  "spec": {"ports": [{"port": 0}]}
}"#;
    assert_eq!(
        problems(json),
        ["echo.yaml:4: spec.ports[0].port of Service shop/echo: 0 is not a port; use 1 to 65535"]
    );
}

#[test]
fn other_kinds_are_told_and_stop_nothing() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: echo}\nspec: {anything: [1]}\n";
    assert_eq!(
        notices(text),
        [
            "echo.yaml:1: Deployment default/echo: ignored: Leno reads Services, EndpointSlices, routes, ReferenceGrants, XBackendTrafficPolicies and its own policies"
        ]
    );
    let knative = "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: echo}\n";
    assert_eq!(notices(knative).len(), 1, "another group's Service is not ours");
}

#[test]
fn what_is_not_quite_a_known_kind_is_a_problem() {
    for (text, line) in [
        (
            "apiVersion: v1\nkind: Servcie\nmetadata: {name: a}\n",
            "echo.yaml:2: kind of Servcie default/a: \"Servcie\" is not a kind of v1; did you mean Service?",
        ),
        ("apiVersion: v2\nkind: Service\n", "echo.yaml:1: apiVersion of Service: \"v2\" is not read; use v1"),
        (
            "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\n",
            "echo.yaml:1: apiVersion of EndpointSlice: \"discovery.k8s.io/v1beta1\" is not read; use discovery.k8s.io/v1",
        ),
        (
            "kind: Service\n",
            "echo.yaml:1: apiVersion of Service: a Kubernetes object needs it; add it, for example `apiVersion: v1` and `kind: Service`",
        ),
        (
            "\n\nhello\n",
            "echo.yaml:3: apiVersion: a Kubernetes object needs it; add it, for example `apiVersion: v1` and `kind: Service`",
        ),
    ] {
        assert_eq!(problems(text), [line]);
    }
}

#[test]
fn text_that_is_not_yaml_says_line_and_cause() {
    let lines = problems("apiVersion: v1\nkind: [Service\nmetadata: x\n");
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("echo.yaml:3: this is not YAML: "), "{lines:?}");
}

#[test]
fn a_mistake_in_one_object_refuses_the_whole_file() {
    assert!(parse(&echo_with("port: 50061", "port: 0")).is_err());
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let text = "#".repeat(FILE_MAX_BYTES + 1);
    assert_eq!(
        problems(&text),
        ["echo.yaml:1: the file has 2097153 bytes; split it into files of at most 2097152 bytes"]
    );
    assert!(objects(&text[1..]).is_empty());
}

#[test]
fn the_number_of_findings_is_bounded() {
    let bad = "apiVersion: v1\nkind: Servcie\n---\n".repeat(1000);
    assert_eq!(problems(&bad).len(), FINDINGS_MAX);
    let foreign = "apiVersion: v1\nkind: Secret\n---\n".repeat(1000);
    assert_eq!(notices(&foreign).len(), FINDINGS_MAX);
}

#[test]
fn text_of_the_file_cannot_break_a_message_into_lines() {
    let text = echo_with("name: echo\n", "name: \"e\\ncho\"\n");
    for line in problems(&text) {
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}
