//! The grpc-go interop client against the grpc-go interop server, through the proxy.

use std::net::TcpStream;
use std::time::Duration;

use leno_tests::manifests::Service;
use leno_tests::programs::{self, Server};
use leno_tests::proxy::{Proxy, free_address, wait_for};

/// Every case that the client and the server support without TLS. `pick_first_unary` is omitted: it needs an id that
/// this server does not send.
pub(crate) const CASES: [&str; 18] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "rpc_soak",
    "channel_soak",
    "orca_per_rpc",
    "orca_oob",
];

/// The service config with the balancer that the client's ORCA cases need.
const ORCA: &str = r#"{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}"#;

#[test]
fn every_interop_case_passes_through_the_proxy() {
    let address = free_address();
    let _server = Server::start("interop-server", &["-port", &address.port().to_string()]);
    wait_for("the interop server listens", Duration::from_secs(20), || TcpStream::connect(address).ok());
    let outbound = free_address();
    let proxy = Proxy::start_with(outbound, &[Service::new("interop", &[address]).at(outbound)], &[]);

    let port = proxy.outbound().port().to_string();
    let failures: Vec<String> = CASES.into_iter().filter_map(|case| failure(case, &port)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs a case. Returns the client's output if the case failed.
fn failure(case: &str, port: &str) -> Option<String> {
    let output = programs::run("interop-client", &arguments(case, "127.0.0.1", port), Duration::from_secs(30));
    (!output.status.success()).then(|| format!("{case}: {}", programs::text(&output)))
}

/// Returns the client's arguments for one case.
pub(crate) fn arguments<'a>(case: &'a str, host: &'a str, port: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["-server_host", host, "-server_port", port, "-test_case", case];
    if case.ends_with("_soak") {
        // This limit is long enough for a busy machine; the client's default is one second per call.
        arguments.extend(["-soak_per_iteration_max_acceptable_latency_ms", "10000"]);
        arguments.extend(["-soak_overall_timeout_seconds", "25"]);
    }
    if case.starts_with("orca") {
        arguments.extend(["-service_config_json", ORCA]);
    }
    arguments
}
