use super::*;

const REPORT: &str = "\
progress: 100% done

finished in 361.53ms, 276599.16 req/s, 27.44MB/s
requests: 100000 total, 100000 started, 100000 done, 100000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 100000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 9.92MB (10402892) total, 586.02KB (600088) headers (space savings 96.15%), 6.68MB (7000000) data
";

#[test]
fn a_report_of_h2load_1_52_is_read() {
    let result = parse(REPORT).expect("a whole report");
    assert_eq!(result, LoadResult { calls_per_second: 276_599.16, calls_ok: 100_000, data_bytes: 7_000_000 });
    assert!(result.ensure_complete(TargetKind::Leno, 100_000, 70).is_ok());
}

#[test]
fn a_report_that_breaks_off_is_not_read() {
    let half: String = REPORT.lines().take(5).collect();
    assert_eq!(parse(&half), None);
}

#[test]
fn grpc_errors_without_a_message_count_as_failed_though_their_status_is_200() {
    let report = REPORT.replace("(7000000) data", "(6999860) data");
    let result = parse(&report).expect("a whole report");
    let error = result.ensure_complete(TargetKind::Leno, 100_000, 70);
    assert!(matches!(error, Err(Error::CallsFailed { failed: 2, .. })));
}

#[test]
fn calls_that_were_reset_count_as_failed() {
    let report = REPORT.replace("status codes: 100000", "status codes: 99990");
    let result = parse(&report).expect("a whole report");
    let error = result.ensure_complete(TargetKind::Leno, 100_000, 70);
    assert!(matches!(error, Err(Error::CallsFailed { failed: 10, .. })));
}
