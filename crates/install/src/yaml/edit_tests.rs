use serde_json::json;

use super::*;
use crate::patch::apply;

/// A Deployment as people write it.
const MANIFEST: &str = "\
# The web server.
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}   # flow style stays
spec:
  template:
    metadata:
      labels:
        app: web  # for the Service

    spec:
      initContainers:
      # Waits for the database.
      - name: wait
        command: ['sh', '-c']
        args:
        - |
          until nc db 5432; do
            sleep 1
          done

      containers:
      - name: web   # the only one
        image: \"web:1\"
      # The end.
";

fn add(path: &str, value: Value) -> Operation {
    Operation::Add { path: path.to_owned(), value }
}

fn edited(text: &str, operations: &[Operation]) -> Option<String> {
    let mut wanted = read(text).expect("YAML");
    apply(&mut wanted, operations).expect("they fit");
    edit(text, operations, &wanted)
}

#[test]
fn new_lines_are_all_that_changes() {
    let operations = [
        add("/spec/template/spec/initContainers/0", json!({"name": "proxy", "args": ["a", "b"]})),
        add("/spec/template/spec/volumes", json!([{"name": "identity"}])),
        add("/spec/template/metadata/labels/leno.dev~1injected", json!("true")),
    ];
    let text = edited(MANIFEST, &operations).expect("it can be edited");
    let mut rest = MANIFEST.lines().peekable();
    let new: Vec<&str> = text.lines().filter(|line| rest.next_if_eq(line).is_none()).collect();
    assert!(rest.next().is_none(), "every old line is there, in order:\n{text}");
    assert_eq!(
        new,
        [
            "        leno.dev/injected: \"true\"",
            "      - name: proxy",
            "        args:",
            "        - a",
            "        - b",
            "      volumes:",
            "      - name: identity",
        ],
        "{text}"
    );
    assert!(text.contains("        - b\n      # Waits for the database.\n      - name: wait\n"), "{text}");
}

#[test]
fn what_was_added_can_be_removed_again() {
    let injected = edited(
        MANIFEST,
        &[
            add("/spec/template/spec/initContainers/0", json!({"name": "proxy"})),
            add("/spec/template/spec/volumes", json!([{"name": "identity"}])),
        ],
    );
    let remove = |path: &str| Operation::Remove { path: path.to_owned() };
    let operations = [remove("/spec/template/spec/initContainers/0"), remove("/spec/template/spec/volumes")];
    assert_eq!(edited(&injected.expect("it can be edited"), &operations).as_deref(), Some(MANIFEST));
}

#[test]
fn line_ends_of_windows_stay() {
    let text = edited(&MANIFEST.replace('\n', "\r\n"), &[add("/spec/template/spec/volumes", json!([]))])
        .expect("it can be edited");
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    assert!(text.contains("      volumes: []\r\n"), "{text}");
}

#[test]
fn what_is_written_in_flow_style_or_replaced_is_not_edited() {
    assert_eq!(edited("{a: {b: 1}}\n", &[add("/a/c", json!(1))]), None);
    assert_eq!(edited("a: {b: 1}\n", &[add("/a/c", json!(1))]), None);
    assert_eq!(edited("a:\n  b: 1\n", &[add("/a/b", json!(2))]), None);
    assert_eq!(edited("a: &x\n  b: 1\nc: *x\n", &[add("/a/d", json!(2))]), None);
}

#[test]
fn a_last_line_without_an_end_gets_one() {
    assert_eq!(edited("a: 1", &[add("/b", json!(2))]).as_deref(), Some("a: 1\nb: 2\n"));
}
