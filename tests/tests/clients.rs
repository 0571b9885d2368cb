//! Third-party clients in common use.

use std::net::TcpStream;
use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::programs::{self, Server};
use leno_tests::proxy::{Proxy, free_address, wait_for};

/// Longest time for a program on a busy machine. Most programs take one or two seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts `leno echo` behind a proxy. The server has reflection, so that the clients need no description of its
/// methods.
fn echo_behind_proxy() -> (Server, Proxy) {
    let address = free_address();
    let server = Server::start("leno", &["echo", "--listen", &address.to_string()]);
    wait_for("leno echo listens", Duration::from_secs(20), || TcpStream::connect(address).ok());
    (server, Proxy::start(&[Service::echo(&[address])]))
}

fn grpcurl(proxy: &Proxy, options: &[&str], what: &[&str]) -> String {
    let address = proxy.outbound().to_string();
    let arguments = [&["-plaintext", "-authority", ECHO][..], options, &[&address], what].concat();
    programs::run_well("grpcurl", &arguments, PATIENCE)
}

#[test]
fn grpcurl_lists_services_by_reflection() {
    let (_server, proxy) = echo_behind_proxy();
    let listed = grpcurl(&proxy, &[], &["list"]);
    assert!(listed.lines().any(|line| line == "leno.echo.v1.Echo"), "{listed}");
}

#[test]
fn grpcurl_makes_calls_of_all_four_kinds() {
    let (_server, proxy) = echo_behind_proxy();
    let call = |data, method| grpcurl(&proxy, &["-d", data], &[method]);

    // In JSON, payloads are in base64. Each request has a payload of three bytes. The answer to the client stream
    // contains the payloads of its two requests, one after the other.
    let unary = call(r#"{"payload": "YWJj"}"#, "leno.echo.v1.Echo/Unary");
    assert!(unary.contains(r#""payload": "YWJj""#), "{unary}");

    let served = call(r#"{"payload": "YWJj", "messages": 3}"#, "leno.echo.v1.Echo/ServerStream");
    assert_eq!(served.matches(r#""payload": "YWJj""#).count(), 3, "{served}");

    let joined = call(r#"{"payload": "YWJj"} {"payload": "ZGVm"}"#, "leno.echo.v1.Echo/ClientStream");
    assert!(joined.contains(r#""payload": "YWJjZGVm""#), "{joined}");

    let echoed = call(r#"{"payload": "YWJj"} {"payload": "ZGVm"}"#, "leno.echo.v1.Echo/Bidi");
    assert_eq!(echoed.matches(r#""payload""#).count(), 2, "{echoed}");
}

#[test]
fn ghz_makes_five_thousand_calls_without_an_error() {
    let (_server, proxy) = echo_behind_proxy();
    let address = proxy.outbound().to_string();
    let what = ["--insecure", "--authority", ECHO, "--call", "leno.echo.v1.Echo/Unary", "-d", r#"{"payload": "YWJj"}"#];
    let how = ["-n", "5000", "-c", "50", "--connections", "5", "-O", "json", &address];
    let printed = programs::run_well("ghz", &[&what[..], &how[..]].concat(), PATIENCE);

    let report: serde_json::Value = serde_json::from_str(&printed).expect("ghz prints JSON");
    assert_eq!(report["statusCodeDistribution"], serde_json::json!({"OK": 5000}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2load_gets_an_answer_for_every_request() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let url = format!("http://{}/test.Test/Echo", proxy.outbound());
    let authority = format!(":authority: {ECHO}");
    let fields = ["-H", &authority, "-H", "content-type: application/grpc", "-H", "te: trailers"];
    let arguments = [&["-n", "20000", "-c", "4", "-m", "50"][..], &fields[..], &[url.as_str()][..]].concat();
    let printed = programs::run_well("h2load", &arguments, PATIENCE);

    assert!(printed.contains("20000 succeeded, 0 failed, 0 errored, 0 timeout"), "{printed}");
    assert!(printed.contains("20000 2xx, 0 3xx, 0 4xx, 0 5xx"), "{printed}");
    assert_eq!(backend.calls(), 20_000, "the proxy answered some itself");
}
