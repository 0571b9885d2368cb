use super::{Node, Value, documents};
use crate::problem::Mark;

fn only(text: &str) -> Node {
    let mut documents = documents(text).expect("YAML");
    assert_eq!(documents.len(), 1, "{text:?}");
    documents.remove(0)
}

fn fault(text: &str) -> (u32, u32, String) {
    let fault = documents(text).expect_err("not a tree");
    (fault.mark.line, fault.mark.column, fault.what)
}

#[test]
fn documents_are_separated_and_may_be_empty() {
    assert!(documents("").expect("YAML").is_empty());
    assert!(documents("# only a comment\n").expect("YAML").is_empty());
    let three = documents("a: 1\n---\n---\nb: 2\n").expect("YAML");
    assert_eq!(three.len(), 3);
    assert!(three[1].is_null());
    assert_eq!(three[2].get("b").and_then(Node::text), Some("2"));
}

#[test]
fn a_path_leads_to_the_line_of_the_value() {
    let text = "spec:\n  ports:\n  - name: grpc\n    port: 80\n  labels:\n    a/b.c: x\n  empty:\n";
    let root = only(text);
    for (path, line, column) in [
        ("spec", 1, 1),
        ("spec.ports", 2, 3),
        ("spec.ports[0]", 3, 5),
        ("spec.ports[0].port", 4, 11),
        ("spec.labels[\"a/b.c\"]", 6, 12),
        ("spec.empty", 7, 3),
        ("", 1, 1),
    ] {
        assert_eq!(root.locate(path), Mark { line, column }, "{path}");
    }
}

#[test]
fn a_path_that_is_not_there_leads_to_its_nearest_parent() {
    let root = only("spec:\n  ports:\n  - name: grpc\n");
    for (path, line) in
        [("spec.ports[0].port", 3), ("spec.ports[7].port", 2), ("spec.type", 1), ("status", 1), ("spec.ports.name", 2)]
    {
        assert_eq!(root.locate(path).line, line, "{path}");
    }
}

#[test]
fn json_is_read() {
    let root = only("{\n\t\"spec\": {\n\t\t\"ports\": [ {\"port\": 80} ]\n\t}\n}");
    assert_eq!(root.locate("spec.ports[0].port"), Mark { line: 3, column: 23 });
}

#[test]
fn an_alias_repeats_what_its_anchor_names() {
    let root = only("a: &x {p: 1}\nb: *x\n");
    assert_eq!(root.get("b").and_then(|b| b.get("p")).and_then(Node::text), Some("1"));
}

#[test]
fn a_text_tag_makes_a_number_text() {
    let root = only("a: !!str 1\n");
    let Some(Value::Scalar { quoted, .. }) = root.get("a").map(|a| &a.value) else {
        panic!("{root:?}");
    };
    assert!(quoted);
}

#[test]
fn faults_say_where_they_are() {
    for (text, line, column, what) in [
        ("a: 1\na: 2\n", 2, 1, "the mapping has the key \"a\" twice"),
        ("a: !vault x\n", 1, 4, "the tag \"!vault\""),
        ("? [a]\n: b\n", 1, 3, "a key that is not text"),
        ("a: &x [*x]\n", 1, 8, "an alias inside the value that it refers to"),
    ] {
        assert_eq!(fault(text), (line, column, what.to_owned()), "{text:?}");
    }
    let (line, _, what) = fault("a: 1\n b: [1\n");
    assert_eq!(line, 2);
    assert!(what.starts_with("this is not YAML: "), "{what}");
}

#[test]
fn an_unknown_alias_is_a_fault() {
    assert_eq!(fault("a: *nobody\n").0, 1);
}

#[test]
fn nesting_is_bounded() {
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(documents(&deep(super::DEPTH_MAX)).is_ok());
    let (line, _, what) = fault(&deep(super::DEPTH_MAX + 2));
    assert_eq!((line, what.as_str()), (1, "nested more than 64 deep"));
    for level in ["[", "{a: ", "- ", "? ", "&a [", "a:\n "] {
        assert!(documents(&level.repeat(100_000)).is_err(), "{level:?}");
    }
}

#[test]
fn aliases_cannot_blow_a_small_file_up() {
    let mut bomb = "a0: &a0 [lol]\n".to_owned();
    for level in 1..40 {
        let below = level - 1;
        bomb += &format!("a{level}: &a{level} [*a{below}, *a{below}, *a{below}, *a{below}]\n");
    }
    assert_eq!(fault(&bomb).2, "the file needs more than 16 MiB to be read");

    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a, ".repeat(1000));
    assert_eq!(fault(&long).2, "the file needs more than 16 MiB to be read");
}

#[test]
fn the_largest_file_of_the_smallest_values_is_refused_and_not_kept() {
    let text = format!("[{}]", "1,".repeat(500_000));
    assert_eq!(fault(&text).2, "the file needs more than 16 MiB to be read");
}
