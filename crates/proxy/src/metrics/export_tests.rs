use std::time::{Duration, Instant, SystemTime};

use leno_admin::Exposition;
use leno_identity::upkeep::IdentityMetrics;
use leno_relay::metrics::{
    AuthorizationLabels, Class, ConnectionLabels, DecidedBy, Direction, PeerLabel, TargetLabel, TlsLabel,
    TrafficLabels, WorkerMetrics,
};

use super::Scrape;
use crate::metrics::{ConfigMetrics, ProcessMetrics};

#[track_caller]
fn assert_line(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no line {line} in\n{text}");
}

#[test]
fn configuration_identity_and_process_are_exported() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let config = ConfigMetrics::default().after_read(0, now).after_read(2, now + Duration::from_secs(60));
    let config = config.with_connection(true).with_refused_names(3);

    let identity = IdentityMetrics::default().after_refresh(now, now + Duration::from_secs(86_400));

    let process = ProcessMetrics { memory_budget_bytes: Some(64 << 20), ..ProcessMetrics::read(now) };
    let text = Scrape::new(&[], config, Some(identity), process, Instant::now()).into_text(Exposition::OpenMetrics);
    assert_line(&text, "leno_control_plane_connected 1");
    assert_line(&text, "leno_control_plane_refused_names 3");
    assert_line(&text, "leno_memory_budget_bytes 67108864");
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

/// The metrics of a proxy with all kinds of series, in the older Prometheus text format.
fn text_of_everything() -> String {
    let worker = WorkerMetrics::new();
    let calls =
        |direction| TrafficLabels { direction, target: TargetLabel::Port(8080), server: None, tls: TlsLabel::Disabled };
    let cluster = worker.traffic(&calls(Direction::Outbound));
    cluster.request();
    cluster.response(200, Some(0), Class::Success, Some(Duration::from_millis(1)));
    worker
        .connections(&ConnectionLabels { peer: PeerLabel::Destination, traffic: calls(Direction::Outbound) })
        .opened();
    let policy = Some(DecidedBy::AuthorizationPolicy("shop/carts".into()));
    worker.authorizations(&AuthorizationLabels { traffic: calls(Direction::Inbound), policy }).http.allowed.add(1);
    worker.count_abuse("rapid_reset");
    worker.count_proxy_error(Direction::Outbound, "no-endpoint");
    worker.count_failed_connection(Direction::Inbound, "unknown-anchor");
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let identity = IdentityMetrics::default().after_refresh(now, now + Duration::from_secs(86_400));
    let scrape =
        Scrape::new(&[worker], ConfigMetrics::default(), Some(identity), ProcessMetrics::read(now), Instant::now());
    scrape.into_text(Exposition::Text)
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

/// Prometheus' own checker, if installed, must parse the text; it may complain only about the two metrics of Linkerd
/// that are in milliseconds.
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
