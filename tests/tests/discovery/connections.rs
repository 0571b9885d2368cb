//! Redirected connections wait until the control plane has answered the request for their destination.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::Service;
use leno_tests::namespaces::run_test_inside;
use leno_tests::programs;
use leno_tests::proxy::{Proxy, Signal, free_address, wait_for};
use leno_tests::xds::Control;
use socket2::{Domain, Socket, Type};

/// Firewall rules: a connection to a clusterIP of these tests is redirected to the proxy. So is a connection from
/// [`APPLICATION`] to an address outside of the cluster networks; the proxy's own connections to such an address have
/// another source address. The proxy's port replaces `PORT`.
const RULES: &str = "table inet leno {
  chain output {
    type nat hook output priority -100;
    ip daddr 10.96.0.0/16 meta l4proto tcp redirect to :PORT
    ip saddr 10.96.0.10 ip daddr 198.51.100.0/24 meta l4proto tcp redirect to :PORT
  }
}";
/// The source address of an application that calls an address outside of the cluster networks.
const APPLICATION: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// Two addresses of this machine that are outside of the cluster networks.
const OUTSIDE: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 51, 100, 10), Ipv4Addr::new(198, 51, 100, 11)];
/// Longest time for a read or write on a socket, and for a program.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a proxy that uses a control plane. All connections to clusterIPs, and the connections of [`APPLICATION`] to
/// [`OUTSIDE`], are redirected to the proxy.
fn start_proxy(control: SocketAddr, arguments: &[&str]) -> Proxy {
    let proxy = Proxy::start_asking(control, arguments);
    let script = "ip address replace 10.96.0.10/16 dev lo; ip address replace 198.51.100.10/24 dev lo
        nft flush ruleset; nft -f \"$0\"";
    let rules = tempfile::NamedTempFile::new().expect("a file for the rules");
    fs::write(rules.path(), RULES.replace("PORT", &proxy.outbound().port().to_string()))
        .expect("the rules are written");
    programs::run_well("sh", &["-ec", script, rules.path().to_str().expect("UTF-8")], PATIENCE);
    proxy
}

/// Starts a server that answers any input with `name` and a line end.
fn echo_name(name: &'static str) -> SocketAddr {
    echo_name_at(free_address(), name)
}

/// Like [`echo_name`], at `address`.
fn echo_name_at(address: SocketAddr, name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(address).expect("a free address");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.expect("a connection");
            // Ignore the error: a client that has gone needs no answer.
            let _ = socket.read(&mut [0; 4096]).and_then(|_| writeln!(socket, "{name}"));
        }
    });
    address
}

#[test]
fn the_first_connection_to_a_port_meets_its_tcp_route() {
    run_test_inside("discovery::connections::meets_its_tcp_route", &[]);
}

