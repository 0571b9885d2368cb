use serde_json::{Map, json};

use super::super::read;
use super::*;

#[test]
fn objects_look_as_kubectl_writes_them() {
    let value = json!({
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": {}, "labels": null},
        "spec": {
            "containers": [{"name": "web", "args": ["--a=b", "-c", "10m", "25%", "echo hi # there"], "ports": []}, [1, [2.5]], {}],
            "script": "set -e\n\nrun \"it\"\n",
            "on": "yes",
        },
    });
    let expected = "\
kind: Pod
metadata:
  name: web
  annotations: {}
  labels: null
spec:
  containers:
  - name: web
    args:
    - --a=b
    - -c
    - 10m
    - 25%
    - \"echo hi # there\"
    ports: []
  - - 1
    - - 2.5
  - {}
  script: |
    set -e

    run \"it\"
  \"on\": \"yes\"
";
    assert_eq!(write(&value), expected);
    assert_eq!(read(expected), Ok(value));
}

#[test]
fn text_that_a_reader_could_take_for_something_else_is_quoted() {
    let risky = [
        "",
        " ",
        "y",
        "No",
        "null",
        "~",
        "1",
        "1.0",
        "0x1f",
        "1e3",
        "1:30",
        "2001-01-01",
        ".5",
        "-",
        "- a",
        "--",
        "---x",
        "-1",
        "-.inf",
        "-x: y",
        "1m1",
        "0x1m",
        "a: b",
        "a:",
        "a #b",
        "#",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a",
        "|",
        ">",
        "{}",
        "[]",
        "a,b]",
        "'",
        "\"",
        "\\",
        "a\tb",
        "---",
        "...",
        "<<",
        "=",
        "?",
        "\u{7f}",
        "\u{feff}",
        "é",
        "\u{2028}",
        "a\r\nb",
        " a\nb",
        "a\n\n",
        "\n",
        "a \n",
        "a\nb",
        "a\nb\n",
        "a\n b\n",
        "\ta\nb",
        "日本\n語",
        "😀",
    ];
    for text in risky {
        for value in [json!(text), json!({ "k": text }), json!([text, [text]]), json!({ text: [{ text: text }] })] {
            let written = write(&value);
            assert_eq!(read(&written), Ok(value), "{written}");
        }
    }
}

#[test]
fn whatever_is_written_is_read_back() {
    let seed = leno_testing::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..2_000 {
        let value = any(&mut random, 4);
        let written = write(&value);
        assert_eq!(read(&written), Ok(value), "seed {seed}:\n{written}");
    }
}

fn any(random: &mut fastrand::Rng, depth: usize) -> Value {
    match random.u8(..if depth == 0 { 4 } else { 6 }) {
        0 => json!(random.i64(..)),
        1 => json!(random.bool()),
        2 => Value::Null,
        3 => json!(any_text(random)),
        4 => (0..random.usize(..4)).map(|_| any(random, depth - 1)).collect(),
        _ => (0..random.usize(..4)).map(|_| (any_text(random), any(random, depth - 1))).collect::<Map<_, _>>().into(),
    }
}

fn any_text(random: &mut fastrand::Rng) -> String {
    const LETTERS: &str = "ab1 :-#\n\t'\"{}[],&*!|>%@`\\.~=?é\u{85}";
    let letters: Vec<char> = LETTERS.chars().collect();
    (0..random.usize(..9)).filter_map(|_| random.choice(&letters)).collect()
}
