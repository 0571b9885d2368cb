use serde_json::json;

use super::*;

fn fails(text: &str, line: usize, what: &str) {
    let fault = read(text).expect_err(text);
    assert!(fault.line == line && fault.what.contains(what), "{text}: {fault}");
}

#[test]
fn mappings_keep_their_order_and_scalars_their_types() {
    let value = read("b: 1\na: [yes, 'yes', \"1\", !!str 1, 1.5]\nc:\n- {d: null}\n- |\n  x\n").expect("it is fine");
    assert_eq!(value, json!({"b": 1, "a": [true, "yes", "1", "1", 1.5], "c": [{"d": null}, "x\n"]}));
    let keys: Vec<_> = value.as_object().expect("it is a mapping").keys().collect();
    assert_eq!(keys, ["b", "a", "c"]);
}

#[test]
fn aliases_are_expanded_and_merged_mappings_give_way_to_own_keys() {
    let text = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz: {<<: [*x, *y], a: 0}\nw: *x\n";
    let value = read(text).expect("it is fine");
    assert_eq!(value["z"], json!({"a": 0, "b": 2, "c": 4}));
    assert_eq!(value["w"], value["x"]);
}

#[test]
fn nothing_is_null() {
    for text in ["", "\n", "# comment\n", "---\n", "..."] {
        assert_eq!(read(text), Ok(Value::Null), "{text:?}");
    }
}

#[test]
fn faults_name_their_line() {
    fails("a: 1\na: 2\n", 2, "\"a\" is here twice");
    fails("a: 1\nb: [1\n", 3, "not YAML");
    fails("a: !custom 1\n", 1, "a tag");
    fails("? [a]\n: 1\n", 1, "not text");
    fails("a: 1\n---\nb: 2\n", 3, "second document");
    fails("<<: 1\n", 1, "takes a mapping");
}

/// kubectl accepts these texts, so the message has to tell what to change.
#[test]
fn a_value_with_too_little_indentation_is_refused_with_the_remedy() {
    let remedy = "indented more than its key, and kubectl does not: indent them";
    fails("a: 1\nb: [\n  \"x\"\n]\n", 4, remedy);
    fails("a: 1\nb: \"x\ny\"\n", 2, remedy);
    assert_eq!(read("b: [\n  \"x\"\n  ]\n"), Ok(json!({"b": ["x"]})));
    assert_eq!(read("b: \"x\n  y\"\n"), Ok(json!({"b": "x y"})));
}

#[test]
fn a_document_that_grows_without_end_is_refused() {
    let mut bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
    for n in 1..9 {
        let before = n - 1;
        bomb += &format!("a{n}: &a{n} [{}]\n", vec![format!("*a{before}"); 10].join(", "));
    }
    let fault = read(&bomb).expect_err("it is too much");
    assert!(fault.what.contains("values"), "{fault}");
    let deep = "[".repeat(DEPTH_MAX + 2);
    assert!(read(&deep).expect_err("it is too deep").what.contains("deep"));
}
