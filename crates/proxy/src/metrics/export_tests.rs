use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use leno_admin::Exposition;
use leno_identity::upkeep::IdentityMetrics;

use super::Scrape;
use crate::metrics::fixtures::{inbound, outbound};
use crate::metrics::{
    AuthorizationLabels, ConfigMetrics, ConnectionLabels, DecidedBy, Direction, NoTlsReason, Peer, ProcessMetrics,
    Target, Tls, TrafficLabels, WorkerMetrics,
};

const ECHO: &str = r#"direction="outbound",authority="echo.default.svc.cluster.local:50051",dst_namespace="default",dst_service="echo",dst_port="50051",tls="true",server_id="spiffe://example.org/ns/shop/sa/echo""#;

const WEB: &str = r#"target_port="8080",srv_port="8080",tls="true",client_id="spiffe://example.org/ns/shop/sa/web""#;

fn scrape(workers: &[Arc<WorkerMetrics>]) -> String {
    Scrape::new(workers, ConfigMetrics::default(), None, ProcessMetrics::default(), Instant::now()).into_open_metrics()
}

#[track_caller]
fn assert_line(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no line {line} in\n{text}");
}

#[test]
fn calls_of_two_workers_are_summed_under_linkerds_names() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    let clusters = [workers[0].traffic(&outbound(50051)), workers[1].traffic(&outbound(50051))];
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
    let tls = Tls::None(NoTlsReason::NotInMesh);
    worker.traffic(&TrafficLabels { direction: Direction::Outbound, target: Target::Unknown, tls }).request();
    let labels = r#"direction="outbound",tls="no_identity",no_tls_reason="not_provided_by_service_discovery""#;
    assert_line(&scrape(&[worker]), &format!("request_total{{{labels}}} 1"));
}

#[test]
fn connections_of_two_workers_are_summed_by_peer() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    let source = ConnectionLabels { peer: Peer::Source, traffic: inbound(8080, "web") };
    let destination = ConnectionLabels { peer: Peer::Destination, traffic: outbound(50051) };
    for worker in &workers {
        worker.connections(&source).opened();
    }
    let upstream = workers[0].connections(&destination);
    upstream.opened();
    upstream.closed(Duration::from_millis(7));
    upstream.read_bytes_total.add(1_000);

    let text = scrape(&workers);
    let web = format!("{{direction=\"inbound\",peer=\"src\",{WEB}}}");
    let echo = ECHO.replace("outbound\"", "outbound\",peer=\"dst\"");
    assert_line(&text, &format!("tcp_open_total{web} 2"));
    assert_line(&text, &format!("tcp_open_connections{web} 2"));
    assert_line(&text, &format!("tcp_open_connections{{{echo}}} 0"));
    assert_line(&text, &format!("tcp_close_total{{{echo}}} 1"));
    assert_line(&text, &format!("tcp_read_bytes_total{{{echo}}} 1000"));
    assert_line(&text, &format!("tcp_connection_duration_ms_sum{{{echo}}} 7.0"));
}

#[test]
fn decisions_are_exported_under_linkerds_names_and_audits_under_ours() {
    let worker = WorkerMetrics::new();
    let policy = Some(DecidedBy::AuthorizationPolicy("shop/carts".into()));
    let series = worker.authorizations(&AuthorizationLabels { traffic: inbound(8080, "web"), policy });
    series.http.allowed.add(3);
    series.http.audited.add(1);
    series.tcp.denied.add(2);

    let text = scrape(&[worker]);
    let labels = format!("{{{WEB},authz_kind=\"authorizationpolicy\",authz_name=\"shop/carts\"}}");
    assert_line(&text, &format!("inbound_http_authz_allow_total{labels} 4"));
    assert_line(&text, &format!("inbound_http_authz_deny_total{labels} 0"));
    assert_line(&text, &format!("inbound_tcp_authz_deny_total{labels} 2"));
    assert_line(&text, &format!("leno_http_audited_total{labels} 1"));
}

