use super::super::super::measured::percent;
use super::super::read::read;
use super::*;
use crate::experiment::record::TargetKind;
use crate::formats::Measured;
use crate::load::histogram as new_histogram;
use crate::report::example;

fn experiment() -> Experiment {
    example::experiment(Scenario::SlowPod)
}

/// A run with latencies from 0.1 to 100 ms, and the lab's own summary of them.
fn random_run(seed: u64) -> Run {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut us = new_histogram();
    for _ in 0..random.usize(1..5_000) {
        us.saturating_record(random.u64(100..100_000));
    }
    let quantiles = [0.0, 0.134, 0.25, 0.35, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0];
    let ms = |quantile| us.value_at_quantile(quantile) as f64 / 1000.0;
    Run {
        calls: us.len(),
        errors: random.u64(..100),
        rps: us.len() as f64 / 10.0,
        min_ms: Some(us.min() as f64 / 1000.0),
        mean_ms: Some(us.mean() / 1000.0),
        std_dev_ms: Some(us.stdev() / 1000.0),
        p50_ms: ms(0.5),
        p90_ms: ms(0.9),
        p99_ms: ms(0.99),
        p999_ms: ms(0.999),
        max_ms: us.max() as f64 / 1000.0,
        curve: quantiles.map(|quantile| CurvePoint { quantile, ms: ms(quantile) }).to_vec(),
        ..example::run(TargetKind::Leno, 0, 1)
    }
}

fn same(one: Option<f64>, other: Option<f64>) -> bool {
    one.zip(other).is_some_and(|(one, other)| (one - other).abs() <= 1e-9 * other.abs())
}

#[test]
fn our_reader_reads_back_what_we_write() {
    for seed in leno_testing::seeds(0..200) {
        let run = random_run(seed);
        let document = document(&experiment(), &run, "2026-01-02T03:04:05Z".to_owned());
        let found = read(&serde_json::to_string(&document).expect("JSON")).expect("our own file");
        let Measured { p50_ms, p90_ms, p99_ms, p999_ms, mean_ms, rate_per_s, errors_percent, .. } = found;
        let all = [
            (p50_ms, Some(run.p50_ms)),
            (p90_ms, Some(run.p90_ms)),
            (p99_ms, Some(run.p99_ms)),
            (p999_ms, Some(run.p999_ms)),
            (mean_ms, run.mean_ms),
            (rate_per_s, Some((run.calls + run.errors) as f64 / 10.0)),
            (errors_percent, percent(run.errors, run.calls + run.errors)),
        ];
        assert!(all.iter().all(|(found, wanted)| same(*found, *wanted)), "seed {seed}: {all:?}");
    }
}

#[test]
fn buckets_ascend_and_have_every_call() {
    for seed in leno_testing::seeds(0..200) {
        let run = random_run(seed);
        let found = histogram(&run);
        let buckets = found.data.unwrap_or_default();
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), run.calls, "seed {seed}");
        assert!(
            buckets.iter().all(|bucket| bucket.start <= bucket.end && bucket.count > 0),
            "seed {seed}: {buckets:?}"
        );
        assert!(buckets.is_sorted_by(|a, b| a.end <= b.start && a.percent < b.percent), "seed {seed}: {buckets:?}");
        assert!(buckets.last().is_some_and(|last| last.percent == 100.0), "seed {seed}: {buckets:?}");
    }
}

#[test]
fn mean_and_deviation_of_an_old_run_are_estimated_from_its_curve() {
    // Use a run with many calls, since the curve of a few calls determines their mean only roughly.
    let seed = leno_testing::seed();
    let long = (0..).map(|number| random_run(seed.wrapping_add(number))).find(|run| run.calls >= 500);
    let run = Run { calls: 1_000_000, ..long.expect("nine of ten runs are that long") };
    let known = histogram(&run);
    let guessed = histogram(&Run { min_ms: None, mean_ms: None, std_dev_ms: None, ..run });
    assert!((guessed.avg / known.avg - 1.0).abs() < 0.05, "{} and {}", guessed.avg, known.avg);
    assert!((guessed.std_dev / known.std_dev - 1.0).abs() < 0.15, "{} and {}", guessed.std_dev, known.std_dev);
}

#[test]
fn one_call_has_one_bucket() {
    let run = Run { calls: 1, ..random_run(7) };
    let one = Run { min_ms: Some(2.0), max_ms: 2.0, curve: vec![CurvePoint { quantile: 1.0, ms: 2.0 }], ..run };
    let buckets = histogram(&one).data.unwrap_or_default();
    assert_eq!(buckets, [Bucket { start: 0.002, end: 0.002, percent: 100.0, count: 1 }]);
}

#[test]
fn names_and_codes_are_those_that_fortio_report_looks_for() {
    let run = Run { errors: 5, rate_per_s: Some(500), ..random_run(1) };
    let grpc = serde_json::to_value(document(&experiment(), &run, String::new())).expect("JSON");
    assert_eq!((&grpc["RetCodes"]["SERVING"], &grpc["RetCodes"]["ERROR"]), (&run.calls.into(), &5.into()));
    assert_eq!((&grpc["RequestedQPS"], &grpc["RequestedDuration"]), (&"500".into(), &"10s".into()));
    assert_eq!((&grpc["Destination"], grpc.get("URL")), (&"leno, 5 backends".into(), None));
    assert_eq!(grpc["ErrorsDurationHistogram"]["Data"][0]["Count"], 5);
    assert_eq!(grpc["DurationHistogram"]["Count"], run.calls + 5);
    let http1 = Experiment { protocol: Protocol::Http1, ..experiment() };
    let closed = Run { errors: 0, rate_per_s: None, ..run };
    let http = serde_json::to_value(document(&http1, &closed, String::new())).expect("JSON");
    assert_eq!((&http["RetCodes"], &http["RequestedQPS"]), (&serde_json::json!({"200": closed.calls}), &"max".into()));
    assert_eq!((&http["URL"], http.get("Destination")), (&"leno, 5 backends".into(), None));
    assert!(http["ErrorsDurationHistogram"]["Data"].is_null(), "{http}");
}

#[test]
fn every_run_with_latencies_has_its_file() {
    let out = tempfile::tempdir().expect("a temporary directory");
    let run = random_run(3);
    save(out.path(), &experiment(), &run).expect("a writable directory");
    save(out.path(), &experiment(), &Run { repeat: 2, ..run.clone() }).expect("a writable directory");
    save(out.path(), &experiment(), &Run { repeat: 3, curve: Vec::new(), ..run }).expect("nothing to write");
    let files = fs::read_dir(out.path().join(DIR)).expect("the directory exists").count();
    assert_eq!(files, 2);
    let runs = crate::formats::read(&out.path().join(DIR)).expect("our own files");
    assert_eq!(runs.iter().filter(|found| found.label == runs[0].label).count(), 2);
}
