//! Commands that reach proxies through the API server, which forwards ports to a node. A program of the test replaces
//! the node's kubelet.
//!
//! The proxies, the API server and the forwarded connections are real.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use leno_tests::kubernetes::Cluster;
use leno_tests::programs::{run_well, text};
use leno_tests::proxy::{free_address, wait_for};
use serde_json::{Value, json};

use super::{Clean, PATIENCE, leno, leno_well, tool};

/// A program that forwards ports, as the kubelet of a node does.
const FORWARDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control/cli/forwarder.py");

/// A program. Dropping this value kills the program.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Starts a program, and waits until it listens on `address`.
    fn listening(command: &mut Command, address: SocketAddr) -> Self {
        let running = Self::start(command.stdout(Stdio::null()));
        wait_for(&format!("{command:?} listens"), PATIENCE, || TcpStream::connect(address).ok());
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Creates a node, and starts the program that forwards ports in place of the node's kubelet.
fn forwarding_node(cluster: &Cluster) -> Running {
    let pki = cluster.kubeconfig().with_file_name("pki");
    let mut forwarder = Command::new("python3");
    forwarder.arg(FORWARDER).arg(pki.join("apiserver.crt")).arg(pki.join("apiserver.key"));
    let mut running = Running::start(forwarder.stdout(Stdio::piped()));
    let mut port = String::new();
    let printed = running.0.stdout.take().expect("it is piped");
    BufReader::new(printed).read_line(&mut port).expect("it prints its port");
    cluster.apply("{apiVersion: v1, kind: Node, metadata: {name: forwarder}}");
    let address = r#""addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]"#;
    let status = format!(
        r#"{{"status": {{{address}, "daemonEndpoints": {{"kubeletEndpoint": {{"Port": {}}}}}}}}}"#,
        port.trim()
    );
    cluster.kubectl(&["patch", "node", "forwarder", "--subresource=status", "--type=merge", "-p", &status]);
    running
}

/// Returns a Service with a TrafficPolicy and an AuthorizationPolicy. The Service has one endpoint, behind a proxy at
/// `inbound`. The AuthorizationPolicy allows only ns/cli-proxies/sa/client to call the endpoint.
fn manifests(server: SocketAddr, inbound: SocketAddr) -> [String; 2] {
    let (port, inbound) = (server.port(), inbound.port());
    let service = format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: cli-proxies}}, spec: {{ports: [{{port: 80}}]}}}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  namespace: cli-proxies
  labels: {{kubernetes.io/service-name: web}}
  annotations: {{leno.dev/identity: ns/cli-proxies/sa/default, leno.dev/inbound-port: \"{inbound}\"}}
addressType: IPv4
ports: [{{port: {port}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
---
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata: {{name: web, namespace: cli-proxies}}
spec: {{targetRefs: [{{kind: Service, name: web}}], timeouts: {{request: 30s}}, hedge: {{delay: p99, methods: [a.B/C]}}}}
"
    );
    let policy = format!(
        "{{apiVersion: leno.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {{name: web, namespace: cli-proxies}},
           spec: {{ports: [{port}], allow: [{{identities: [ns/cli-proxies/sa/client]}}]}}}}"
    );
    [service, policy]
}

/// Returns a Pod on the forwarding node, whose proxy has these ports.
fn meshed_pod(admin: SocketAddr, inbound: SocketAddr) -> String {
    let ports = format!(
        "[{{name: leno-admin, containerPort: {}}}, {{name: leno-inbound, containerPort: {}}}]",
        admin.port(),
        inbound.port()
    );
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: web-1, namespace: cli-proxies, labels: {{leno.dev/injected: \"true\"}}}}
spec:
  nodeName: forwarder
  initContainers: [{{name: leno-proxy, image: \"leno-proxy:0.0.1\", restartPolicy: Always, ports: {ports}}}]
  containers: [{{name: app, image: app}}]
"
    )
}

#[test]
fn proxies_are_looked_into_through_the_api_server() {
    let Some(cluster) = Cluster::get() else { return };
    let _clean = Clean::new(&cluster);
    cluster.apply(&leno_well(&cluster, &["install"]));
    cluster.namespace("cli-proxies");
    let _node = forwarding_node(&cluster);

    // Create an authority in the cluster's trust bundle, a server with a proxy, and a client with a proxy.
    let directory = tempfile::TempDir::new().expect("a directory");
    let at = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    leno_well(&cluster, &["ca", "init", "--out", &at("ca")]);
    let from = format!("--from-file=ca.crt={}", at("ca/trust-bundle.pem"));
    cluster.kubectl(&["-n", "leno", "create", "configmap", "leno-trust-bundle", &from]);
    let (server, admin, inbound, outbound) = (free_address(), free_address(), free_address(), free_address());
    let _server = Running::listening(tool().args(["echo", "--listen", &server.to_string()]), server);
    let [service, policy] = manifests(server, inbound);
    for (side, text) in [("server", format!("{service}---\n{policy}\n")), ("client", service)] {
        fs::create_dir(at(side)).expect("a directory");
        fs::write(at(&format!("{side}/web.yaml")), text).expect("it is written");
    }
    let proxy = |side: &str, account: &str, addresses: [SocketAddr; 3]| {
        let [inbound, outbound, admin] = addresses.map(|address| address.to_string());
        let mut command = tool();
        command.args(["proxy", "--config", &at(side), "--issuer", &at("ca"), "--tunnel", &free_address().to_string()]);
        command.args(["--identity", &format!("ns/cli-proxies/sa/{account}")]);
        command.args(["--inbound", &inbound, "--outbound", &outbound, "--admin", &admin]);
        Running::listening(&mut command, addresses[1])
    };
    let web = proxy("server", "default", [inbound, free_address(), admin]);
    let _client = proxy("client", "client", [free_address(), outbound, free_address()]);
    cluster.apply(&policy);
    cluster.apply(&meshed_pod(admin, inbound));

    let stat = thread::scope(|scope| {
        let measured =
            scope.spawn(|| leno_well(&cluster, &["stat", "ns/cli-proxies", "-o", "json", "--window", "10s"]));
        let arguments = ["-plaintext", "-authority", "web.cli-proxies:80", "-d", "{}"];
        while !measured.is_finished() {
            let method = [&outbound.to_string(), "leno.echo.v1.Echo/Unary"];
            run_well("grpcurl", &[&arguments[..], &method[..]].concat(), PATIENCE);
        }
        measured.join().expect("it is measured")
    });
    let stat: Value = serde_json::from_str(&stat).expect("JSON");
    assert_eq!((&stat[0]["pods"], &stat[0]["meshed_pods"]), (&json!(1), &json!(1)), "{stat}");
    assert!(stat[0]["calls_per_second"].as_f64().is_some_and(|calls| calls > 0.0), "{stat}");
    assert_eq!((&stat[0]["success_rate"], &stat[0]["tls_share"]), (&json!(1.0), &json!(1.0)), "{stat}");
    assert!(stat[0]["p99_ms"].as_f64() >= stat[0]["p50_ms"].as_f64(), "{stat}");

    let within = ["-n", "cli-proxies"];
    let identity = leno_well(&cluster, &[&["identity", "-o", "json"], &within[..]].concat());
    let identity: Value = serde_json::from_str(&identity).expect("JSON");
    assert_eq!(identity[0]["identity"], "spiffe://cluster.local/ns/cli-proxies/sa/default", "{identity}");
    assert_eq!(identity[0]["problem"], Value::Null, "{identity}");

    let authz = leno_well(&cluster, &[&["authz", "pods", "-o", "json"], &within[..]].concat());
    let authz: Value = serde_json::from_str(&authz).expect("JSON");
    assert_eq!(authz[0]["port"], server.port(), "{authz}");
    assert_eq!(authz[0]["decides"]["policies"]["callers"], json!(["ns/cli-proxies/sa/client"]), "{authz}");
    assert!(authz[0]["allowed"].as_f64().is_some_and(|allowed| allowed > 0.0), "{authz}");

    let metrics = leno_well(&cluster, &[&["diagnostics", "proxy-metrics", "web-1"], &within[..]].concat());
    assert!(metrics.contains("control_identity_cert_expiration_timestamp_seconds"), "{metrics}");
    // `leno identity` has read the proxy's certificate without showing one. The proxy must not count its connection as
    // a failed handshake.
    let failures = ["tls-cut", "tls-refused", "no-certificate"];
    assert!(!failures.iter().any(|failure| metrics.contains(failure)), "{metrics}");
    let config = leno_well(&cluster, &[&["diagnostics", "config", "web-1"], &within[..]].concat());
    assert!(config.contains("web.cli-proxies:80"), "{config}");
    let of_method = ["diagnostics", "traffic", "web:80", "leno.echo.v1.Echo/Unary", "--pod", "web-1"];
    let traffic = leno_well(&cluster, &[&of_method[..], &within[..]].concat());
    let limit = traffic.lines().find(|line| line.contains("timeouts.request")).expect(&traffic);
    assert!(limit.contains("TrafficPolicy cli-proxies/web") && limit.ends_with("30s"), "{traffic}");
    assert!(!traffic.contains("hedge"), "the policy hedges another method: {traffic}");

    drop(web);
    let gone = leno(&cluster, &[&["diagnostics", "config", "web-1"], &within[..]].concat());
    assert!(text(&gone).contains(&format!("nobody listens on port {}", admin.port())), "{}", text(&gone));
    cluster.kubectl(&["-n", "cli-proxies", "delete", "pod", "web-1", "--force", "--grace-period=0"]);
    cluster.kubectl(&["delete", "node", "forwarder"]);
}