#[test]
fn abuse_errors_and_failures_are_counted_by_reason_and_side() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    workers[0].count_abuse("rapid_reset");
    workers[1].count_abuse("rapid_reset");
    workers[1].count_abuse("ping_flood");
    workers[0].count_proxy_error(Direction::Outbound, "no-endpoint");
    workers[1].count_proxy_error(Direction::Inbound, "no-endpoint");
    workers[1].count_failed_connection(Direction::Inbound, "unknown-anchor");
    workers[0].queue_full_total.add(3);

    let text = scrape(&workers);
    assert_line(&text, r#"leno_abuse_closed_total{kind="rapid_reset"} 2"#);
    assert_line(&text, r#"leno_abuse_closed_total{kind="ping_flood"} 1"#);
    assert_line(&text, r#"leno_proxy_errors_total{direction="outbound",why="no-endpoint"} 1"#);
    assert_line(&text, r#"leno_proxy_errors_total{direction="inbound",why="no-endpoint"} 1"#);
    assert_line(&text, r#"leno_connections_failed_total{direction="inbound",why="unknown-anchor"} 1"#);
    assert_line(&text, "leno_queue_full_total 3");
}

#[test]
fn configuration_identity_and_process_are_exported() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let config = ConfigMetrics::default().after_read(0, now).after_read(2, now + Duration::from_secs(60));

    let identity = IdentityMetrics::default().after_refresh(now, now + Duration::from_secs(86_400));

    let text = Scrape::new(&[], config, Some(identity), ProcessMetrics::read(now), Instant::now()).into_open_metrics();
    assert_line(&text, r#"leno_config_reloads_total{result="success"} 1"#);
    assert_line(&text, r#"leno_config_reloads_total{result="failure"} 1"#);
    assert_line(&text, r#"control_identity_cert_refreshes_total{result="ok"} 1"#);
    assert_line(&text, "control_identity_cert_expiration_timestamp_seconds 1700086400.0");
    assert_line(&text, "leno_config_problems 2");
    assert_line(&text, "leno_config_last_success_timestamp_seconds 1700000000.0");
    assert_line(&text, "process_start_time_seconds 1700000000.0");
    for name in ["process_resident_memory_bytes ", "process_cpu_seconds_total ", "process_open_fds "] {
        assert!(text.lines().any(|line| line.starts_with(name)), "no {name} in\n{text}");
    }
    assert_line(&text, &format!("leno_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")));
}

/// The older text of a proxy with all kinds of series.
fn text_of_everything() -> String {
    let worker = WorkerMetrics::new();
    let cluster = worker.traffic(&outbound(50051));
    cluster.request();
    cluster.response(200, Some(0), false, Duration::from_millis(1));
    worker.connections(&ConnectionLabels { peer: Peer::Destination, traffic: outbound(50051) }).opened();
    let policy = Some(DecidedBy::AuthorizationPolicy("shop/carts".into()));
    worker.authorizations(&AuthorizationLabels { traffic: inbound(8080, "web"), policy }).http.allowed.add(1);
    worker.count_abuse("rapid_reset");
    worker.count_proxy_error(Direction::Outbound, "no-endpoint");
    worker.count_failed_connection(Direction::Inbound, "unknown-anchor");
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let identity = IdentityMetrics::default().after_refresh(now, now + Duration::from_secs(86_400));
    let scrape =
        Scrape::new(&[worker], ConfigMetrics::default(), Some(identity), ProcessMetrics::read(now), Instant::now());
    Exposition::Text.of_open_metrics(scrape.into_open_metrics())
}

#[test]
fn every_sample_is_described_in_the_older_form_too() {
    let text = text_of_everything();
    let is_name = |name: &str| {
        let of_names = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
        name.chars().all(of_names) && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    for sample in text.lines().filter(|line| !line.starts_with('#')) {
        let name = sample.split(['{', ' ']).next().expect("a name");
        assert!(is_name(name), "{sample}");
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let kinds: Vec<&str> = [Some(name), of_histogram]
            .into_iter()
            .flatten()
            .filter(|name| text.lines().any(|line| line.starts_with(&format!("# HELP {name} "))))
            .filter_map(|name| text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))))
            .collect();
        let [kind] = kinds[..] else { panic!("{sample} is described {} times", kinds.len()) };
        assert_eq!(kind == "counter", name.ends_with("_total"), "{sample}");
    }
    assert!(!text.contains("# EOF"), "{text}");
}

/// Prometheus' own checker, if installed, must parse the text; it complains only about Linkerd's milliseconds.
#[test]
fn promtool_reads_the_text_and_complains_only_of_what_is_meant() {
    use std::process::{Command, Stdio};

    let promtool =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut promtool) = promtool else {
        return leno_testing::skipped("promtool is not there; type: apt-get install prometheus");
    };
    let mut stdin = promtool.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut stdin, text_of_everything().as_bytes()).expect("promtool reads");
    drop(stdin);
    let output = promtool.wait_with_output().expect("promtool ends");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let meant =
        |line: &&str| line.starts_with("response_latency_ms ") || line.starts_with("tcp_connection_duration_ms ");
    let unmeant: Vec<_> = complaints.lines().filter(|line| !meant(line)).collect();
    assert!(unmeant.is_empty(), "{unmeant:#?}");
}
