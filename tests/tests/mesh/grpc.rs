//! gRPC through the mesh: `leno echo`, `ghz` and `grpcurl`.

use leno_tests::mesh::{Capture, Mesh, MeshService, Program, Workload};
use serde_json::Value;

use super::Pair;
use crate::interop;

/// A payload that no TLS record contains by chance.
const PAYLOAD: &[u8] = b"a payload that nobody else may read on its way";
/// A request with this payload. JSON encodes bytes as base64.
const REQUEST: &str = r#"{"payload": "YSBwYXlsb2FkIHRoYXQgbm9ib2R5IGVsc2UgbWF5IHJlYWQgb24gaXRzIHdheQ=="}"#;
const UNARY: &str = "leno.echo.v1.Echo/Unary";
/// The echo server's port.
pub(super) const PORT: u16 = 50051;

/// Starts an echo server on all addresses of its namespace.
pub(super) fn start_echo(workload: &Workload) -> Program {
    let program = workload.start("leno", &["echo", "--listen", "0.0.0.0:50051", "--name", workload.name()]);
    workload.wait_for_port(PORT);
    program
}

/// Makes a call whose request and response contain the payload; returns the response.
fn call(client: &Workload, to: &str) -> Value {
    let answer = client.run_well("grpcurl", &["-plaintext", "-d", REQUEST, to, UNARY]);
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn a_call_is_encrypted_on_the_wire_and_both_sides_say_who_the_other_is() {
    let Some(mesh) = Mesh::new() else { return };
    let (server, client) = (mesh.meshed("echo", &[]), mesh.meshed("web", &[]));
    let _echo = start_echo(&server);
    mesh.serve(&MeshService::new("echo", PORT).at(&server), &[&server, &client]);
    let Some(capture) = Capture::start(&mesh, "meshed") else { return };
    assert_eq!(call(&client, "echo:50051")["server"], "echo");
    assert!(!capture.stop().contain(PAYLOAD));

    let (of_server, of_client) = (server.spiffe_id(), client.spiffe_id());
    let called = [("path", "/leno.echo.v1.Echo/Unary"), ("grpc_status", "0"), ("tls", "true"), ("protocol", "HTTP/2")];
    let outbound = client.wait_for_access(&called);
    assert_eq!((&outbound["direction"], &outbound["server_id"]), (&"outbound".into(), &of_server.as_str().into()));
    let inbound = server.wait_for_access(&called);
    assert_eq!((&inbound["direction"], &inbound["client_id"]), (&"inbound".into(), &of_client.as_str().into()));

    let of_server = format!("server_id=\"{of_server}\"");
    let labels = [r#"direction="outbound""#, r#"dst_service="echo""#, r#"tls="true""#, &of_server];
    assert!(client.scrape().sum("request_total", &labels) >= 1.0);
    assert!(client.scrape().sum("tcp_open_total", &[&labels[..], &[r#"peer="dst""#]].concat()) >= 1.0);
    let of_client = format!("client_id=\"{of_client}\"");
    let labels = [r#"direction="inbound""#, r#"tls="true""#, &of_client, r#"grpc_status="0""#];
    assert!(server.scrape().sum("response_total", &labels) >= 1.0);

    // For comparison: the same call from a client without a proxy.
    let outsider = mesh.workload("outsider");
    let capture = Capture::start(&mesh, "clear").expect("it was there before");
    assert_eq!(call(&outsider, &format!("{}:{PORT}", server.address()))["server"], "echo");
    assert!(capture.stop().contain(PAYLOAD));
    let inbound = server.wait_for_access(&[("path", "/leno.echo.v1.Echo/Unary"), ("tls", "no_identity")]);
    let client = inbound["client"].as_str().unwrap_or_default();
    assert!(client.starts_with(&format!("{}:", outsider.address())), "{inbound}");
    assert!(inbound["client_id"].is_null(), "{inbound}");
}

#[test]
fn ghz_makes_thousands_of_calls_without_an_error_and_all_servers_take_part() {
    let Some(mesh) = Mesh::new() else { return };
    let servers = ["red", "green", "blue"].map(|name| mesh.meshed(name, &[]));
    let client = mesh.meshed("web", &[]);
    let _echoes: Vec<Program> = servers.iter().map(start_echo).collect();
    let [red, green, blue] = &servers;
    mesh.serve(&MeshService::new("echo", PORT).at(red).at(green).at(blue), &[&client, red, green, blue]);
    let what = ["--insecure", "--call", UNARY, "-d", REQUEST, "-n", "3000", "-c", "30", "--connections", "3"];
    let report = client.run_well("ghz", &[&what[..], &["-O", "json", "echo:50051"]].concat());
    let report: Value = serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report}"));
    assert_eq!(report["statusCodeDistribution"], serde_json::json!({"OK": 3000}));
    // This test does not check the servers' shares: the balancer chooses by latency, and a busy machine may slow one
    // server for the whole second of this test. The balancer's own tests check the shares in simulated time.
    let calls = |server: &Workload| {
        let inbound = [r#"direction="inbound""#, r#"tls="true""#, r#"classification="success""#];
        server.scrape().sum("response_total", &inbound)
    };
    let shares: Vec<f64> = servers.iter().map(calls).collect();
    assert!(shares.iter().sum::<f64>() >= 3000.0, "{shares:?}");
    assert!(shares.iter().all(|&calls| calls > 0.0), "{shares:?}");
}

#[test]
fn every_interop_case_passes_through_both_proxies() {
    let Some(pair) = Pair::new(|server| MeshService::new("interop", PORT).at(server)) else { return };
    let port = PORT.to_string();
    let _server = pair.server.start("interop-server", &["-port", &port]);
    pair.server.wait_for_port(PORT);
    for case in interop::CASES {
        pair.client.run_well("interop-client", &interop::arguments(case, "interop", &port));
    }
    pair.assert_encrypted();
}
