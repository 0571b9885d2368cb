//! Networks that lose packets, delay packets, or lose a whole machine. Each test starts itself once more, in its own
//! network namespace.

use std::net::SocketAddr;
use std::time::Duration;
use std::{slice, thread};

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use leno_tests::backend::Settings;
use leno_tests::client::{Call, Client, read_at_least};
use leno_tests::load::Clients;
use leno_tests::manifests::ECHO;
use leno_tests::mesh::skipped;
use leno_tests::messages;
use leno_tests::namespaces::run_test_inside;
use leno_tests::programs;
use leno_tests::proxy::{Proxy, wait_for};

use super::sides::{Authority, ServerSide, client_side, echo};

const IN_FLIGHT: usize = 20;
/// Longest time that a test waits for an event that it expects soon. It allows for a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// Limits that detect a vanished peer soon, 3 s each. The first is the keepalive time, whose minimum is 3 s. The second
/// limits the time for which a peer does not read or acknowledge data.
const IMPATIENT: [&str; 4] = ["--limit", "keepalive_ms=3000", "--limit", "unread_timeout_ms=3000"];

/// Drops packets of the proxies' inbound port: packets to the port that match the nftables expression `to`, and packets
/// from the port that match `from`.
fn drop_packets(to: &str, from: &str) {
    drop_packets_by(&format!(
        "tcp dport 4143 {to} counter drop
         tcp sport 4143 {from} counter drop"
    ));
}

/// Drops packets by these nftables rules.
fn drop_packets_by(rules: &str) {
    let rules = format!(
        "table inet faults {{
           chain input {{
             type filter hook input priority 0;
             {rules}
           }}
         }}"
    );
    programs::run_well("nft", &[&rules], SOON);
}

/// Returns how many packets the nftables rules have dropped.
fn dropped_packets() -> u64 {
    let rules = programs::run_well("nft", &["list", "ruleset"], SOON);
    let counts = rules.split("counter packets ").skip(1).filter_map(|rest| rest.split_whitespace().next());
    counts.map(|count| count.parse::<u64>().expect("a number of packets")).sum()
}

/// A call through two proxies. Both sides have sent a message, and neither has ended its stream.
struct OpenCall {
    server: ServerSide,
    proxy: Proxy,
    request: SendStream<Bytes>,
    response: RecvStream,
    // Dropping the client would close its connection.
    _client: Client,
}

impl OpenCall {
    /// Begins a call, with more arguments for the proxies of the server and of the client.
    async fn begin(authority: &Authority, of_server: &[&str], of_client: &[&str]) -> Self {
        let server = ServerSide::start(authority, "echo", Settings::default(), of_server).await;
        let proxy = client_side(authority, &[echo(slice::from_ref(&server))], of_client);
        let client = Client::connect(proxy.outbound(), ECHO).await;
        let (answer, mut request) = client.open(&Call::new("Bidi")).await.expect("the call begins");
        let message = messages::message(b"hello");
        messages::send(&mut request, message.clone(), false).await.expect("it is sent");
        let mut response = answer.await.expect("the answer begins").into_body();
        read_at_least(&mut response, message.len()).await.expect("the message comes back");
        Self { server, proxy, request, response, _client: client }
    }

    /// Sends a message.
    async fn send(&mut self, message: &Bytes) {
        messages::send(&mut self.request, message.clone(), false).await.expect("it is sent");
    }
}

/// Waits until a client's proxy has noticed that the proxy of the server at `gone` has vanished.
fn wait_for_lost_server(proxy: &Proxy, gone: SocketAddr) {
    proxy.wait_for_log_within(&[&format!("the connection to {gone} ended with calls in flight")], SOON);
}

