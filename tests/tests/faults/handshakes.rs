//! Peers that send garbage to the mesh's ports, or begin a handshake and do not continue it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use leno_tests::client::{Call, Client};
use leno_tests::load::Clients;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, wait_for};
use socket2::SockRef;

use super::sides::{Authority, ServerSide, behind_proxy, client_side, echo, own_ip};

/// Longest time that a test waits for an event that it expects soon. It allows for a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// The proxy's limit on the time until a client has sent enough bytes to show its protocol: 2 s.
const DETECT: [&str; 2] = ["--limit", "detect_timeout_ms=2000"];
/// Number of connections that begin a handshake and do not continue it.
const HALF_OPEN: usize = 2_000;

/// Returns a TLS record with a ClientHello as a proxy of the mesh sends it.
fn client_hello() -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    let mut openssl = Command::new("openssl")
        .args(["s_client", "-tls1_3", "-alpn", "h2", "-servername", "50051.leno.internal", "-connect", &address])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl runs");
    let (mut stream, _) = listener.accept().expect("openssl connects");
    let mut header = [0; 5];
    stream.read_exact(&mut header).expect("a record");
    let mut body = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
    stream.read_exact(&mut body).expect("all of it");
    openssl.kill().ok();
    openssl.wait().ok();
    [&header[..], &body].concat()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the proxy listens");
    stream.set_read_timeout(Some(SOON)).expect("a time-out");
    stream
}

/// Returns everything that the peer sends until it closes the connection.
///
/// # Panics
/// If the peer does not close the connection.
fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard) {
        Ok(_) => heard,
        // The peer closed the connection before it had read all our bytes, or while we were still writing.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => heard,
        Err(error) => panic!("the connection is not closed: {error}"),
    }
}

/// Sends `bytes`, which the peer may refuse, and then does the same as [`read_to_end`].
fn say(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    stream.write_all(bytes).ok();
    read_to_end(stream)
}

