use super::*;

#[test]
fn files_are_read_and_what_cannot_be_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("web.yaml");
    std::fs::write(&path, "kind: Pod\n").expect("it is written");
    assert_eq!(read(&path).expect("it is there"), "kind: Pod\n");
    let error = read(&dir.path().join("wbe.yaml")).expect_err("it is not there").to_string();
    assert!(error.contains("wbe.yaml: No such file"), "{error}");
}

#[test]
fn files_follow_each_other_with_a_marker_between() {
    let mut text = String::new();
    for next in ["a: 1", "b: 2\n", "---\nc: 3\n"] {
        append(&mut text, next, None);
    }
    assert_eq!(text, "a: 1\n---\nb: 2\n---\nc: 3\n");
    let mut text = "{}\n".to_owned();
    append(&mut text, "{}\n", Some(Format::Json));
    assert_eq!(text, "{}\n{}\n");
}

#[test]
fn standard_input_is_called_so() {
    assert_eq!(name(Path::new("-")), "standard input");
    assert_eq!(name(Path::new("./-")), "./-");
}

#[test]
fn a_helm_template_is_named_as_such_with_the_command_that_renders_it() {
    let template = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\n";
    assert_eq!(template_line(template), Some(4));
    assert_eq!(template_line("{{- if .Values.web }}\nkind: Pod\n{{- end }}\n"), Some(1));
    assert_eq!(template_line("args:\n- {{ .Values.argument }}\n"), Some(2));
    let input = Input { name: "web.yaml".to_owned(), text: template.to_owned() };
    let fault = Namespaces::default().read(template).expect_err("YAML has no such key");
    assert!(matches!(input.refuse(INJECT, fault), Error::Template { line: 4, .. }));
    let error = Error::Template { file: "web.yaml".to_owned(), line: 4, command: "leno inject" };
    assert_eq!(
        error.to_string(),
        "web.yaml:4: this is a Helm template ({{...}}), not a Kubernetes object; render it first: helm template CHART | leno inject -"
    );
}

#[test]
fn braces_that_yaml_takes_for_text_make_no_helm_template() {
    for text in [
        "summary: the instance\n  {{ $labels.instance }} is down\n",
        "summary: \"the instance\n  {{ $labels.instance }} is down\"\n",
        "summary: >- # folded\n  {{ $labels.instance }}\n",
        "args: [\"{{ .Name }}\"]\n",
        "summary: 'of {{ $labels.instance }}'\n",
        "annotation: value of {{ x }}\n",
        "# {{ a comment }}\nkind: Pod\n",
        "data:\n  rules: |\n    {{ range . }}\n\n    name: {{ . }}\n  other: a\n",
        "data:\n  rules: |-2\n    {{ range . }}\n",
        "{\"kind\": \"Pod\"}\n",
    ] {
        Namespaces::default().read(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    }
}

#[test]
fn a_namespace_of_any_file_applies_to_the_workloads_of_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("it is written");
        path
    };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  annotations:\n    \
                     leno.dev/default-inbound-policy: deny\n";
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec:\n  containers:\n  - name: web\n";
    let (namespace, pod) = (write("ns.yaml", namespace), write("web.yaml", pod));
    for files in [vec![namespace.clone(), pod.clone()], vec![pod, namespace]] {
        let files = Files { files, output: None };
        let inputs = files.read().expect("they are there");
        let namespaces = namespaces(&inputs, "default").expect("they are YAML");
        let texts: Vec<_> = inputs.iter().map(|input| &input.text).collect();
        let injected = texts.iter().map(|text| inject_file(text, &namespaces, &InjectOptions::default(), None));
        let injected: String = injected.map(|rewritten| rewritten.expect("it is YAML").text).collect();
        assert!(injected.contains("--default-inbound-policy=deny"), "{injected}");
    }
}
