use std::fs;

use serde_json::Value;

use super::*;
use crate::formats::fixtures::{FORTIO_HTTP, GHZ};

/// A directory with the files of two tools: three repeats of the first tool, and one run of the second tool.
fn results() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(dir.path().join("fortio")).expect("it is writable");
    for repeat in 1..=3 {
        let text = FORTIO_HTTP.replace("\"Value\": 0.00053", &format!("\"Value\": 0.0005{repeat}"));
        fs::write(dir.path().join(format!("fortio/{repeat}.json")), text).expect("it is writable");
    }
    fs::write(dir.path().join("ghz.json"), GHZ).expect("it is writable");
    dir
}

fn compared(dir: &tempfile::TempDir, json: bool) -> String {
    let results = ["fortio", "ghz.json"].map(|name| dir.path().join(name)).to_vec();
    let mut printed = Vec::new();
    run(&Options { results, json }, &mut printed).expect("two results");
    String::from_utf8(printed).expect("text")
}

#[test]
fn repeats_are_one_side_with_an_interval_and_one_run_says_that_it_has_none() {
    let dir = results();
    let text = compared(&dir, false);
    assert!(text.contains("fortio (Fortio): echo over http; 3 runs\n"), "{text}");
    assert!(text.contains("ghz.json (ghz): echo; one run, no interval\n"), "{text}");
    assert!(text.contains("0.523 ± 0.025"), "{text}");
    assert!(text.contains("0.437 (-16.4 %)"), "{text}");
}

#[test]
fn json_has_every_figure_and_null_for_what_is_unknown() {
    let dir = results();
    let sides: Value = serde_json::from_str(&compared(&dir, true)).expect("JSON");
    let [fortio, ghz] = [0, 1].map(|side| sides[side].clone());
    assert_eq!((&fortio["runs"], &ghz["runs"], &ghz["form"]), (&3.into(), &1.into(), &"ghz".into()));
    assert!(fortio["figures"]["p50_ms"]["plus_minus"].as_f64().is_some_and(|half| half > 0.0), "{fortio}");
    assert_eq!(fortio["figures"]["p50_ms"]["gap_percent"], 0.0);
    assert!(ghz["figures"]["p50_ms"]["gap_percent"].as_f64().is_some_and(|gap| gap < 0.0), "{ghz}");
    assert!(ghz["figures"]["p999_ms"]["mean"].is_null() && ghz["figures"]["p50_ms"]["plus_minus"].is_null(), "{ghz}");
    assert!(fortio["figures"]["errors_percent"]["gap_percent"].is_null(), "{fortio}");
}

#[test]
fn a_result_that_cannot_be_read_ends_the_comparison() {
    let dir = results();
    let results = vec![dir.path().join("ghz.json"), dir.path().join("none.json")];
    let error = run(&Options { results, json: false }, &mut Vec::new()).expect_err("none.json is missing").to_string();
    assert!(error.contains("none.json"), "{error}");
}
