//! GRPCRoutes: `grpcurl` and `ghz` in front of `leno echo`.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use leno_tests::manifests::{ECHO, Service};
use leno_tests::programs::{self, Server};
use leno_tests::proxy::{Proxy, free_address, wait_for};

/// Longest time for a program on a busy machine. Most programs take one or two seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const UNARY: &str = "leno.echo.v1.Echo/Unary";

/// Starts `leno echo` with this name.
fn start_echo(name: &str, address: SocketAddr) -> Server {
    let server = Server::start("leno", &["echo", "--listen", &address.to_string(), "--name", name]);
    wait_for("leno echo listens", PATIENCE, || TcpStream::connect(address).ok());
    server
}

/// The Service `echo` with a GRPCRoute, and two backend servers.
struct Versions {
    proxy: Proxy,
    addresses: [SocketAddr; 2],
    _servers: [Server; 2],
}

impl Versions {
    fn start(rules: &str) -> Self {
        let addresses = [free_address(), free_address()];
        let [v1, v2] = addresses;
        let servers = [start_echo("v1", v1), start_echo("v2", v2)];
        let services = [Service::echo(&[v1]).grpc_routed(rules), Service::new("v1", &[v1]), Service::new("v2", &[v2])];
        Self { proxy: Proxy::start(&services), addresses, _servers: servers }
    }

    /// Returns the output of `grpcurl` for a call to `echo`; the call may fail.
    fn grpcurl(&self, options: &[&str], method: &str) -> String {
        let address = self.proxy.outbound().to_string();
        // Use the proto file and no reflection: calls of reflection would have to match the route, too.
        let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/lab/proto");
        let described = ["-import-path", proto, "-proto", "leno/echo/v1/echo.proto"];
        let arguments = [&["-plaintext", "-authority", ECHO][..], &described, options, &[&address, method]].concat();
        programs::text(&programs::run("grpcurl", &arguments, PATIENCE))
    }

    /// Number of calls at each server.
    fn counts(&self) -> [u64; 2] {
        self.addresses.map(count)
    }
}

/// Number of calls at an echo server.
fn count(address: SocketAddr) -> u64 {
    let printed =
        programs::run_well("grpcurl", &["-plaintext", &address.to_string(), "leno.echo.v1.Echo/Count"], PATIENCE);
    let counted: serde_json::Value = serde_json::from_str(&printed).expect("grpcurl prints JSON");
    // Protobuf's JSON encodes a 64-bit integer as a string, and omits 0.
    counted["calls"].as_str().map_or(0, |calls| calls.parse().expect("a number"))
}

#[test]
fn method_and_metadata_tell_calls_apart_and_what_is_left_is_unimplemented() {
    let versions = Versions::start(
        "- matches:
  - method: {service: leno.echo.v1.Echo, method: Unary}
    headers: [{name: x-version, value: v2}]
  backendRefs: [{name: v2, port: 50051}]
- matches: [{method: {service: leno.echo.v1.Echo, method: Unary}}]
  filters:
  - type: ResponseHeaderModifier
    responseHeaderModifier: {set: [{name: x-served-by, value: leno}]}
  backendRefs: [{name: v1, port: 50051}]
- matches: [{method: {service: leno.echo.v1.Echo, method: Bidi}}]
  backendRefs: [{name: nobody, port: 50051}]",
    );
    assert!(versions.grpcurl(&[], UNARY).contains(r#""server": "v1""#));
    assert!(versions.grpcurl(&["-v"], UNARY).contains("x-served-by: leno"));
    assert!(versions.grpcurl(&["-H", "x-version: v2"], UNARY).contains(r#""server": "v2""#));
    let refused = versions.grpcurl(&[], "leno.echo.v1.Echo/Count");
    assert!(refused.contains("Code: Unimplemented") && refused.contains("echo.default:50051"), "{refused}");
    let broken = versions.grpcurl(&["-d", "{}"], "leno.echo.v1.Echo/Bidi");
    assert!(broken.contains("Code: Unavailable") && broken.contains("GRPCRoute default/echo"), "{broken}");
}

#[test]
fn two_thousand_calls_are_shared_out_by_weight() {
    let versions = Versions::start(
        "- backendRefs:
  - {name: v1, port: 50051, weight: 90}
  - {name: v2, port: 50051, weight: 10}",
    );
    let address = versions.proxy.outbound().to_string();
    let what = ["--insecure", "--authority", ECHO, "--call", UNARY, "-d", r#"{"payload": "YWJj"}"#];
    let how = ["-n", "2000", "-c", "20", "-O", "json", &address];
    let printed = programs::run_well("ghz", &[&what[..], &how[..]].concat(), PATIENCE);
    let report: serde_json::Value = serde_json::from_str(&printed).expect("ghz prints JSON");
    assert_eq!(report["statusCodeDistribution"], serde_json::json!({"OK": 2000}));

    let [v1, v2] = versions.counts();
    assert_eq!(v1 + v2, 2_000);
    // The range is six standard deviations (13 each) around 200, the mean of the binomial distribution.
    assert!((120..=280).contains(&v2), "{v2} of 2000 calls went to the tenth");
    let requests = |backend: &str| {
        let labels = [r#"route_kind="GRPCRoute""#, &*format!("backend_name=\"{backend}\"")];
        versions.proxy.scrape().sum("outbound_grpc_route_backend_requests_total", &labels)
    };
    // ghz first makes a call of reflection, which the server counts, too.
    assert!(requests("v1") + requests("v2") >= 2_000.0);
}

#[test]
fn the_example_of_a_canary_does_what_its_page_says() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/canary/canary.yaml");
    let manifests = std::fs::read_to_string(example).expect("the example is there");
    let [v1, v2] = ["127.0.0.1:50061", "127.0.0.2:50061"].map(|address| address.parse().expect("an address"));
    let _servers = [start_echo("v1", v1), start_echo("v2", v2)];
    let proxy = Proxy::start(&[]);
    proxy.directory().write("canary.yaml", &manifests);
    let call = |options: &[&str]| {
        let address = proxy.outbound().to_string();
        let arguments = [&["-plaintext", "-authority", "echo:50051"][..], options, &[&address, UNARY]].concat();
        programs::text(&programs::run("grpcurl", &arguments, PATIENCE))
    };
    let asked_for = ["-H", "x-version: v2"];
    wait_for("the example is in force", PATIENCE, || call(&asked_for).contains(r#""server": "v2""#).then_some(()));
    let before = count(v2);
    let answers = (0..100).map(|_| call(&[])).filter(|answer| answer.contains(r#""server": "v"#)).count();
    assert_eq!(answers, 100);
    // The range is six standard deviations (3 each) around 10, the mean of the binomial distribution.
    assert!((1..=28).contains(&(count(v2) - before)), "{} of 100 calls went to the tenth", count(v2) - before);
}
