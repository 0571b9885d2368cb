//! Limits of the proxy's own log: a client cannot fill it, and it delays no call if no program reads it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::Proxy;
use leno_tests::wire;

/// Number of log lines: far more than fit into a pipe (64 KiB).
const LINES: usize = 3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_not_read_holds_up_no_call() {
    let backend = Backend::start().await;
    // Each refused call logs a line at this level.
    let proxy = Proxy::start_with_unread_log(&[Service::echo(&[backend.address()])], &["--log", "debug"]);
    let stranger = Client::connect(proxy.outbound(), "nothing.default:1").await;
    for _ in 0..LINES {
        stranger.call(&Call::new("Echo"), b"hello").await;
    }
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let answer = client.call(&Call::new("Echo"), b"hello").await;
    assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_disconnected_again_and_again_fills_no_log() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    // The connection preface, and then a frame of a type that must not come first (RFC 9113 section 3.4).
    let mistake = [wire::PREFACE, &wire::window_update(0, 1)].concat();
    for _ in 0..LINES {
        let mut attacker = TcpStream::connect(proxy.outbound()).expect("a connection");
        attacker.write_all(&mistake).expect("the proxy reads");
        // Read until the proxy closes the connection, so that the proxy has detected every mistake.
        let _ = attacker.read_to_end(&mut Vec::new());
    }
    proxy.wait_for_log(&["more log lines of leno_relay", "were left out"]);
    let lines = proxy.log().lines().filter(|line| line.contains("is disconnected")).count();
    assert!(lines < LINES / 2, "{lines} lines for {LINES} clients");
}

/// Each failed connection to an endpoint could cause a log line. The proxy must limit these lines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_calls_many_servers_that_are_down_fills_no_log() {
    const SERVERS: u16 = 400;
    // A program of this machine that listens on all addresses would accept connections to this address too. So use only
    // ports on which nothing listens.
    let host = Ipv4Addr::new(127, 9, 9, 9);
    let is_closed = |port: &u16| TcpStream::connect((host, *port)).is_err();
    let closed: Vec<u16> = (1..=SERVERS).filter(is_closed).collect();
    assert!(closed.len() > usize::from(SERVERS) / 2, "{} closed ports", closed.len());
    let down = |port: &u16| Service::new(&format!("down-{port}"), &[(host, *port).into()]);
    let proxy = Proxy::start(&closed.iter().map(down).collect::<Vec<_>>());
    for port in &closed {
        let client = Client::connect(proxy.outbound(), &format!("down-{port}.default:50051")).await;
        let answer = client.call(&Call::new("Echo"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(14), "{answer:?}");
    }
    proxy.wait_for_log(&["more log lines of leno_relay", "were left out"]);
    let lines = proxy.log().lines().filter(|line| line.contains(&host.to_string())).count();
    assert!((1..closed.len() / 2).contains(&lines), "{lines} lines for {} servers", closed.len());
}
