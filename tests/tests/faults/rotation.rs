//! Certificates are renewed, and the authority itself is replaced, while clients open connections all the time.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::slice;
use std::time::{Duration, Instant};

use leno_tests::backend::Settings;
use leno_tests::client::{Call, Client};
use leno_tests::load::{Clients, Load};
use leno_tests::manifests::ECHO;
use leno_tests::programs;
use leno_tests::proxy::{Proxy, wait_for};

use super::sides::{Authority, ServerSide, client_side, echo, own_ip};

const IN_FLIGHT: usize = 20;
/// Longest time that a test waits for an event that it expects soon. It allows for a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// Longest time until the proxy ends a call or connection whose certificate is no longer trusted. The proxy reads the
/// trust bundle each second, and then takes one more second; the rest is for a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// A short lifetime of certificates, so that a proxy renews its certificate every 7 to 9 seconds. The proxy checks once
/// a second whether a renewal is due.
const LIFETIME: [&str; 2] = ["--svid-lifetime", "10s"];

/// Starts two servers whose connections live for a second, so that there are handshakes all the time.
async fn start(authority: &Authority, arguments: &[&str]) -> (Vec<ServerSide>, Proxy, Load) {
    let mut servers = Vec::new();
    for name in ["echo0", "echo1"] {
        let settings = Settings { delay: Duration::from_millis(5), ..Settings::default() };
        servers.push(ServerSide::start(authority, name, settings, arguments).await);
    }
    let short_lived = echo(&servers).annotated("leno.dev/max-connection-age", "1s");
    let proxy = client_side(authority, &[short_lived], arguments);
    let load = Clients::connect(proxy.outbound(), ECHO, 4).await.keep_calling(IN_FLIGHT);
    (servers, proxy, load)
}

fn refreshes(proxy: &Proxy, result: &str) -> usize {
    let labels = [format!("result=\"{result}\"")];
    proxy.scrape().sum("control_identity_cert_refreshes_total", &labels.each_ref().map(String::as_str)) as usize
}

/// Waits until each proxy has got `more` new certificates.
fn wait_for_refreshes(proxies: &[&Proxy], before: &[usize], more: usize) {
    for (proxy, before) in proxies.iter().zip(before) {
        wait_for("a new certificate", SOON, || (refreshes(proxy, "ok") >= before + more).then_some(()));
    }
}

