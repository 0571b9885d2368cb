use super::*;

fn latency(p99: &str) -> Result<Measured, String> {
    read(&format!(
        r#"{{"Labels": "a", "Result": {{"Latency": {{"P99": {p99}}}}}, "RetCodes": {{"200": 9, "503": 1}}}}"#
    ))
}

#[test]
fn seconds_and_durations_are_read() {
    let text = r#"{
        "Labels": "one slow pod",
        "Result": {"Latency": {"P50": 0.0012, "P90": "1.9ms", "P99": "4.5ms", "P999": "1s", "Avg": 0.002}, "ActualQPS": 500},
        "RetCodes": {"200": 990, "503": 10}
    }"#;
    let run = read(text).expect("the form of the documentation");
    assert_eq!((run.form, run.label.as_str()), (Form::Brief, "one slow pod"));
    let found = [run.p50_ms, run.p90_ms, run.p99_ms, run.p999_ms, run.mean_ms];
    assert_eq!(found, [1.2, 1.9, 4.5, 1000.0, 2.0].map(Some));
    assert_eq!((run.rate_per_s, run.errors_percent), (Some(500.0), Some(1.0)));
}

#[test]
fn only_p99_and_codes_are_required() {
    let run = latency("\"2ms\"").expect("enough");
    assert_eq!((run.p50_ms, run.p99_ms, run.rate_per_s, run.errors_percent), (None, Some(2.0), None, Some(10.0)));
    let codes =
        r#"{"Result": {"Latency": {"P99": 1}}, "RetCodes": {"SERVING": 3, "0": 1, "204": 2, "14": 1, "-1": 1}}"#;
    let run = read(codes).expect("enough");
    assert_eq!((run.label.as_str(), run.errors_percent), ("", Some(25.0)));
    let map = r#"{"Labels": {"mesh": "x", "skew": "50"}, "Result": {"Latency": {"P99": 1}}, "RetCodes": {}}"#;
    let run = read(map).expect("enough");
    assert_eq!((run.label.as_str(), run.errors_percent), ("mesh=x, skew=50", None));
    let without = read(r#"{"Result": {"Latency": {"P50": 1}}, "RetCodes": {}}"#).expect_err("P99 is required");
    assert!(without.contains("missing field `P99`"), "{without}");
    let without = read(r#"{"Result": {"Latency": {"P99": 1}}}"#).expect_err("codes are required");
    assert!(without.contains("missing field `RetCodes`"), "{without}");
}

#[test]
fn other_latencies_are_refused() {
    for p99 in ["-1", "\"-1ms\"", "1e300", "\"fast\"", "\"\"", "\"1,5ms\"", "null", "[1]", "NaN", "1e999", "true"] {
        assert!(latency(p99).is_err(), "{p99}");
    }
    let error = latency("\"fast\"").expect_err("no duration");
    assert_eq!(error, "a latency is \"fast\", which is no duration such as \"1.2ms\"");
}

#[test]
fn a_field_in_both_spellings_is_refused() {
    let text = r#"{"Result": {"Latency": {"P99": 1, "P999": 2, "P99.9": 3}}, "RetCodes": {}}"#;
    assert!(read(text).is_err_and(|error| error.contains("duplicate field")));
}