/// Waits until exactly `count` inbound connections have failed for this reason.
fn wait_for_failures(proxy: &Proxy, why: &str, count: usize) {
    let labels = [r#"direction="inbound""#.to_owned(), format!("why=\"{why}\"")];
    let labels = labels.each_ref().map(String::as_str);
    wait_for(&format!("{count} connections failed: {why}"), SOON, || {
        let failed = proxy.scrape().sum("leno_connections_failed_total", &labels) as usize;
        assert!(failed <= count, "{failed} failed: {why}");
        (failed == count).then_some(())
    });
}

async fn server_side(arguments: &[&str]) -> (Authority, ServerSide) {
    let authority = Authority::new();
    let server = ServerSide::start(&authority, "echo", Default::default(), arguments).await;
    (authority, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plaintext_to_the_tunnel_port_is_closed_without_a_word() {
    let (_authority, server) = server_side(&DETECT).await;
    for (count, plaintext) in
        ["GET / HTTP/1.1\r\nhost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\0\0\0"].iter().enumerate()
    {
        assert_eq!(say(server.tunnel(), plaintext.as_bytes()), b"", "{plaintext}");
        wait_for_failures(server.proxy(), "plaintext-in-tunnel", count + 1);
    }
    server.proxy().wait_for_log(&[
        "inbound connection from 127.0.0.1:",
        "mutual TLS only",
        "from a proxy of this mesh",
    ]);
}

/// A user may set `leno.dev/inbound-port` to the tunnel port by mistake. Calls then fail, and the error must show that
/// the proxy, and not the server, has sent it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_no_connect_gets_no_tunnel() {
    let (authority, server) = server_side(&[]).await;
    let endpoint = server.endpoint();
    // The client calls the Service by the endpoint's address. So the tunnel port could treat the call's authority as
    // the target of a tunnel.
    let service = Service::echo(&[endpoint])
        .at(endpoint)
        .endpoint_annotated(endpoint, "leno.dev/identity", "ns/default/sa/echo")
        .endpoint_annotated(endpoint, "leno.dev/inbound-port", &server.tunnel().port().to_string());
    let client_side = client_side(&authority, &[service], &[]);
    let client = Client::connect(client_side.outbound(), &endpoint.to_string()).await;
    let answer = client.call(&Call::new("Echo"), b"hello").await;
    assert_eq!(answer.grpc_status(), Some(12), "{answer:?}");
    assert!(format!("{answer:?}").contains("takes CONNECT requests"), "{answer:?}");
    assert_eq!(server.backend.calls(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_records_with_garbage_are_answered_with_an_alert() {
    let (_authority, server) = server_side(&DETECT).await;
    let mut hello = client_hello();
    // An invalid second record, after a valid ClientHello.
    hello.extend_from_slice(b"\x16\x03\x03\x00\x05\xff\xff\xff\xff\xff");
    let answer = say(server.inbound(), &hello);
    // Check only the length of the last record, because it is encrypted. It has the length of an alert (RFC 8446
    // section 5.2): level, description, type and tag.
    let last = answer.last_chunk::<24>().expect("our ServerHello and what follows it");
    assert_eq!(last[..5], [23, 3, 3, 0, 19], "{answer:?}");
    wait_for_failures(server.proxy(), "tls-malformed", 1);
    assert_eq!(server.backend.calls(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_hello_may_come_byte_by_byte() {
    let (_authority, server) = server_side(&[]).await;
    let hello = client_hello();
    for address in [server.inbound(), server.tunnel()] {
        let mut stream = connect(address);
        stream.set_nodelay(true).expect("it is TCP");
        for byte in &hello {
            stream.write_all(&[*byte]).expect("the proxy waits for more");
            thread::sleep(Duration::from_micros(100));
        }
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).expect("a ServerHello");
        // A handshake record (RFC 8446 section 5.1).
        assert_eq!(answer, [22, 3, 3]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_stands_still_ends_in_time() {
    let (_authority, server) = server_side(&DETECT).await;
    let hello = client_hello();
    // Two peers send a ClientHello and nothing after it. One of the two peers reads, and the other peer never reads.
    let reads = thread::spawn({
        let (address, hello) = (server.inbound(), hello.clone());
        move || say(address, &hello)
    });
    let mut never_reads = connect(server.inbound());
    SockRef::from(&never_reads).set_recv_buffer_size(1).expect("the kernel takes its least");
    never_reads.write_all(&hello).expect("the proxy listens");
    assert!(!reads.join().expect("no panic").is_empty(), "a ServerHello came before the time-out");
    wait_for_failures(server.proxy(), "tls-timeout", 2);
    server.proxy().wait_for_log(&["inbound connection from 127.0.0.1:", "detect_timeout_ms"]);

    // Half a ClientHello contains no server name, and so no port. No server may receive these bytes.
    say(server.inbound(), &hello[..hello.len() / 2]);
    say(server.tunnel(), &hello[..hello.len() / 2]);
    wait_for_failures(server.proxy(), "tls-timeout", 3);
    assert_eq!(server.backend.seen().connections.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// Opens [`HALF_OPEN`] connections, and sends at most one ClientHello on each. `halves` lists how much the connections
/// send, in turn: nothing (0), half of the ClientHello (1), or all of it (2).
fn half_open(address: SocketAddr, halves: &[usize]) -> Vec<TcpStream> {
    let hello = client_hello();
    let begin = |halves: &usize| {
        let mut stream = connect(address);
        stream.write_all(&hello[..hello.len() * halves / 2]).expect("the proxy listens");
        stream
    };
    halves.iter().cycle().take(HALF_OPEN).map(begin).collect()
}

fn wait_for_open_files(proxy: &Proxy, at_most: f64) {
    wait_for("the connections are closed again", SOON, || {
        (proxy.scrape().sum("process_open_fds", &[]) <= at_most).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_half_open_connections_disturb_nobody() {
    let (authority, server) = server_side(&DETECT).await;
    let servers = [server];
    let proxy = client_side(&authority, &[echo(&servers)], &[]);
    let load = Clients::connect(proxy.outbound(), ECHO, 4).await.keep_calling(20);
    load.wait_for_more(100, SOON).await;
    let files = servers[0].proxy().scrape().sum("process_open_fds", &[]);
    let _half_open = half_open(servers[0].inbound(), &[0, 1, 2]);
    load.wait_for_more(200, SOON).await;
    wait_for_open_files(servers[0].proxy(), files + 4.0);
    load.finish().await.assert_nothing_lost();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_half_open_connections_leave_no_memory_behind() {
    let (_authority, server) = server_side(&DETECT).await;
    let (kib, files) = (server.proxy().resident_kib(), server.proxy().scrape().sum("process_open_fds", &[]));
    let _half_open = half_open(server.inbound(), &[2]);
    wait_for_open_files(server.proxy(), files + 4.0);
    // The connections took several MiB. The proxy must return at least half of this memory to the system.
    let enough = kib + (server.proxy().peak_kib() - kib) / 2;
    wait_for("the memory is given back", SOON, || (server.proxy().resident_kib() < enough).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_halves_of_client_hellos_stay_within_the_budget_and_cost_good_clients_nothing() {
    const BUDGET_KIB: u64 = 8 << 10;
    const CONNECTIONS: usize = 3_000;
    let limits = ["--limit", "memory_budget_kib=8192", "--limit", "detect_timeout_ms=60000"];
    let (authority, server) = server_side(&limits).await;
    let servers = [server];
    let proxy = client_side(&authority, &[echo(&servers)], &[]);
    let load = Clients::connect(proxy.outbound(), ECHO, 4).await.keep_calling(20);
    load.wait_for_more(100, SOON).await;
    let idle_kib = servers[0].proxy().resident_kib();
    // A record of 16 KiB with a ClientHello whose end is missing. All connections together send 46 MiB.
    let mut hello = vec![0; 16_000];
    hello[..6].copy_from_slice(&[22, 3, 1, 0x3f, 0xff, 1]);
    let begin = |_| {
        let mut stream = connect(servers[0].inbound());
        // The proxy may close the connection at any moment.
        stream.write_all(&hello).ok();
        stream
    };
    let _half_open: Vec<_> = (0..CONNECTIONS).map(begin).collect();
    load.wait_for_more(200, SOON).await;
    wait_for("connections that said nothing whole go", SOON, || {
        let scrape = servers[0].proxy().scrape();
        let is_within = scrape.sum("leno_held_bytes", &[]) <= (BUDGET_KIB * 1_024) as f64;
        (is_within && scrape.sum("leno_abuse_closed_total", &[r#"kind="memory_budget""#]) > 0.0).then_some(())
    });
    let grown_kib = servers[0].proxy().peak_kib().saturating_sub(idle_kib);
    assert!(grown_kib <= 3 * BUDGET_KIB, "{grown_kib} KiB beside a budget of {BUDGET_KIB}");
    load.finish().await.assert_nothing_lost();
}

/// Starts a false proxy in front of a server: it sends `answer` on each connection, and never closes the connection.
fn bad_server_side(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::new(own_ip(), 4143)).expect("the address is nobody else's");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            stream.write_all(answer).ok();
            open.push(stream);
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_elsewhere_when_a_server_side_stalls_or_babbles() {
    for (answer, label, words) in [
        (&b""[..], "connect-failed", "within the connect time-out"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "tls-malformed", "does not speak TLS"),
    ] {
        let (authority, server) = server_side(&[]).await;
        let bad = SocketAddr::new(bad_server_side(answer).ip(), 50051);
        let endpoints = [server.endpoint(), bad];
        let service = endpoints.iter().fold(Service::echo(&endpoints), |service, &endpoint| {
            behind_proxy(service, endpoint, "ns/default/sa/echo")
        });
        let service = service.annotated("leno.dev/balancer", "round-robin").annotated("leno.dev/connect-timeout", "3s");
        let proxy = client_side(&authority, &[service], &[]);
        let clients = Clients::connect(proxy.outbound(), ECHO, 4).await;
        clients.busy(200, 10).await.assert_nothing_lost();
        proxy.wait_for_log(&["outbound connection to", &bad.ip().to_string(), words]);
        let labels = [r#"direction="outbound""#.to_owned(), format!("why=\"{label}\"")];
        assert!(proxy.scrape().sum("leno_connections_failed_total", &labels.each_ref().map(String::as_str)) >= 1.0);
        assert_eq!(proxy.scrape().sum("leno_proxy_errors_total", &[]), 0.0, "{}", proxy.log());
    }
}
