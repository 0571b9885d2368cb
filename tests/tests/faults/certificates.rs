//! Peers with wrong certificates: `openssl s_server` as a server, and `openssl s_client` as a client.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use leno_tests::client::{Answer, Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::programs;
use leno_tests::proxy::{Proxy, wait_for};

use super::sides::{Authority, ServerSide, TRUST_DOMAIN, behind_proxy, client_side, own_ip};

/// Longest time for a program to start or to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// The identity that the endpoint must prove.
const WORKLOAD: &str = "ns/default/sa/echo";

/// A certificate that a proxy must reject, and the proxy's report.
struct Case {
    /// Arguments of `leno ca issue`.
    arguments: &'static [&'static str],
    /// The authority that signs the certificate.
    issuer: Issuer,
    workload: &'static str,
    /// The label of the failure in metrics.
    label: &'static str,
    /// Words of the log line: the reason, and what to do.
    words: &'static [&'static str],
}

enum Issuer {
    Ours,
    Unknown,
    /// An authority of another trust domain. Its anchor is in our trust bundle.
    Partner,
}

/// Certificates that a proxy must reject from servers and from clients.
const CASES: [Case; 4] = [
    Case {
        arguments: &[],
        issuer: Issuer::Unknown,
        workload: WORKLOAD,
        label: "unknown-anchor",
        words: &["no anchor of our trust bundle", "add the peer's anchor"],
    },
    Case {
        arguments: &["--not-before", "-2h", "--lifetime", "1h"],
        issuer: Issuer::Ours,
        workload: WORKLOAD,
        label: "certificate-expired",
        words: &["certificate expired 3", "s ago", "why it was not renewed"],
    },
    Case {
        arguments: &["--not-before", "2h"],
        issuer: Issuer::Ours,
        workload: WORKLOAD,
        label: "certificate-not-yet-valid",
        words: &["not valid for another 7", "set the clocks"],
    },
    Case {
        arguments: &[],
        issuer: Issuer::Partner,
        workload: WORKLOAD,
        label: "certificate-identity",
        words: &["spiffe://partner.example/ns/default/sa/echo", "another trust domain than ours, test.example"],
    },
];

/// The authorities that sign the certificates of a test.
struct Authorities {
    ours: Authority,
    unknown: Authority,
    partner: Authority,
}

impl Authorities {
    fn new() -> Self {
        let this =
            Self { ours: Authority::new(), unknown: Authority::new(), partner: Authority::of("partner.example") };
        let anchors = [&this.ours, &this.partner].map(|authority| read(&authority.path().join("ca.crt"))).concat();
        std::fs::write(this.ours.path().join("trust-bundle.pem"), anchors).expect("the directory is ours");
        this
    }

    fn issue(&self, case: &Case) -> std::path::PathBuf {
        let issuer = match case.issuer {
            Issuer::Ours => &self.ours,
            Issuer::Unknown => &self.unknown,
            Issuer::Partner => &self.partner,
        };
        issuer.issue(case.workload, case.arguments)
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it is there")
}

/// An `openssl s_server`, which prints the data that it receives. Dropping this value kills the program.
struct OpensslServer {
    child: Child,
    output: tempfile::NamedTempFile,
}

impl OpensslServer {
    fn start(address: SocketAddr, certificate: &Path) -> Self {
        let output = tempfile::NamedTempFile::new().expect("a file for the output");
        let child = Command::new("openssl")
            .args(["s_server", "-accept", &address.to_string(), "-alpn", "h2", "-tls1_3", "-verify", "1"])
            .arg("-cert")
            .arg(certificate.join("tls.crt"))
            .arg("-key")
            .arg(certificate.join("tls.key"))
            // `s_server` ends when its input ends.
            .stdin(Stdio::piped())
            .stdout(output.reopen().expect("the file is ours"))
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        let this = Self { child, output };
        wait_for("openssl s_server", PATIENCE, || this.heard().contains("ACCEPT").then_some(()));
        this
    }

    /// Returns the server's output: messages about handshakes, and the data that it received.
    fn heard(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.output.path()).expect("the file is ours")).into_owned()
    }
}

