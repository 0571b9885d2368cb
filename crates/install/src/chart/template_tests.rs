use serde_json::json;

use super::*;

fn rendered(template: &str) -> Result<String, TemplateError> {
    let values = json!({
        "name": "web", "count": 3, "none": null, "empty": "", "off": false, "map": {"b": [1, 2], "a": "x"}, "quoted": "a \"b\"",
    });
    render(template, &json!({"Values": values, "Files": {"files/a.yaml": "a: {{ b }}\nc: d\n"}}))
}

#[test]
fn fields_and_literals_are_printed_as_they_are() {
    assert_eq!(
        rendered("a {{ .Values.name }}-{{ .Values.count }} {{ \"x y\" }}{{ 7 }}.").as_deref(),
        Ok("a web-3 x y7.")
    );
    assert_eq!(rendered("no actions").as_deref(), Ok("no actions"));
}

#[test]
fn a_dash_trims_the_white_space_on_its_side() {
    assert_eq!(rendered("a \n {{- 1 -}} \n b").as_deref(), Ok("a1b"));
    assert_eq!(rendered("a \n {{ 1 -}} \n b").as_deref(), Ok("a \n 1b"));
    assert_eq!(rendered("{{- /* nothing */ -}}\n\na").as_deref(), Ok("a"));
}

#[test]
fn of_an_if_one_side_is_rendered_and_the_other_passed_over() {
    assert_eq!(rendered("{{ if .Values.name }}a{{ else }}b{{ end }}").as_deref(), Ok("a"));
    let nested = "{{ if .Values.off }}a{{ if .Values.name }}b{{ end }}{{ .Values.map }}{{ else }}c{{ if 1 }}d{{ end }}{{ end }}e";
    assert_eq!(rendered(nested).as_deref(), Ok("cde"));
    for nothing in [".Values.none", ".Values.empty", ".Values.off", ".Values.not.there", "0", "\"\""] {
        assert_eq!(rendered(&format!("{{{{ if {nothing} }}}}a{{{{ end }}}}")).as_deref(), Ok(""), "{nothing}");
    }
}

#[test]
fn functions_take_arguments_and_then_what_is_piped() {
    assert_eq!(rendered("{{ .Values.empty | default \"x\" | quote }}").as_deref(), Ok("\"x\""));
    assert_eq!(
        rendered("{{ or .Values.empty .Values.name }}{{ or .Values.count .Values.name }}").as_deref(),
        Ok("web3")
    );
    assert_eq!(rendered("{{ quote .Values.quoted }}").as_deref(), Ok(r#""a \"b\"""#));
    assert_eq!(rendered("m:{{ toYaml .Values.map | nindent 2 }}").as_deref(), Ok("m:\n  b:\n  - 1\n  - 2\n  a: x"));
    assert_eq!(rendered("{{ toYaml .Values.map | indent 1 }}").as_deref(), Ok(" b:\n - 1\n - 2\n a: x"));
    assert_eq!(
        rendered("{{ if eq .Values.count 3 }}a{{ end }}{{ if ne .Values.name \"web\" }}b{{ end }}").as_deref(),
        Ok("a")
    );
    let any = "{{ if eq .Values.name \"api\" \"web\" }}a{{ end }}{{ if eq .Values.name \"api\" \"db\" }}b{{ end }}";
    assert_eq!(rendered(any).as_deref(), Ok("a"));
    assert_eq!(rendered("{{ .Files.Get \"files/a.yaml\" | nindent 2 }}").as_deref(), Ok("\n  a: {{ b }}\n  c: d"));
    let has = "{{ if has 2 .Values.map.b }}a{{ end }}{{ if has 3 .Values.map.b }}b{{ end }}";
    assert_eq!(rendered(has).as_deref(), Ok("a"));
}

#[test]
fn what_does_not_work_is_an_error_and_never_nothing() {
    let syntax = |action: &str| Err(TemplateError::Syntax(action.to_owned()));
    assert_eq!(rendered("{{ .Values.nmae }}"), Err(TemplateError::Missing(".Values.nmae".to_owned())));
    assert_eq!(rendered("{{ .Values.map }}"), syntax(".Values.map"));
    assert_eq!(rendered("{{ upper .Values.name }}"), syntax("upper .Values.name"));
    assert_eq!(rendered("{{ eq .Values.name }}"), syntax("eq .Values.name"));
    assert_eq!(rendered("{{ .Values.name .Values.name }}"), syntax(".Values.name .Values.name"));
    assert_eq!(rendered("{{ range .Values.map }}{{ end }}"), syntax("range .Values.map"));
    assert_eq!(rendered("a {{ b"), syntax("b"));
    let missing = ".Files.Get \"files/b.yaml\"";
    assert_eq!(rendered(&format!("{{{{ {missing} }}}}")), Err(TemplateError::Missing(missing.to_owned())));
    assert_eq!(rendered("{{ fail \"no, because\" }}"), Err(TemplateError::Fail("no, because".to_owned())));
    for unbalanced in
        ["{{ end }}", "{{ if 1 }}", "{{ if 1 }}{{ else }}", "{{ else }}", "{{ if 1 }}{{ else }}{{ else }}{{ end }}"]
    {
        assert_eq!(rendered(unbalanced), Err(TemplateError::Unbalanced), "{unbalanced}");
    }
}