#[ignore = "the_first_connection_to_a_port_meets_its_tcp_route runs it, in a namespace"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn meets_its_tcp_route() {
    let backends = [Backend::start().await, Backend::start().await];
    let [a, b] = backends.each_ref().map(Backend::address);
    let front = "10.96.0.10:50051".parse().expect("an address");
    let both = "rules: [{backendRefs: [{name: a, port: 50051}, {name: b, port: 50051}]}]";
    let forked = Service::new("front", &[]).at(front).routed("TCPRoute", both);
    let control = Control::start(&[forked, Service::new("a", &[a]), Service::new("b", &[b])]);
    let proxy = start_proxy(control.xds(), &[]);

    // All twenty calls go to one server: the proxy balances connections to this port, and not calls.
    let client = Client::connect(front, "front.default:50051").await;
    for _ in 0..20 {
        let answer = client.call(&Call::new("Echo"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
    }
    let mut shares = backends.each_ref().map(Backend::calls);
    shares.sort_unstable();
    assert_eq!(shares, [0, 20]);
    assert_eq!(proxy.scrape().sum("outbound_tcp_route_open_total", &[]), 1.0);
}

#[test]
fn the_first_connections_to_a_port_that_is_opaque_by_its_number_meet_its_tls_route() {
    run_test_inside("discovery::connections::meets_its_tls_route", &[]);
}

#[ignore = "the_first_connections_to_a_port_that_is_opaque_by_its_number_meet_its_tls_route runs it, in a namespace"]
#[test]
fn meets_its_tls_route() {
    let (itself, eu) = (echo_name("itself"), echo_name("eu"));
    let front: SocketAddr = "10.96.0.10:6379".parse().expect("an address");
    let to_eu = "hostnames: [eu.example.org]\nrules: [{backendRefs: [{name: eu, port: 50051}]}]";
    let forked = Service::new("front", &[itself]).at(front).routed("TLSRoute", to_eu);
    let control = Control::start(&[forked, Service::new("eu", &[eu])]);
    let proxy = start_proxy(control.xds(), &[]);

    let shake_hands = |server: &str| {
        let arguments = ["s_client", "-connect", "10.96.0.10:6379", "-servername", server];
        let output = Command::new("openssl").args(arguments).stdin(Stdio::null()).output().expect("openssl runs");
        programs::text(&output)
    };
    shake_hands("eu.example.org");
    let opened =
        |backend: &str| proxy.scrape().sum("outbound_tls_route_open_total", &[&format!("backend_name=\"{backend}\"")]);
    assert_eq!(opened("eu"), 1.0);
    let refused = shake_hands("us.example.org");
    assert!(refused.to_lowercase().contains("unrecognized name"), "{refused}");

    // The port is opaque, so the proxy relays these bytes to the Service itself: it parses only TLS, for the TLSRoutes.
    let mut socket = TcpStream::connect(front).expect("the proxy takes it");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    socket.write_all(b"GET / HTTP/1.1\r\nhost: front\r\n\r\n").expect("the proxy reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "itself\n");
}

#[test]
fn the_first_connection_to_an_opaque_port_is_carried_to_its_last_byte() {
    run_test_inside("discovery::connections::is_carried_to_its_last_byte", &[]);
}

#[ignore = "the_first_connection_to_an_opaque_port_is_carried_to_its_last_byte runs it, in a namespace"]
#[test]
fn is_carried_to_its_last_byte() {
    // Size of the upload: more than all buffers on the path can hold.
    const UPLOAD_BYTES: usize = 64 << 20;
    let listener = TcpListener::bind(free_address()).expect("a free address");
    let server = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.expect("a connection");
            // Wait before reading, so that the proxy must hold back the upload.
            thread::sleep(Duration::from_millis(500));
            let bytes = io::copy(&mut socket, &mut io::sink()).expect("the upload to its end");
            writeln!(socket, "{bytes}").expect("the client waits for it");
        }
    });
    for (port, bytes) in [(5432, UPLOAD_BYTES), (6379, 5)] {
        let front = SocketAddr::from(([10, 96, 0, 10], port));
        let control = Control::start(&[Service::new("front", &[server]).at(front)]);
        let _proxy = start_proxy(control.xds(), &[]);
        let mut socket = TcpStream::connect(front).expect("the proxy takes it");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        socket.set_write_timeout(Some(PATIENCE)).expect("a time-out");
        socket.write_all(&vec![7; bytes]).expect("the proxy reads");
        socket.shutdown(Shutdown::Write).expect("it is connected");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer, format!("{bytes}\n"));
    }
}

#[test]
fn a_connection_that_waits_as_its_proxy_ends_is_answered() {
    run_test_inside("discovery::connections::is_answered_as_its_proxy_ends", &[]);
}

#[ignore = "a_connection_that_waits_as_its_proxy_ends_is_answered runs it, in a namespace"]
#[test]
fn is_answered_as_its_proxy_ends() {
    let mut control = Control::start(&[]);
    let proxy = start_proxy(control.xds(), &["--limit", "discovery_timeout_ms=4000"]);
    control.kill();
    let mut socket = TcpStream::connect("10.96.0.10:80").expect("the proxy takes it");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    socket.write_all(b"GET / HTTP/1.1\r\nhost: front\r\n\r\n").expect("there is room");
    proxy.signal(Signal::TERM);
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("unanswered"), "{answer}");
}

#[test]
fn a_connection_that_waits_as_its_proxy_ends_goes_where_the_control_plane_says() {
    run_test_inside("discovery::connections::goes_where_the_control_plane_says", &[]);
}

