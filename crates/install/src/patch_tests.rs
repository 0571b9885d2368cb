use serde_json::json;

use super::*;

fn add(path: &str, value: Value) -> Operation {
    Operation::Add { path: path.to_owned(), value }
}

fn remove(path: &str) -> Operation {
    Operation::Remove { path: path.to_owned() }
}

#[test]
fn members_are_added_replaced_and_removed_by_escaped_names() {
    let mut document = json!({"labels": {"a/b": "1", "c~d": "2"}});
    let operations = [add("/labels/a~1b", json!("3")), remove("/labels/c~0d"), add("/labels/e", json!("4"))];
    apply(&mut document, &operations).expect("all of them fit");
    assert_eq!(document, json!({"labels": {"a/b": "3", "e": "4"}}));
}

#[test]
fn items_are_inserted_before_an_index_or_appended() {
    let mut document = json!({"list": [1, 2]});
    apply(&mut document, &[add("/list/0", json!(0)), add("/list/-", json!(3)), remove("/list/1")]).expect("they fit");
    assert_eq!(document, json!({"list": [0, 2, 3]}));
}

#[test]
fn a_path_that_leads_nowhere_is_named() {
    for operation in
        [add("/a/b", json!(1)), remove("/list/2"), add("/list/9", json!(1)), remove("/x"), add("", json!(1))]
    {
        let mut document = json!({"list": [1, 2]});
        assert!(apply(&mut document, std::slice::from_ref(&operation)).is_err(), "{operation:?}");
        assert_eq!(document, json!({"list": [1, 2]}));
    }
}

#[test]
fn a_patch_is_written_as_the_standard_says() {
    let patch = [add("/spec/volumes/-", json!({"name": "x"})), remove("/spec/initContainers/0").within("/template")];
    let text = serde_json::to_string(&patch).expect("it is JSON");
    let expected = concat!(
        r#"[{"op":"add","path":"/spec/volumes/-","value":{"name":"x"}},"#,
        r#"{"op":"remove","path":"/template/spec/initContainers/0"}]"#
    );
    assert_eq!(text, expected);
}