/// Waits until a server's proxy has closed the connections of a client that has vanished.
fn wait_for_lost_client(server: &ServerSide) {
    let open = [r#"direction="inbound""#, r#"peer="src""#];
    wait_for("the server side has noticed", SOON, || {
        (server.proxy().scrape().sum("tcp_open_connections", &open) == 0.0).then_some(())
    });
}

async fn two_servers(authority: &Authority) -> Vec<ServerSide> {
    let mut servers = Vec::new();
    for name in ["echo0", "echo1"] {
        let settings = Settings { delay: Duration::from_millis(20), ..Settings::default() };
        servers.push(ServerSide::start(authority, name, settings, &IMPATIENT).await);
    }
    servers
}

fn proxy_errors(proxy: &Proxy) -> usize {
    proxy.scrape().sum("leno_proxy_errors_total", &[]) as usize
}

/// Asserts that all calls succeed. The proxy replaces each connection after a second, so handshakes must succeed, too.
async fn assert_calls_get_through() {
    let authority = Authority::new();
    let servers = two_servers(&authority).await;
    let service = echo(&servers).annotated("leno.dev/max-connection-age", "1s");
    let proxy = client_side(&authority, &[service], &[]);
    let clients = Clients::connect(proxy.outbound(), ECHO, 4).await;
    let report = clients.paced(100, Duration::from_secs(6)).await;
    report.assert_nothing_lost();
    assert_eq!(proxy_errors(&proxy), 0, "{}", proxy.log());
}

#[test]
fn calls_get_through_although_packets_are_lost() {
    run_test_inside("faults::networks::loses_packets", &[]);
}

#[ignore = "runs inside the namespaces that another test makes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loses_packets() {
    let some = "numgen random mod 100 < 3";
    drop_packets(some, some);
    assert_calls_get_through().await;
    let rules = programs::run_well("nft", &["list", "ruleset"], SOON);
    assert!(!rules.contains("packets 0"), "packets were lost both ways: {rules}");
}

#[test]
fn calls_get_through_although_packets_are_late() {
    let has_netem = ["--map-root-user", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"];
    if !programs::run("unshare", &has_netem, SOON).status.success() {
        return skipped("this kernel has no netem (sch_netem); it was not tried what late packets do");
    }
    run_test_inside("faults::networks::delays_packets", &[]);
}

#[ignore = "runs inside the namespaces that another test makes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delays_packets() {
    let netem = ["qdisc", "add", "dev", "lo", "root", "netem", "delay", "40ms", "20ms", "loss", "1%"];
    programs::run_well("tc", &netem, SOON);
    assert_calls_get_through().await;
}

#[test]
fn a_machine_that_vanishes_costs_the_calls_in_flight_there_and_no_other() {
    run_test_inside("faults::networks::loses_a_machine", &[]);
}

#[ignore = "runs inside the namespaces that another test makes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loses_a_machine() {
    let authority = Authority::new();
    let servers = two_servers(&authority).await;
    let service = echo(&servers).annotated("leno.dev/connect-timeout", "3s");
    let proxy = client_side(&authority, &[service], &IMPATIENT);
    let clients = Clients::connect(proxy.outbound(), ECHO, 4).await;
    let load = clients.keep_calling(IN_FLIGHT);
    load.wait_for_more(200, SOON).await;

    let gone: SocketAddr = servers[0].inbound();
    drop_packets(&format!("ip daddr {}", gone.ip()), &format!("ip saddr {}", gone.ip()));
    wait_for_lost_server(&proxy, gone);
    load.wait_for_more(500, SOON).await;
    let report = load.finish().await;
    assert!((1..=IN_FLIGHT).contains(&report.lost.len()), "{:#?}", report.lost);
    for why in &report.lost {
        assert!(why.contains("grpc-status Some(14)"), "{why}");
    }
    assert_eq!(proxy_errors(&proxy), report.lost.len(), "{}", proxy.log());

    // The server's proxy sees the client vanish, and must close the client's connections.
    wait_for_lost_client(&servers[0]);

    // After the packets are no longer dropped, the server gets calls again.
    programs::run_well("nft", &["flush", "ruleset"], SOON);
    let before = servers[0].backend.calls();
    let load = clients.keep_calling(IN_FLIGHT);
    wait_for("calls to the machine that is back", SOON, || (servers[0].backend.calls() > before + 10).then_some(()));
    load.finish().await.assert_nothing_lost();
}

