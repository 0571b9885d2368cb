use serde_json::{Value, json};

use super::super::super::fixtures::{FORTIO_GRPC, FORTIO_HTTP, changed};
use super::*;

#[test]
fn a_file_of_fortios_http_run_is_read() {
    let run = read(FORTIO_HTTP).expect("Fortio wrote it");
    assert_eq!((run.form, run.label.as_str()), (Form::Fortio, "echo over http"));
    let ms = [run.p50_ms, run.p90_ms, run.p99_ms, run.p999_ms, run.mean_ms].map(|ms| ms.expect("Fortio knows it"));
    let expected = [0.5334, 0.9391, 4.4987, 4.7979, 0.3387];
    assert!(ms.iter().zip(expected).all(|(ms, expected)| (ms - expected).abs() < 0.0001), "{ms:?}");
    assert_eq!((run.rate_per_s.map(f64::round), run.errors_percent), (Some(200.0), Some(0.0)));
}

#[test]
fn failed_calls_of_fortios_grpc_run_are_counted() {
    let run = read(FORTIO_GRPC).expect("Fortio wrote it");
    assert_eq!(run.errors_percent, Some(50.0));
}

#[test]
fn files_of_old_versions_without_the_errors_histogram_are_read_by_their_codes() {
    let mut document: Value = serde_json::from_str(FORTIO_GRPC).expect("Fortio writes JSON");
    let fields = document.as_object_mut().expect("an object");
    fields.remove("ErrorsDurationHistogram");
    fields.remove("ID");
    let run = read(&document.to_string()).expect("an old file");
    assert_eq!(run.errors_percent, Some(50.0));
}

#[test]
fn a_percentile_that_fortio_did_not_compute_is_unknown() {
    let one = json!([{"Percentile": 99, "Value": 0.25}]);
    let run = read(&changed(FORTIO_HTTP, "/DurationHistogram/Percentiles", one)).expect("a run");
    assert_eq!((run.p50_ms, run.p99_ms), (None, Some(250.0)));
}

#[test]
fn impossible_values_are_refused_with_their_name() {
    let wrong = [
        ("/DurationHistogram/Percentiles/0/Value", json!(-0.001), "p50 is -1 ms"),
        ("/DurationHistogram/Percentiles/3/Value", json!(1e300), "p99 is 1"),
        ("/DurationHistogram/Percentiles/3/Value", json!(1e308), "p99 is inf ms"),
        ("/DurationHistogram/Percentiles/3/Value", json!(0.0), "p90 is "),
        ("/DurationHistogram/Percentiles/3/Value", json!(null), "invalid type: null"),
        ("/DurationHistogram/Avg", json!("NaN"), "invalid type: string \"NaN\""),
        ("/DurationHistogram/Count", json!(-1), "invalid value: integer `-1`"),
        ("/ActualQPS", json!(-5), "the rate is -5 calls/s"),
        ("/RetCodes", json!({"200": -3}), "invalid value: integer `-3`"),
        ("/RetCodes", json!({"200": u64::MAX, "503": 1}), "more than 2^64 calls"),
        ("/ErrorsDurationHistogram/Count", json!(300), "the share of failed calls is 150 %"),
    ];
    for (path, value, why) in wrong {
        let error = read(&changed(FORTIO_HTTP, path, value)).expect_err(path);
        assert!(error.contains(why), "{path}: {error}");
    }
}

#[test]
fn a_missing_field_is_named() {
    let mut document: Value = serde_json::from_str(FORTIO_HTTP).expect("Fortio writes JSON");
    document.as_object_mut().expect("an object").remove("RetCodes");
    let error = read(&document.to_string()).expect_err("it has no codes");
    assert!(error.contains("missing field `RetCodes`"), "{error}");
}
