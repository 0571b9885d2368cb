//! The proxy's own log, when a client would fill it or its reader stands still.

use std::io::{Read, Write};
use std::net::TcpStream;

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::Proxy;
use leno_tests::wire;

/// Lines that a pipe (64 KiB) has no room for, by far.
const LINES: usize = 3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_not_read_holds_up_no_call() {
    let backend = Backend::start().await;
    // Each refused call is a line at this level.
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
    // A frame of a type that may not come first (RFC 9113 section 3.4).
    let mistake = [wire::PREFACE, &wire::window_update(0, 1)].concat();
    for _ in 0..LINES {
        let mut attacker = TcpStream::connect(proxy.outbound()).expect("a connection");
        attacker.write_all(&mistake).expect("the proxy reads");
        // Until the proxy closes it, so that every one of them is judged.
        let _ = attacker.read_to_end(&mut Vec::new());
    }
    proxy.wait_for_log(&["more log lines of leno_proxy::worker", "were left out"]);
    let lines = proxy.log().lines().filter(|line| line.contains("is disconnected")).count();
    assert!(lines < LINES / 2, "{lines} lines for {LINES} clients");
}
