use std::io::ErrorKind;
use std::time::Duration;

use leno_model::mesh::ClusterKey;

use crate::metrics::fixtures::{assert_line, inbound, late_scrape, outbound, scrape};
use crate::metrics::traffic::RESPONSE_KINDS;
use crate::metrics::{
    AuthorizationLabels, Class, ConnectionLabels, DecidedBy, Direction, NoTlsReason, PeerLabel, TargetLabel, TlsLabel,
    TrafficLabels, WorkerMetrics,
};

const ECHO: &str = r#"direction="outbound",authority="echo.default.svc.cluster.local:50051",dst_namespace="default",dst_service="echo",dst_port="50051",tls="true",server_id="spiffe://example.org/ns/shop/sa/echo""#;

const WEB: &str = r#"target_port="8080",srv_port="8080",tls="true",client_id="spiffe://example.org/ns/shop/sa/web""#;

#[test]
fn calls_of_two_workers_are_summed_under_linkerds_names() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    let clusters = [workers[0].traffic(&outbound(50051)), workers[1].traffic(&outbound(50051))];
    for cluster in &clusters {
        cluster.request();
        cluster.response(200, Some(0), Class::Success, Some(Duration::from_micros(7_500)));
    }
    clusters[0].request();
    clusters[0].response(503, None, Class::Failure, Some(Duration::from_millis(1)));
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
fn responses_beyond_the_limit_on_kinds_keep_their_classification() {
    let worker = WorkerMetrics::new();
    let cluster = worker.traffic(&outbound(50051));
    // The statuses from 300 on claim all counters of the series, so the later responses get none.
    let last = [(200, Class::Success), (503, Class::Failure), (500, Class::Failure), (403, Class::Denied)];
    for (http_status, class) in (300..400).map(|status| (status, Class::Success)).chain(last) {
        cluster.request();
        cluster.response(http_status, None, class, None);
    }
    let text = scrape(&[worker]);
    let others = 100 + 1 - RESPONSE_KINDS;
    assert_line(&text, &format!("response_total{{{ECHO},classification=\"success\",status_code=\"other\"}} {others}"));
    assert_line(&text, &format!("response_total{{{ECHO},classification=\"failure\",status_code=\"other\"}} 2"));
    assert_line(&text, &format!("response_total{{{ECHO},classification=\"denied\",status_code=\"other\"}} 1"));
}

#[test]
fn counters_do_not_decrease_when_only_one_worker_holds_their_series() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    let source = ConnectionLabels { peer: PeerLabel::Source, traffic: inbound(8080, "web") };
    let decision = AuthorizationLabels { traffic: inbound(8080, "web"), policy: None };
    let held = workers.each_ref().map(|worker| {
        let series = (worker.traffic(&outbound(50051)), worker.connections(&source), worker.authorizations(&decision));
        series.0.request();
        series.1.opened();
        series.2.http.allowed.add(1);
        series
    });
    let [left, _stays] = held;
    drop(left);

    let text = late_scrape(&workers);
    assert_line(&text, &format!("request_total{{{ECHO}}} 2"));
    assert_line(&text, &format!("tcp_open_total{{direction=\"inbound\",peer=\"src\",{WEB}}} 2"));
    assert_line(&text, &format!("inbound_http_authz_allow_total{{{WEB}}} 2"));
}

#[test]
fn current_values_of_a_worker_that_has_left_end_although_another_worker_goes_on() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    let cluster = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
    let held = workers.each_ref().map(|worker| worker.retry_budget(&cluster));
    held.iter().for_each(|left| left.set(10));
    let [left, _stays] = held;
    drop(left);
    let text = late_scrape(&workers);
    let budget = text.lines().find(|line| line.starts_with("leno_retry_budget_left{")).expect("a budget");
    assert!(budget.ends_with(" 10"), "{budget}");
}

#[test]
fn calls_of_no_cluster_have_no_destination() {
    let worker = WorkerMetrics::new();
    let tls = TlsLabel::None(NoTlsReason::NotInMesh);
    worker
        .traffic(&TrafficLabels { direction: Direction::Outbound, target: TargetLabel::Unknown, server: None, tls })
        .request();
    let labels = r#"direction="outbound",tls="no_identity",no_tls_reason="not_provided_by_service_discovery""#;
    assert_line(&scrape(&[worker]), &format!("request_total{{{labels}}} 1"));
}

#[test]
fn connections_of_two_workers_are_summed_by_peer() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    let source = ConnectionLabels { peer: PeerLabel::Source, traffic: inbound(8080, "web") };
    let destination = ConnectionLabels { peer: PeerLabel::Destination, traffic: outbound(50051) };
    for worker in &workers {
        worker.connections(&source).opened();
    }
    let upstream = workers[0].connections(&destination);
    upstream.opened();
    upstream.closed(Duration::from_millis(7), None);
    upstream.opened();
    upstream.closed(Duration::ZERO, Some(ErrorKind::ConnectionReset));
    upstream.read_bytes_total.add(1_000);

    let text = scrape(&workers);
    let web = format!("{{direction=\"inbound\",peer=\"src\",{WEB}}}");
    let echo = ECHO.replace("outbound\"", "outbound\",peer=\"dst\"");
    assert_line(&text, &format!("tcp_open_total{web} 2"));
    assert_line(&text, &format!("tcp_open_connections{web} 2"));
    assert_line(&text, &format!("tcp_open_connections{{{echo}}} 0"));
    assert_line(&text, &format!("tcp_close_total{{{echo}}} 1"));
    assert_line(&text, &format!("tcp_close_total{{{echo},errno=\"ECONNRESET\"}} 1"));
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
    workers[1].count_failed_connection(Direction::Inbound, "denied");
    workers[0].count_failed_connection(Direction::Outbound, "connect-failed");
    workers[1].count_failed_connection(Direction::Outbound, "connect-failed");
    workers[0].queue_full_total.add(3);

    let text = scrape(&workers);
    assert_line(&text, r#"leno_abuse_closed_total{kind="rapid_reset"} 2"#);
    assert_line(&text, r#"leno_abuse_closed_total{kind="ping_flood"} 1"#);
    assert_line(&text, r#"leno_proxy_errors_total{direction="outbound",why="no-endpoint"} 1"#);
    assert_line(&text, r#"leno_proxy_errors_total{direction="inbound",why="no-endpoint"} 1"#);
    assert_line(&text, r#"leno_connections_failed_total{direction="inbound",why="unknown-anchor"} 1"#);
    assert_line(&text, r#"leno_connections_failed_total{direction="inbound",why="denied"} 1"#);
    assert_line(&text, r#"inbound_tcp_errors_total{error="unknown-anchor"} 1"#);
    assert_line(&text, r#"outbound_tcp_errors_total{error="connect-failed"} 2"#);
    assert!(!text.contains(r#"{error="denied"}"#), "a policy's decision is no error: {text}");
    assert_line(&text, "leno_queue_full_total 3");
}
