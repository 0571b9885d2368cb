use super::super::fixtures::measured;
use super::*;

fn refused(run: Measured) -> String {
    run.checked().expect_err("the figure is impossible")
}

#[test]
fn a_run_with_possible_figures_passes_unchanged() {
    let run = measured("a", 1.0);
    assert_eq!(run.clone().checked(), Ok(run.clone()));
    let empty = Measured { p90_ms: None, mean_ms: None, rate_per_s: None, errors_percent: None, ..run };
    assert!(empty.checked().is_ok());
}

#[test]
fn negative_infinite_and_absurd_figures_are_named() {
    let run = || measured("a", 1.0);
    let why = refused(Measured { p50_ms: Some(-0.5), ..run() });
    assert_eq!(why, "p50 is -0.5 ms, which is not between 0 and 1000000000");
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e-9] {
        assert!(refused(Measured { p999_ms: Some(wrong), ..run() }).starts_with("p99.9 is "), "{wrong}");
        assert!(refused(Measured { mean_ms: Some(wrong), ..run() }).starts_with("the mean is "), "{wrong}");
        assert!(refused(Measured { rate_per_s: Some(wrong), ..run() }).starts_with("the rate is "), "{wrong}");
    }
    let why = refused(Measured { errors_percent: Some(100.5), ..run() });
    assert_eq!(why, "the share of failed calls is 100.5 %, which is not between 0 and 100");
}

#[test]
fn percentiles_that_descend_are_refused_even_with_one_missing_between_them() {
    let why = refused(Measured { p50_ms: Some(9.0), p90_ms: None, p99_ms: Some(8.0), ..measured("a", 1.0) });
    assert_eq!(why, "p50 is 9 ms, which is more than p99 with 8 ms");
}

#[test]
fn no_calls_have_no_share_of_failures() {
    assert_eq!((percent(0, 0), percent(1, 4), percent(0, 4)), (None, Some(25.0), Some(0.0)));
}