#[test]
fn a_machine_that_vanishes_gets_no_new_calls_before_its_connection_ends() {
    run_test_inside("faults::networks::avoids_a_silent_machine", &[]);
}

#[ignore = "runs inside the namespaces that another test makes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn avoids_a_silent_machine() {
    let authority = Authority::new();
    let servers = two_servers(&authority).await;
    // The balancer does not avoid slow endpoints.
    let service = echo(&servers).annotated("leno.dev/balancer", "round-robin");
    let proxy = client_side(&authority, &[service], &IMPATIENT);
    let clients = Clients::connect(proxy.outbound(), ECHO, 4).await;
    clients.paced(20, Duration::from_secs(1)).await.assert_nothing_lost();

    let gone = servers[0].inbound().ip();
    drop_packets(&format!("ip daddr {gone}"), &format!("ip saddr {gone}"));
    let report = clients.paced(20, Duration::from_secs(6)).await;
    // The connection ends after 5 s: the limit for unacknowledged data, and the kernel's grace of 2 s. Until then, 50
    // calls would go to this machine. The PING follows after at most 1.5 s, that is, after 15 calls.
    assert!((1..30).contains(&report.lost.len()), "{:#?}", report.lost);
}

#[test]
fn a_silent_stream_survives_a_lost_keepalive_probe() {
    run_test_inside("faults::networks::loses_probes", &[]);
}

#[ignore = "runs inside the namespaces that another test makes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loses_probes() {
    let authority = Authority::new();
    // The limit on unread data is shorter than the time of the second probe.
    let limits = ["--limit", "keepalive_ms=3000", "--limit", "unread_timeout_ms=1000"];
    let mut call = OpenCall::begin(&authority, &[], &limits).await;
    // Meanwhile, the kernels acknowledge all bytes. Then each packet of the client's proxy is a probe.
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop_packets_by("tcp dport 4143 numgen inc mod 2 0 counter drop");
    wait_for("two lost probes", SOON, || {
        thread::sleep(Duration::from_millis(100));
        (dropped_packets() >= 2).then_some(())
    });
    programs::run_well("nft", &["flush", "ruleset"], SOON);
    let message = messages::message(b"still there");
    call.send(&message).await;
    let echoed = tokio::time::timeout(SOON, read_at_least(&mut call.response, message.len())).await;
    assert_eq!(echoed.expect("an echo in time").expect("an echo"), message, "{}", call.proxy.log());
}

#[test]
fn a_peer_that_vanishes_from_a_silent_stream_is_noticed() {
    run_test_inside("faults::networks::loses_a_silent_peer", &[]);
}

#[ignore = "runs inside the namespaces that another test makes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loses_a_silent_peer() {
    let authority = Authority::new();
    // Each call has one limit below `SOON`. The other limit keeps its default, which is longer.
    let (keepalive, unread) = (["--limit", "keepalive_ms=3000"], ["--limit", "unread_timeout_ms=1000"]);
    let silent = OpenCall::begin(&authority, &keepalive, &keepalive).await;
    let mut sending = OpenCall::begin(&authority, &unread, &unread).await;
    // Meanwhile, the kernels acknowledge all bytes, and the proxies lift the limit on unread bytes.
    tokio::time::sleep(Duration::from_secs(3)).await;
    drop_packets("", "");
    sending.send(&messages::message(b"lost")).await;
    wait_for_lost_server(&sending.proxy, sending.server.inbound());
    wait_for_lost_server(&silent.proxy, silent.server.inbound());
    wait_for_lost_client(&silent.server);
}
