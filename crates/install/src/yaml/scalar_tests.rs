use serde_json::json;

use super::*;

#[test]
fn words_mean_what_kubectl_takes_them_for() {
    for text in ["y", "Yes", "on", "TRUE", "true"] {
        assert_eq!(resolve(text), json!(true), "{text}");
    }
    for text in ["n", "No", "OFF", "false"] {
        assert_eq!(resolve(text), json!(false), "{text}");
    }
    for text in ["", "~", "null", "NULL"] {
        assert_eq!(resolve(text), Value::Null, "{text}");
    }
    for text in [
        "yES",
        "tRUE",
        "nil",
        "web",
        "1.2.3",
        "10m",
        "2001-01-01",
        "10.0.0.0/8",
        "-",
        "+",
        ".",
        "..",
        "0x",
        "1e",
        ".inf",
    ] {
        assert_eq!(resolve(text), json!(text), "{text}");
    }
}

#[test]
fn numbers_may_have_a_radix_a_sign_and_underscores() {
    let numbers = [
        ("0", 0),
        ("-0", 0),
        ("42", 42),
        ("+42", 42),
        ("-42", -42),
        ("0644", 420),
        ("0o644", 420),
        ("0x1F", 31),
        ("-0b101", -5),
        ("1_000_000", 1_000_000),
        ("-9223372036854775808", i64::MIN),
    ];
    for (text, number) in numbers {
        assert_eq!(resolve(text), json!(number), "{text}");
    }
    assert_eq!(resolve("18446744073709551615"), json!(u64::MAX));
    for (text, number) in [("1.5", 1.5), (".5", 0.5), ("-1.25E-2", -0.0125), ("1e-7", 1e-7), ("1e20", 1e20)] {
        assert_eq!(resolve(text), json!(number), "{text}");
    }
    for (text, number) in [("1e3", 1000), ("08", 8), ("1.", 1), ("-5.0", -5), (".5e1", 5)] {
        assert_eq!(resolve(text), json!(number), "{text}");
    }
    for text in ["--1", "+-1", "1e999", "0x-1", "1-1"] {
        assert_eq!(resolve(text), json!(text), "{text}");
    }
}