impl Drop for OpensslServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Calls a server with this certificate through a proxy. Returns the proxy, the answer, and the server's output.
async fn call_server_with(authority: &Authority, certificate: &Path) -> (Proxy, Answer, String) {
    let address = SocketAddr::new(own_ip(), 4143);
    let server = OpensslServer::start(address, certificate);
    let endpoint = SocketAddr::new(address.ip(), 50051);
    let proxy = client_side(authority, &[behind_proxy(Service::echo(&[endpoint]), endpoint, WORKLOAD)], &[]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let answer = client.call(&Call::new("Echo").with("a-secret", "for one server alone"), b"hello").await;
    let heard = server.heard();
    (proxy, answer, heard)
}

/// Asserts that the proxy logged and counted the failed connection exactly once.
fn assert_told(proxy: &Proxy, direction: &str, label: &str, words: &[&str]) {
    let side = format!("{direction} connection");
    proxy.wait_for_log(&[&[side.as_str()], words].concat());
    let log = proxy.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("failed: ")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let labels = [format!("direction=\"{direction}\""), format!("why=\"{label}\"")];
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    assert_eq!(proxy.scrape().sum("leno_connections_failed_total", &labels), 1.0, "{label}");
    assert_eq!(proxy.scrape().sum("leno_connections_failed_total", &[]), 1.0, "{label}");
}

fn assert_refused(answer: &Answer, words: &[&str]) {
    assert_eq!((answer.grpc_status(), answer.field("leno-proxy-error")), (Some(14), Some("connect-failed")));
    let message = answer.field("grpc-message").expect("it says why");
    for word in words {
        assert!(message.contains(word), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_another_workload_hears_nothing_and_the_caller_hears_both_names() {
    let authority = Authority::new();
    let (proxy, answer, heard) = call_server_with(&authority, &authority.issue("ns/default/sa/mallory", &[])).await;
    let ids = ["mallory", "echo"].map(|name| format!("spiffe://{TRUST_DOMAIN}/ns/default/sa/{name}"));
    assert_refused(&answer, &[&ids[0], &ids[1]]);
    let words = [format!("is {} and must be {}", ids[0], ids[1]), "find out what listens there".to_owned()];
    assert_told(&proxy, "outbound", "wrong-identity", &[&words[0], &words[1]]);
    assert!(!heard.contains("PRI") && !heard.contains("secret"), "{heard}");
    assert_eq!(proxy.scrape().sum("leno_proxy_errors_total", &[r#"why="connect-failed""#]), 1.0);

    // For comparison: a server with the required identity receives HTTP/2, which openssl does not answer.
    let (_proxy, _answer, heard) = call_server_with(&authority, &authority.issue(WORKLOAD, &[])).await;
    assert!(heard.contains("ALPN protocols selected: h2") && heard.contains("PRI * HTTP/2.0"), "{heard}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_certificate_is_no_good_hears_nothing() {
    let authorities = Authorities::new();
    for case in &CASES {
        let (proxy, answer, heard) = call_server_with(&authorities.ours, &authorities.issue(case)).await;
        assert_refused(&answer, case.words);
        assert_told(&proxy, "outbound", case.label, case.words);
        assert!(!heard.contains("PRI") && !heard.contains("secret"), "{}: {heard}", case.label);
    }
}

/// Connects with TLS and this certificate, and waits until the connection ends.
fn connect_with(certificate: &Path, to: SocketAddr) -> Output {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).args(["openssl", "s_client", "-alpn", "h2", "-ign_eof", "-servername"]);
    command.args(["50051.leno.internal", "-connect", &to.to_string()]);
    command.arg("-cert").arg(certificate.join("tls.crt")).arg("-key").arg(certificate.join("tls.key"));
    command.stdin(Stdio::null()).output().expect("timeout (coreutils) runs")
}

/// Asserts that a client with this certificate gets a TLS alert, and that the server's proxy reports the reason.
pub(super) fn assert_client_is_refused(certificate: &Path, server: &ServerSide, label: &str, words: &[&str]) {
    let output = programs::text(&connect_with(certificate, server.inbound()));
    assert!(output.contains("alert"), "{label}: {output}");
    assert_told(server.proxy(), "inbound", label, words);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_whose_certificate_is_no_good_is_told_so_and_calls_nobody() {
    let authorities = Authorities::new();
    for case in &CASES {
        let server = ServerSide::start(&authorities.ours, "echo", Default::default(), &[]).await;
        assert_client_is_refused(&authorities.issue(case), &server, case.label, case.words);
        assert_eq!(server.backend.seen().connections.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

/// Connects with TLS and without a certificate, waits until the connection ends, and returns OpenSSL's output.
fn connect_without_certificate(to: SocketAddr) -> String {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).args(["openssl", "s_client", "-alpn", "h2", "-ign_eof", "-servername"]);
    command.args(["50051.leno.internal", "-connect", &to.to_string()]).stdin(Stdio::null());
    programs::text(&command.output().expect("timeout (coreutils) runs"))
}

/// The default policy allows clients without an identity. But the policy applies only to the port to which such a
/// client has connected. The tunnel or a TLS server name must not lead the client to another port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tunnel_and_named_ports_reject_a_client_without_a_certificate_within_the_handshake() {
    let authority = Authority::new();
    for door in [ServerSide::tunnel, ServerSide::inbound] {
        let server = ServerSide::start(&authority, "echo", Default::default(), &[]).await;
        let output = connect_without_certificate(door(&server));
        assert!(output.contains("alert certificate required"), "{output}");
        assert_told(server.proxy(), "inbound", "no-certificate", &["the peer sent no certificate", "behind a proxy"]);
        assert_eq!(server.backend.seen().connections.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

/// `leno identity` reads a proxy's certificate through this port, and has no certificate itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_inbound_sides_own_port_shows_its_certificate_to_all_and_leads_nowhere() {
    let authority = Authority::new();
    let server = ServerSide::start(&authority, "echo", Default::default(), &[]).await;
    let own = server.inbound();
    let url = format!("https://{}.leno.internal:{}/test.Test/Echo", own.port(), own.port());
    let to = format!("{}.leno.internal:{}:{}", own.port(), own.port(), own.ip());
    let answer = programs::run_well("curl", &["-sSik", "--http2", "--max-time", "5", "--resolve", &to, &url], PATIENCE);
    assert!(answer.starts_with("HTTP/2 508") && answer.contains("leno-proxy-error: loop"), "{answer}");
}