#[ignore = "a_connection_that_waits_as_its_proxy_ends_goes_where_the_control_plane_says runs it, in a namespace"]
#[test]
fn goes_where_the_control_plane_says() {
    let front = SocketAddr::from(([10, 96, 0, 10], 6379));
    let mut control = Control::start(&[Service::new("front", &[echo_name("front")]).at(front)]);
    let mut proxy = start_proxy(control.xds(), &["--limit", "discovery_timeout_ms=20000"]);
    control.kill();
    let mut socket = TcpStream::connect(front).expect("the proxy takes it");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    socket.write_all(b"hello").expect("there is room");
    proxy.signal(Signal::TERM);
    proxy.wait_for_log(&["draining"]);
    control.restart();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "front\n");
    drop(socket);
    let ended = proxy.wait(PATIENCE).expect("nothing is left to wait for");
    assert!(ended.success(), "{ended}");
}

#[test]
fn a_connection_is_not_kept_waiting_for_a_control_plane_that_is_gone() {
    run_test_inside("discovery::connections::is_not_kept_waiting", &[]);
}

#[ignore = "a_connection_is_not_kept_waiting_for_a_control_plane_that_is_gone runs it, in a namespace"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_not_kept_waiting() {
    let backend = Backend::start().await;
    let front = "10.96.0.10:50051".parse().expect("an address");
    let mut control = Control::start(&[Service::new("front", &[backend.address()]).at(front)]);
    let proxy = start_proxy(control.xds(), &["--limit", "discovery_timeout_ms=2000"]);
    control.kill();
    let client = Client::connect(front, "front.default:50051").await;
    let answer = client.call(&Call::new("Echo"), b"hello").await;
    assert_eq!((answer.grpc_status(), answer.field("leno-proxy-error")), (Some(14), Some("unanswered")), "{answer:?}");
    // A client whose server speaks first understands no error that the proxy could send, so the proxy resets the
    // connection.
    let mut silent = TcpStream::connect("10.96.0.10:6379").expect("the proxy takes it");
    silent.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    assert_eq!(silent.read(&mut [0; 16]).expect_err("its end").kind(), ErrorKind::ConnectionReset);

    control.restart();
    wait_for("the control plane is asked again", Duration::from_secs(40), || {
        let runtime = tokio::runtime::Handle::current();
        let answer = tokio::task::block_in_place(|| {
            runtime.block_on(async { Client::connect(front, "front").await.call(&Call::new("Echo"), b"hello").await })
        });
        (answer.grpc_status() == Some(0)).then_some(())
    });
    drop(proxy);
}

/// Calls an address outside of the cluster networks through the proxy. Returns the server's line; empty if the proxy
/// ends the connection without an answer.
fn call_outside(address: SocketAddr) -> String {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((APPLICATION, 0)).into()).expect("the address is ours");
    socket.connect(&address.into()).expect("the proxy takes it");
    let mut socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    socket.write_all(b"\x00hello").expect("there is room");
    let mut answer = String::new();
    // Ignore the error: the proxy resets an opaque connection whose call fails.
    let _ = socket.read_to_string(&mut answer);
    answer
}

#[test]
fn only_addresses_outside_of_the_cluster_networks_are_called_without_a_control_plane() {
    run_test_inside("discovery::connections::without_an_answer_they_are_called", &[]);
}

#[ignore = "only_addresses_outside_of_the_cluster_networks_are_called_without_a_control_plane runs it, in a namespace"]
#[test]
fn without_an_answer_they_are_called() {
    let [known, unknown] = OUTSIDE.map(|ip| SocketAddr::from((ip, 7001)));
    // A Service with an address outside of the cluster networks.
    let mut control = Control::start(&[Service::new("known", &[echo_name("known")]).at(known)]);
    let proxy = start_proxy(control.xds(), &[]);
    echo_name_at(known, "not the Service");
    echo_name_at(unknown, "itself");
    assert_eq!(call_outside(known), "known\n", "while the control plane answers, the proxy asks about every address");

    control.kill();
    assert_eq!(call_outside(unknown), "itself\n");
    assert_eq!(call_outside(known), "known\n", "the answer stays in force");
    let mut inside = TcpStream::connect("10.96.0.10:80").expect("the proxy takes it");
    inside.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    inside.write_all(b"GET / HTTP/1.1\r\nhost: inside\r\n\r\n").expect("there is room");
    let mut answer = vec![0; 4096];
    let length = inside.read(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("unanswered"), "{answer}");

    // The control plane's answer replaces the assumption.
    control.directory().put(&Service::new("later", &[echo_name("later")]).at(unknown));
    control.restart();
    wait_for("the proxy asks about the address again", Duration::from_secs(40), || {
        (call_outside(unknown) == "later\n").then_some(())
    });
    drop(proxy);
}
