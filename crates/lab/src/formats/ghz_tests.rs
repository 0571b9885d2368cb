use serde_json::json;

use super::super::fixtures::{GHZ, GHZ_REFUSED, changed};
use super::*;

#[test]
fn a_report_of_ghz_is_read() {
    let run = read(GHZ).expect("ghz wrote it");
    assert_eq!((run.form, run.label.as_str()), (Form::Ghz, "echo"));
    let found = [run.p50_ms, run.p90_ms, run.p99_ms, run.mean_ms];
    assert_eq!(found, [0.437_463, 0.653_006, 4.453_469, 0.566_61].map(Some));
    assert_eq!((run.p999_ms, run.errors_percent), (None, Some(0.0)));
    assert!(run.rate_per_s.is_some_and(|rate| (rate - 199.14).abs() < 0.01), "{run:?}");
}

#[test]
fn a_run_without_an_answer_has_errors_and_no_latency() {
    let run = read(GHZ_REFUSED).expect("ghz wrote it");
    assert_eq!((run.p50_ms, run.mean_ms, run.errors_percent), (None, None, Some(100.0)));
}

#[test]
fn impossible_values_are_refused_with_their_name() {
    let wrong = [
        ("/latencyDistribution/2/latency", json!(-1), "p50 is "),
        ("/latencyDistribution/2/latency", json!(1e9), "p50 is 1000 ms, which is more than p90"),
        ("/latencyDistribution/2/percentage", json!("50"), "invalid type: string \"50\""),
        ("/average", json!(1e300), "the mean is "),
        ("/rps", json!(null), "invalid type: null"),
        ("/statusCodeDistribution", json!({"OK": u64::MAX, "Internal": 1}), "more than 2^64 calls"),
    ];
    for (path, value, why) in wrong {
        let error = read(&changed(GHZ, path, value)).expect_err(path);
        assert!(error.contains(why), "{path}: {error}");
    }
}
