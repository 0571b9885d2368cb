//! The errors with which the proxy itself answers callers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use leno_tests::backend::Backend;
use leno_tests::client::{Answer, Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::programs;
use leno_tests::proxy::{Proxy, free_address};
use leno_tests::scripted::{Reply, Scripted};
use leno_tests::wire;

use super::faults::sides::Authority;

const UNIMPLEMENTED: u8 = 12;
const UNAVAILABLE: u8 = 14;

/// Longest time for an immediate answer on a busy machine: shorter than any timeout.
const AT_ONCE: Duration = Duration::from_secs(4);
/// Longest time for an idle program to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes one call that the proxy must answer itself, and checks the properties that all such answers share.
async fn refused(proxy: &Proxy, authority: &str, patience: Duration) -> Answer {
    let client = Client::connect(proxy.outbound(), authority).await;
    let start = Instant::now();
    let answer = client.call(&Call::new("Echo"), b"hello").await;
    assert!(start.elapsed() < patience, "answered after {:?}", start.elapsed());
    assert_eq!(answer.status, 200, "a gRPC client gets its error as a trailers-only answer: {answer:?}");
    assert!(answer.headers.contains_key("grpc-status"), "{answer:?}");
    assert!(answer.headers.contains_key("leno-proxy-error"), "{answer:?}");
    assert!(answer.field("grpc-message").is_some_and(|message| message.len() > 10), "{answer:?}");
    assert!(proxy.scrape().sum("leno_proxy_errors_total", &[]) >= 1.0);
    answer
}

/// Tests that a proxy does not start if another program listens on one of its ports. Without this check, the kernel
/// would let both programs listen, and distribute the connections between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_somebody_listens_on_is_refused() {
    let proxy = Proxy::start(&[]);
    let authority = Authority::new();
    let config = proxy.directory().path().to_str().expect("temporary directories have plain names");
    let refused = |arguments: &[&str], flag: &str| {
        let admin = free_address().to_string();
        let all = [&["--config", config, "--admin", &admin, "--workers", "2"], arguments].concat();
        let output = tokio::task::block_in_place(|| programs::run("leno-proxy", &all, PATIENCE));
        let said = programs::text(&output);
        assert!(!output.status.success(), "{said}");
        let expected =
            format!("{flag}: Address already in use (os error 98); choose an address of this machine that is free");
        assert!(said.contains(&expected), "not {expected}: {said}");
    };
    let taken = proxy.outbound().to_string();
    refused(&["--outbound", &taken], &format!("--outbound {taken}"));

    let (free, both) = (free_address().to_string(), free_address().to_string());
    let identity = ["--identity", "ns/default/sa/a", "--issuer", authority.text(), "--outbound", &free];
    let doors = ["--inbound", &both, "--tunnel", &both];
    refused(&[&identity[..], &doors].concat(), &format!("--tunnel {both}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_service_is_unimplemented_at_once_and_named() {
    let proxy = Proxy::start(&[]);
    let answer = refused(&proxy, "nobody.default:50051", AT_ONCE).await;
    assert_eq!(answer.grpc_status(), Some(UNIMPLEMENTED));
    assert!(answer.field("grpc-message").is_some_and(|message| message.contains("nobody")), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_port_is_unimplemented_and_the_known_one_named() {
    let proxy = Proxy::start(&[Service::echo(&[free_address()])]);
    let answer = refused(&proxy, "echo.default:1", AT_ONCE).await;
    assert_eq!(answer.grpc_status(), Some(UNIMPLEMENTED));
    assert!(answer.field("grpc-message").is_some_and(|message| message.contains("50051")), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_without_endpoints_is_unavailable_at_once() {
    let proxy = Proxy::start(&[Service::echo(&[])]);
    let answer = refused(&proxy, ECHO, AT_ONCE).await;
    assert_eq!(answer.grpc_status(), Some(UNAVAILABLE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_that_refuse_connections_are_unavailable() {
    let proxy = Proxy::start(&[Service::echo(&[free_address(), free_address()])]);
    let answer = refused(&proxy, ECHO, Duration::from_secs(20)).await;
    assert_eq!(answer.grpc_status(), Some(UNAVAILABLE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_does_not_speak_http2_is_unavailable() {
    let nonsense = Scripted::speaking(b"220 mail.example ESMTP ready\r\n");
    let proxy = Proxy::start(&[Service::echo(&[nonsense.address()])]);
    let answer = refused(&proxy, ECHO, Duration::from_secs(20)).await;
    assert_eq!(answer.grpc_status(), Some(UNAVAILABLE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_endpoint_beside_a_good_one_costs_no_call() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[free_address(), backend.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    for _ in 0..100 {
        let answer = client.call(&Call::new("Echo"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_dies_in_the_middle_of_an_answer_ends_the_call() {
    let dying = Scripted::start(|begun| {
        Reply::SendAndClose(wire::headers(begun.stream, wire::flag::NONE, &wire::answer_block(&[])))
    });
    let proxy = Proxy::start(&[Service::echo(&[dying.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let start = Instant::now();
    match client.try_call(&Call::new("Echo"), b"hello").await {
        Ok(answer) => assert_eq!(answer.grpc_status(), Some(UNAVAILABLE), "{answer:?}"),
        Err(error) => assert!(error.contains("reset"), "{error}"),
    }
    assert!(start.elapsed() < AT_ONCE);
    assert!(!client.is_closed(), "one call is lost, not the connection");
}

#[test]
fn an_http1_client_that_calls_nobody_gets_404_and_is_told_what_to_do() {
    let proxy = Proxy::start(&[]);
    let answer = say(&proxy, b"GET / HTTP/1.1\r\nHost: echo.default:50051\r\nConnection: close\r\n\r\n");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(answer.contains("leno-proxy-error: no-route\r\n"), "{answer}");
    assert!(answer.contains("there is no Service echo in namespace default"), "{answer}");
}

#[test]
fn a_tls_client_gets_an_alert_and_is_hung_up_on() {
    let proxy = Proxy::start(&[]);
    let answer = say(&proxy, &client_hello());
    let [content_type, _, _, 0, 2, level, _] = answer[..] else { panic!("not a TLS alert: {answer:02x?}") };
    assert_eq!((content_type, level), (21, 2), "a fatal alert (RFC 8446 section 6): {answer:02x?}");
}

/// Sends `bytes`, and returns everything until the end of the connection, which the proxy must close.
fn say(proxy: &Proxy, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(proxy.outbound()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    // Wait before sending. If the proxy assumed HTTP/2 for a slow client, it would answer now, before it knows the
    // client's protocol.
    std::thread::sleep(Duration::from_millis(100));
    stream.write_all(bytes).expect("the proxy listens");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the proxy closes the connection");
    answer
}

/// The beginning of a TLS 1.3 ClientHello as OpenSSL sends it: record and handshake headers, version, random.
fn client_hello() -> Vec<u8> {
    let mut hello = vec![22, 3, 1, 0, 47, 1, 0, 0, 43, 3, 3];
    hello.extend([7; 32]);
    // No session id, one cipher suite, no compression, no extensions.
    hello.extend([0, 0, 2, 0x13, 0x01, 1, 0, 0, 0]);
    hello
}
