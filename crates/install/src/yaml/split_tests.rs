use serde_json::json;

use super::*;

fn values(text: &str) -> Vec<Value> {
    split(text).expect("it is fine").into_iter().map(|document| document.value).collect()
}

#[test]
fn documents_and_their_heads_are_the_whole_file_and_nothing_else() {
    let files = [
        "",
        "a: 1",
        "a: 1\n---\nb: 2\n",
        "# licence\n\n---\n# first\na: 1\n---\n---\n\nb: |\n  ---\n  x\n...\n",
        "--- {a: 1}\n--- # comment\nb: 2\n",
        "%YAML 1.2\n---\na: 1\n",
        "{\"a\": 1}\n{\"b\": 2}\n",
        "a: 1\r\n---\r\nb: 2\r\n",
    ];
    for file in files {
        let whole: String =
            split(file).expect(file).iter().flat_map(|document| [document.head, document.body]).collect();
        assert_eq!(whole, file);
    }
}

#[test]
fn a_document_begins_with_a_line_of_dashes() {
    assert_eq!(values("a: 1\n---\nb: 2\n"), [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(values("---\n---\n"), [Value::Null, Value::Null]);
    assert_eq!(values("--- {a: 1}\n--- # nothing\n"), [json!({"a": 1}), Value::Null]);
    assert_eq!(values("a: |\n  ---\n  b\n---x: 1\n"), [json!({"a": "---\nb\n", "---x": 1})]);
    assert_eq!(values("a: 1\r\n---\r\nb: 2\r\n"), [json!({"a": 1}), json!({"b": 2})]);
}

#[test]
fn comments_before_an_object_are_its_head() {
    let documents = split("# licence\n---\n# the web\n\nkind: Pod # here\n# end\n").expect("it is fine");
    let parts: Vec<_> = documents.iter().map(|document| (document.head, document.body)).collect();
    assert_eq!(parts, [("# licence\n", ""), ("---\n# the web\n\n", "kind: Pod # here\n# end\n")]);
}

#[test]
fn json_objects_may_follow_each_other() {
    let documents = split("{\"a\": 1}\n{\"b\": [1,\n2]}\n").expect("it is fine");
    let bodies: Vec<_> = documents.iter().map(|document| document.body).collect();
    assert_eq!(bodies, ["{\"a\": 1}", "\n{\"b\": [1,\n2]}\n"]);
    assert_eq!(values("{a: yaml}\n"), [json!({"a": "yaml"})], "what is not JSON may be YAML");
}

#[test]
fn a_fault_has_its_line_in_the_file() {
    let fault = split("a: 1\n---\n# here\nb: [\n---\nc: 3\n").expect_err("a list is open");
    assert!((4..=5).contains(&fault.line), "{fault}");
}
