use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leno_model::mesh::ClusterKey;

use super::Scrape;
use crate::metrics::{ConfigMetrics, ProcessMetrics, WorkerMetrics};

const ECHO: &str = r#"direction="outbound",tls="disabled",authority="echo.default.svc.cluster.local:50051",dst_namespace="default",dst_service="echo",dst_port="50051""#;

fn echo() -> ClusterKey {
    ClusterKey { namespace: "default".into(), service: "echo".into(), port: 50051 }
}

fn scrape(workers: &[Arc<WorkerMetrics>]) -> String {
    Scrape::new(workers, ConfigMetrics::default(), ProcessMetrics::default()).into_text()
}

#[track_caller]
fn assert_line(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no line {line} in\n{text}");
}

#[test]
fn calls_of_two_workers_are_summed_under_linkerds_names() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    let clusters = [workers[0].cluster(&echo()), workers[1].cluster(&echo())];
    for cluster in &clusters {
        cluster.request();
        cluster.response(200, Some(0), false, Duration::from_micros(7_500));
    }
    clusters[0].request();
    clusters[0].response(503, None, true, Duration::from_millis(1));
    clusters[1].request();

    let text = scrape(&workers);
    assert_line(&text, "# TYPE request counter");
    assert_line(&text, &format!("request_total{{{ECHO}}} 4"));
    let success = r#"classification="success",status_code="200",grpc_status="0""#;
    assert_line(&text, &format!("response_total{{{ECHO},{success}}} 2"));
    let failure = r#"classification="failure",status_code="503",grpc_status="""#;
    assert_line(&text, &format!("response_total{{{ECHO},{failure}}} 1"));
    assert_line(&text, &format!("leno_requests_in_flight{{{ECHO}}} 1"));
    assert_line(&text, &format!("response_latency_ms_sum{{{ECHO}}} 16.0"));
    assert_line(&text, &format!("response_latency_ms_count{{{ECHO}}} 3"));
    for (le, count) in [("1.0", 1), ("5.0", 1), ("10.0", 3), ("+Inf", 3)] {
        assert_line(&text, &format!("response_latency_ms_bucket{{le=\"{le}\",{ECHO}}} {count}"));
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn calls_of_no_cluster_have_no_destination() {
    let worker = WorkerMetrics::new();
    worker.unknown().request();
    assert_line(&scrape(&[worker]), r#"request_total{direction="outbound",tls="disabled"} 1"#);
}

#[test]
fn clients_are_peer_src_and_endpoints_are_peer_dst() {
    let worker = WorkerMetrics::new();
    worker.downstream.opened();
    worker.upstream.opened();
    worker.upstream.closed();
    worker.upstream.read_bytes_total.add(1_000);

    let text = scrape(&[worker]);
    let (src, dst) =
        (r#"{direction="outbound",tls="disabled",peer="src"}"#, r#"{direction="outbound",tls="disabled",peer="dst"}"#);
    assert_line(&text, &format!("tcp_open_total{src} 1"));
    assert_line(&text, &format!("tcp_open_connections{src} 1"));
    assert_line(&text, &format!("tcp_open_connections{dst} 0"));
    assert_line(&text, &format!("tcp_close_total{dst} 1"));
    assert_line(&text, &format!("tcp_read_bytes_total{dst} 1000"));
}

#[test]
fn abuse_and_the_proxys_own_errors_are_counted_by_reason() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    workers[0].count_abuse("rapid_reset");
    workers[1].count_abuse("rapid_reset");
    workers[1].count_abuse("ping_flood");
    workers[0].count_proxy_error("no endpoint");
    workers[0].queue_full_total.add(3);

    let text = scrape(&workers);
    assert_line(&text, r#"leno_abuse_closed_total{kind="rapid_reset"} 2"#);
    assert_line(&text, r#"leno_abuse_closed_total{kind="ping_flood"} 1"#);
    assert_line(&text, r#"leno_proxy_errors_total{why="no endpoint"} 1"#);
    assert_line(&text, "leno_queue_full_total 3");
}

#[test]
fn configuration_and_process_are_exported() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let config = ConfigMetrics::default().after_read(0, now).after_read(2, now + Duration::from_secs(60));

    let text = Scrape::new(&[], config, ProcessMetrics::read(now)).into_text();
    assert_line(&text, r#"leno_config_reloads_total{result="success"} 1"#);
    assert_line(&text, r#"leno_config_reloads_total{result="failure"} 1"#);
    assert_line(&text, "leno_config_problems 2");
    assert_line(&text, "leno_config_last_success_timestamp_seconds 1700000000.0");
    assert_line(&text, "process_start_time_seconds 1700000000.0");
    for name in ["process_resident_memory_bytes ", "process_cpu_seconds_total ", "process_open_fds "] {
        assert!(text.lines().any(|line| line.starts_with(name)), "no {name} in\n{text}");
    }
    assert_line(&text, &format!("leno_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")));
}

/// Prometheus's own checker, where it is installed, must read the text. It knows the older format only, where
/// OpenMetrics' `# HELP request` does not describe `request_total`; and it dislikes Linkerd's milliseconds.
#[test]
fn promtool_reads_the_text_and_complains_only_of_what_is_meant() {
    use std::process::{Command, Stdio};

    let worker = WorkerMetrics::new();
    let cluster = worker.cluster(&echo());
    cluster.request();
    cluster.response(200, Some(0), false, Duration::from_millis(1));
    worker.count_abuse("rapid_reset");

    let promtool =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut promtool) = promtool else {
        eprintln!("promtool is not installed: not checked");
        return;
    };
    let mut stdin = promtool.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut stdin, scrape(&[worker]).as_bytes()).expect("promtool reads");
    drop(stdin);
    let output = promtool.wait_with_output().expect("promtool ends");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let meant = |line: &&str| line.ends_with("_total no help text") || line.starts_with("response_latency_ms ");
    let unmeant: Vec<_> = complaints.lines().filter(|line| !meant(line)).collect();
    assert!(unmeant.is_empty(), "{unmeant:#?}");
}