fn handshakes(servers: &[ServerSide]) -> usize {
    let inbound = [r#"direction="inbound""#, r#"peer="src""#, r#"tls="true""#];
    servers.iter().map(|server| server.proxy().scrape().sum("tcp_open_total", &inbound) as usize).sum()
}

fn assert_no_call_failed(proxies: &[&Proxy]) {
    for proxy in proxies {
        assert_eq!(proxy.scrape().sum("leno_proxy_errors_total", &[]), 0.0, "{}", proxy.log());
    }
}

fn assert_nothing_failed(proxies: &[&Proxy]) {
    assert_no_call_failed(proxies);
    for proxy in proxies {
        assert_eq!(proxy.scrape().sum("leno_connections_failed_total", &[]), 0.0, "{}", proxy.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_renewed_at_full_load_without_a_failed_call() {
    let authority = Authority::new();
    let (servers, proxy, load) = start(&authority, &LIFETIME).await;
    let proxies = [&proxy, servers[0].proxy(), servers[1].proxy()];
    wait_for_refreshes(&proxies, &[1, 1, 1], 2);
    // Each proxy has renewed its certificate twice, so its first certificate has expired, and every new connection uses
    // a later one.
    let before = handshakes(&servers);
    load.wait_for_more(100, SOON).await;
    wait_for("more handshakes", SOON, || (handshakes(&servers) > before + 2).then_some(()));
    load.finish().await.assert_nothing_lost();
    assert_nothing_failed(&proxies);
    assert!(proxies.iter().all(|proxy| refreshes(proxy, "error") == 0));
}

/// Replaces a file atomically, which is necessary if the authority is in use.
fn replace(authority: &Authority, name: &str, text: &str) {
    let aside = authority.path().join(format!("{name}.new"));
    fs::write(&aside, text).expect("the directory is ours");
    fs::rename(aside, authority.path().join(name)).expect("the directory is ours");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authority_is_replaced_at_full_load_and_the_old_one_trusted_no_more() {
    let (authority, next) = (Authority::new(), Authority::new());
    let (servers, proxy, load) = start(&authority, &[]).await;
    let proxies = [&proxy, servers[0].proxy(), servers[1].proxy()];
    let of_old = authority.issue("ns/default/sa/echo", &[]);
    let [old_anchor, new_anchor] = [&authority, &next].map(|authority| read(&authority.path().join("ca.crt")));

    // The steps of docs/identity.md: add the anchor, replace the authority, and remove the old anchor when all
    // workloads have new certificates.
    load.wait_for_more(100, SOON).await;
    replace(&authority, "trust-bundle.pem", &[&old_anchor[..], &new_anchor].concat());
    replace(&authority, "ca.key", &read(&next.path().join("ca.key")));
    replace(&authority, "ca.crt", &new_anchor);
    wait_for_refreshes(&proxies, &[1, 1, 1], 1);
    load.wait_for_more(100, SOON).await;
    let trusts = |anchors: usize| {
        let line = format!("anchors={anchors}");
        proxies.iter().for_each(|proxy| drop(proxy.wait_for_log(&["trust bundle", &line])));
    };
    trusts(2);
    replace(&authority, "trust-bundle.pem", &new_anchor);
    trusts(1);
    let before = handshakes(&servers);
    load.wait_for_more(100, SOON).await;
    wait_for("more handshakes", SOON, || (handshakes(&servers) > before + 4).then_some(()));
    load.finish().await.assert_nothing_lost();
    // A server whose trust bundle changes during a handshake ends the new connection before the first call. The client
    // counts such a connection as failed.
    assert_no_call_failed(&proxies);

    super::certificates::assert_client_is_refused(
        &of_old,
        &servers[0],
        "unknown-anchor",
        &["no anchor of our trust bundle"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_whose_files_are_spoilt_later_takes_nobody_out_of_the_mesh() {
    let authority = Authority::new();
    let (servers, proxy, load) = start(&authority, &[]).await;
    for name in ["ca.key", "ca.crt", "trust-bundle.pem"] {
        replace(&authority, name, "-----BEGIN NOTHING-----\n");
    }
    let line = proxy.wait_for_log(&["the trust bundle cannot be read; the one in use stays", "trust-bundle.pem"]);
    assert!(line.contains("write at least one trust anchor") || line.contains("it is not PEM"), "{line}");
    load.wait_for_more(100, SOON).await;
    let before = handshakes(&servers);
    wait_for("more handshakes", SOON, || (handshakes(&servers) > before + 2).then_some(()));
    load.finish().await.assert_nothing_lost();
    let told = proxy.log().lines().filter(|line| line.contains("trust bundle cannot be read")).count();
    assert_eq!(told, 1, "{}", proxy.log());
}

/// Creates two authorities of one trust domain, each with a trust bundle of both anchors.
fn two_that_trust_each_other() -> [Authority; 2] {
    let both = [Authority::new(), Authority::new()];
    let anchors: String = both.iter().map(|authority| read(&authority.path().join("ca.crt"))).collect();
    both.iter().for_each(|authority| replace(authority, "trust-bundle.pem", &anchors));
    both
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_removal_of_an_anchor_ends_the_calls_of_the_clients_that_it_vouched_for() {
    let [ours, theirs] = two_that_trust_each_other();
    let server = ServerSide::start(&ours, "echo", Settings::default(), &[]).await;
    let (servers, call) = ([server], Call::new("Hang"));
    let stays = client_side(&ours, &[echo(&servers)], &[]);
    // The second client must be another workload: if one workload at one address shows several certificates, the proxy
    // checks only the certificate that expires last.
    let identity = ["--identity", "ns/default/sa/cart", "--issuer", theirs.text()];
    let goes = Proxy::start_with(SocketAddr::new(own_ip(), 4140), &[echo(&servers)], &identity);
    let clients = [Client::connect(stays.outbound(), ECHO).await, Client::connect(goes.outbound(), ECHO).await];
    let [stays, goes] = clients;
    let mut staying = tokio::spawn({
        let call = call.clone();
        async move { stays.call(&call, b"").await }
    });
    let going = tokio::spawn(async move { goes.call(&call, b"").await });
    wait_for("both calls hang", SOON, || (servers[0].backend.calls() == 2).then_some(()));

    replace(&ours, "trust-bundle.pem", &read(&ours.path().join("ca.crt")));
    let answer = tokio::time::timeout(ENDS_WITHIN, going).await.expect("it is ended").expect("no panic");
    // 7 is PERMISSION_DENIED.
    assert_eq!(answer.grpc_status(), Some(7), "{answer:?}");
    servers[0]
        .proxy()
        .wait_for_log(&["the trust bundle has changed since it connected", "no anchor of our trust bundle"]);
    let distrusted = [r#"direction="inbound""#, r#"why="no-longer-trusted""#];
    assert_eq!(servers[0].proxy().scrape().sum("leno_connections_failed_total", &distrusted), 1.0);
    let still = tokio::time::timeout(Duration::from_secs(2), &mut staying).await;
    assert!(still.is_err(), "the other call goes on: {still:?}");
}

/// A client that begins HTTP/2 over the mesh's TLS with a certificate, on many connections, and keeps these connections
/// open.
const CROWD: &str = "import resource, socket, ssl, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.load_cert_chain(sys.argv[1] + '/tls.crt', sys.argv[1] + '/tls.key')
context.set_alpn_protocols(['h2'])
held = []
for _ in range(int(sys.argv[4])):
    s = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    s = context.wrap_socket(s, server_hostname='50051.leno.internal')
    s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0')
    held.append(s)
time.sleep(600)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_removal_of_an_anchor_ends_thousands_of_connections_as_soon_as_one() {
    const CONNECTIONS: usize = 2_000;
    let [ours, theirs] = two_that_trust_each_other();
    let server = ServerSide::start(&ours, "echo", Settings::default(), &[]).await;
    let certificate = theirs.issue("ns/default/sa/cart", &[]);
    let (ip, port) = (server.inbound().ip().to_string(), server.inbound().port().to_string());
    let arguments = ["-c", CROWD, certificate.to_str().expect("a plain name"), &ip, &port, &CONNECTIONS.to_string()];
    let _crowd = programs::Server::start("python3", &arguments);
    let connected = [r#"direction="inbound""#, r#"peer="src""#, r#"tls="true""#];
    wait_for("all are connected", Duration::from_secs(60), || {
        (server.proxy().scrape().sum("tcp_open_connections", &connected) as usize == CONNECTIONS).then_some(())
    });
    replace(&ours, "trust-bundle.pem", &read(&ours.path().join("ca.crt")));
    let began = Instant::now();
    let distrusted = [r#"direction="inbound""#, r#"why="no-longer-trusted""#];
    let ended = || server.proxy().scrape().sum("leno_connections_failed_total", &distrusted) as usize;
    wait_for("all have ended", ENDS_WITHIN, || (ended() == CONNECTIONS).then_some(()));
    println!("{CONNECTIONS} connections ended {:?} after their anchor", began.elapsed());
}

/// Starts a program that begins HTTP/2 over the mesh's TLS with a certificate, and sends nothing more.
fn hold_connection(certificate: &Path, to: SocketAddr) -> std::process::Child {
    let preface = "printf 'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0'; sleep 60";
    let client = format!(
        "({preface}) | openssl s_client -quiet -alpn h2 -servername 50051.leno.internal -connect {to} -cert '{0}/tls.crt' \
         -key '{0}/tls.key' >/dev/null 2>&1",
        certificate.display()
    );
    std::process::Command::new("sh").args(["-c", &client]).spawn().expect("sh runs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_ends_with_the_certificate_that_opened_it() {
    let authority = Authority::new();
    let server = ServerSide::start(&authority, "echo", Settings::default(), &[]).await;
    let certificate = authority.issue("ns/default/sa/web", &["--lifetime", "10s"]);
    let mut client = hold_connection(&certificate, server.inbound());
    let line = server.proxy().wait_for_log(&["inbound connection from", "has expired since it connected"]);
    assert!(line.contains("with a new certificate"), "{line}");
    let expired = [r#"direction="inbound""#, r#"why="expired""#];
    assert_eq!(server.proxy().scrape().sum("leno_connections_failed_total", &expired), 1.0);
    client.kill().ok();
    client.wait().ok();
}

/// Starts a server whose certificates live for a short time, and a client's proxy whose certificate does not expire
/// during the test. So only the server's certificate can be the reason for a new connection. Makes the first call.
async fn with_short_lived_server(authority: &Authority) -> ([ServerSide; 1], Proxy, Client) {
    let servers = [ServerSide::start(authority, "echo", Settings::default(), &LIFETIME).await];
    let proxy = client_side(authority, &[echo(&servers)], &[]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let answer = client.call(&Call::new("Echo"), b"hello").await;
    assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
    (servers, proxy, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_move_to_a_new_connection_before_the_servers_certificate_expires() {
    let authority = Authority::new();
    let (servers, proxy, client) = with_short_lived_server(&authority).await;
    let (began, before) = (Instant::now(), handshakes(&servers));
    while handshakes(&servers) == before {
        assert!(began.elapsed() < SOON, "no other connection was opened: {}", proxy.log());
        let answer = client.call(&Call::new("Echo"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_nothing_failed(&[&proxy, servers[0].proxy()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_certificate_has_expired_gets_no_calls_on_its_open_connection() {
    let authority = Authority::new();
    let (servers, proxy, client) = with_short_lived_server(&authority).await;
    // The server can renew its certificate no more.
    replace(&authority, "ca.key", "-----BEGIN NOTHING-----\n");
    let began = Instant::now();
    let refused = loop {
        assert!(began.elapsed() < SOON, "the server still gets calls: {}", proxy.log());
        let answer = client.call(&Call::new("Echo"), b"hello").await;
        if answer.grpc_status() != Some(0) {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    // 14 is UNAVAILABLE.
    assert_eq!(refused.grpc_status(), Some(14), "{refused:?}");
    let expired = [r#"direction="outbound""#, r#"why="certificate-expired""#];
    assert!(proxy.scrape().sum("leno_connections_failed_total", &expired) > 0.0, "{}", proxy.log());
    let calls = servers[0].backend.calls();
    let answer = client.call(&Call::new("Echo"), b"hello").await;
    assert_eq!(answer.grpc_status(), Some(14), "{answer:?}");
    assert_eq!(servers[0].backend.calls(), calls);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_may_last_longer_than_the_certificate_that_its_connection_began_with() {
    let authority = Authority::new();
    // Each call lasts twice the longest interval between renewals. Meanwhile, the client's proxy gets later
    // certificates.
    let settings = Settings { delay: Duration::from_secs(18), ..Settings::default() };
    // When a connection's certificate expires, the server's proxy keeps the connection if the client has shown a later
    // certificate on another connection. This other connection may belong to any of the four workers, so the workers
    // must share the certificates that they have seen. Otherwise a call would survive only with a probability of 1/4,
    // and all three calls only with a probability of 1/64.
    let workers = [&LIFETIME[..], &["--workers", "4"]].concat();
    let mut servers = Vec::new();
    for name in ["echo0", "echo1", "echo2"] {
        servers.push(ServerSide::start(&authority, name, settings.clone(), &workers).await);
    }
    let service = echo(&servers).annotated("leno.dev/balancer", "round-robin");
    let proxy = client_side(&authority, &[service], &LIFETIME);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let hello = Call::new("Echo");
    let call = || client.call(&hello, b"hello");
    let answers: [_; 3] = tokio::join!(call(), call(), call()).into();
    assert!(servers.iter().all(|server| server.backend.calls() == 1));
    for answer in answers {
        assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
    }
    assert_nothing_failed(&[&proxy, servers[0].proxy(), servers[1].proxy(), servers[2].proxy()]);
}

/// The endpoint leaves its Service during the call, for example because its Pod is not ready for a moment. No later call
/// opens another connection to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_may_last_longer_than_its_certificate_although_its_endpoint_has_left_the_service() {
    // A proxy renews its certificate 2 to 3 seconds before it expires, so that a busy machine has time for the rest. The
    // call begins with the first certificate, and lasts longer than this certificate.
    const LIFETIME: [&str; 2] = ["--svid-lifetime", "15s"];
    let authority = Authority::new();
    let settings = Settings { delay: Duration::from_secs(18), ..Settings::default() };
    let leaving = ServerSide::start(&authority, "echo0", settings, &LIFETIME).await;
    let staying = ServerSide::start(&authority, "echo1", Settings::default(), &LIFETIME).await;
    let proxy = client_side(&authority, &[echo(slice::from_ref(&leaving))], &LIFETIME);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let hello = Call::new("Echo");
    let leave = async {
        while leaving.backend.calls() == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        proxy.directory().put(&echo(slice::from_ref(&staying)));
    };
    let (answer, ()) = tokio::join!(client.call(&hello, b"hello"), leave);
    assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
    assert_nothing_failed(&[&proxy, leaving.proxy(), staying.proxy()]);
}
