//! Calls that the proxy does not retry: the proxy's answer to the client names the reason. For HTTP/1 requests whose
//! connection is lost, the tests also count how often the server receives the request.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use leno_testing::Closing;

use crate::peer::{Frame, PATIENCE, call, data, grpc, headers, open_call, rst_stream};
use crate::policies::{Policed, traffic_policy};
use crate::proxy::{Proxy, mesh_of, service};
use crate::routes::get;

const RETRY: &str = "retry: {grpcCodes: [UNAVAILABLE], httpCodes: [503], attempts: 2, backoff: 0s}";
const NO_BUDGET: &str = "budget: {percent: 0, minPerSecond: 0}";

/// Returns every value of a field.
fn values<'a>(frame: &'a Frame, name: &str) -> Vec<&'a str> {
    frame.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str()).collect()
}

/// Returns the answer on stream 1 to a call that is not sent again, because the retry budget is spent. `fail` makes the
/// call's only attempt fail.
fn over_budget(parts: &str, request: &[u8], fail: impl FnOnce(&mut Policed, usize, u32)) -> Vec<Frame> {
    let mut policed = Policed::start(&format!("{parts}{RETRY}\n  {NO_BUDGET}"));
    policed.client.send(request);
    let (place, sent) = policed.servers.next_request();
    fail(&mut policed, place, sent.stream);
    policed.client.rest_of(1)
}

#[test]
fn the_calls_before_the_first_retry_count_in_the_budget() {
    let mut policed = Policed::start(&format!("{RETRY}\n  budget: {{percent: 20, minPerSecond: 0}}"));
    for stream in (1..21).step_by(2) {
        policed.client.send(&call(stream));
        let (place, sent) = policed.servers.next_request();
        policed.servers.send(place, &headers(sent.stream, &grpc("0"), true));
        assert_eq!(policed.client.rest_of(stream)[0].field("grpc-status"), "0");
    }
    policed.client.send(&call(21));
    for status in ["14", "0"] {
        let (place, sent) = policed.servers.next_request();
        policed.servers.send(place, &headers(sent.stream, &grpc(status), true));
    }
    assert_eq!(policed.client.rest_of(21)[0].field("grpc-status"), "0");
}

#[test]
fn the_answer_names_the_failure_of_the_attempt_and_the_spent_budget() {
    let reset = |policed: &mut Policed, place, stream| policed.servers.send(place, &rst_stream(stream, 2));
    let close = |policed: &mut Policed, place, _| policed.servers.close(place);
    let wait = |_: &mut Policed, _, _| {};
    for (failed, status, reason) in [
        (over_budget("", &call(1), reset), "14", "reset"),
        (over_budget("", &call(1), close), "14", "connection-closed"),
        (over_budget("timeouts: {backendRequest: 200ms}\n  ", &call(1), wait), "4", "backend-timeout"),
    ] {
        let answer = &failed[0];
        assert_eq!(answer.field("grpc-status"), status, "{answer:?}");
        assert_eq!(values(answer, "leno-proxy-error"), [reason, "retry-budget-spent"]);
        assert_eq!((answer.field("leno-not-retried"), answer.field("grpc-retry-pushback-ms")), ("budget", "-1"));
        let message = answer.field("grpc-message");
        assert!(message.ends_with("; not sent again: the retry budget of echo.default:80 is spent"), "{message}");
    }
}

#[test]
fn the_content_of_an_http_answer_names_the_spent_budget_too() {
    let failed = over_budget("", &get(1, "/"), |policed, place, _| policed.servers.close(place));
    assert_eq!(failed[0].field(":status"), "502");
    assert_eq!(values(&failed[0], "leno-proxy-error"), ["connection-closed", "retry-budget-spent"]);
    let content = String::from_utf8_lossy(&failed[1].payload);
    assert!(content.ends_with("; not sent again: the retry budget of echo.default:80 is spent\n"), "{content}");
    assert_eq!(failed[0].field("content-length"), content.len().to_string());
}

#[test]
fn a_call_that_has_used_its_retries_says_so() {
    let mut policed = Policed::start(RETRY);
    policed.client.send(&call(1));
    for _ in 0..3 {
        let (place, request) = policed.servers.next_request();
        policed.servers.send(place, &rst_stream(request.stream, 2));
    }
    let answer = &policed.client.rest_of(1)[0];
    let message = answer.field("grpc-message");
    assert!(message.ends_with("; not sent again: the call has used its retries"), "{message}");
    assert_eq!(values(answer, "leno-proxy-error"), ["reset"]);
}

#[test]
fn an_error_after_the_answer_has_begun_says_nothing_of_retries() {
    let mut policed = Policed::start(&format!("timeouts: {{streamIdle: 200ms}}\n  {RETRY}\n  {NO_BUDGET}"));
    policed.client.send(&[open_call(1), data(1, b"question", false)].concat());
    let (place, request) = policed.servers.next_request();
    policed.servers.send(place, &headers(request.stream, &grpc("0")[..2], false));
    let frames = policed.client.rest_of(1);
    let last = frames.last().expect("trailers");
    assert_eq!(values(last, "leno-proxy-error"), ["stream-idle"]);
    assert!(!last.field("grpc-message").contains("not sent again"), "{last:?}");
}

/// Starts a server that closes the connection after each request without an answer, except during
/// [`Closing::keep_connections`].
fn closing() -> Closing {
    Closing::start((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port")
}

/// Returns a proxy that has idle connections to the server. `policy` has the parts of its TrafficPolicy; it may be
/// empty.
fn kept_by(server: &Closing, policy: &str) -> Proxy {
    let policy = if policy.is_empty() { String::new() } else { traffic_policy(policy) };
    let proxy = Proxy::start_in(mesh_of(&(service("echo", &[server.address()], "") + &policy)), &[]);
    let address = proxy.address();
    server.keep_connections(|| {
        let answer = head(&mut request(address, "GET"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    });
    assert_eq!(server.take_requests(), Closing::CONNECTIONS as u64);
    proxy
}

/// Makes a request that fails. Returns the number of requests that the server got, and the answer's head.
fn failed(server: &Closing, proxy: &Proxy, method: &str) -> (u64, String) {
    let answer = head(&mut request(proxy.address(), method));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    (server.take_requests(), answer)
}

/// Sends a request on a new connection, which stays open.
fn request(to: SocketAddr, method: &str) -> TcpStream {
    let mut socket = TcpStream::connect(to).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
    let text = format!("{method} / HTTP/1.1\r\nHost: echo.default\r\nContent-Length: 0\r\n\r\n");
    socket.write_all(text.as_bytes()).expect("the proxy reads");
    socket
}

/// Reads the head of a message; empty at the end of the connection.
fn head(socket: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match socket.read_exact(&mut byte) {
            Ok(()) => text.extend(byte),
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => break,
            Err(error) => panic!("no message came: {error}"),
        }
    }
    String::from_utf8(text).expect("text")
}

#[test]
fn without_a_policy_a_server_that_closes_used_connections_gets_a_request_four_times() {
    let server = closing();
    let proxy = kept_by(&server, "");
    assert_eq!(failed(&server, &proxy, "GET").0, 4, "max_attempts");
    assert_eq!(failed(&server, &proxy, "POST").0, 1, "it may not be repeated");
}

#[test]
fn with_retries_a_server_gets_a_request_once_more_for_each_retry() {
    for attempts in [1, 4] {
        let server = closing();
        let proxy = kept_by(&server, &format!("retry: {{attempts: {attempts}, backoff: 0s}}"));
        let (requests, answer) = failed(&server, &proxy, "GET");
        assert_eq!(requests, 1 + attempts);
        assert!(answer.contains("\r\nleno-not-retried: attempts\r\n"), "{answer}");
    }
}

#[test]
fn a_spent_budget_stops_requests_whose_used_connection_was_lost() {
    for policy in [NO_BUDGET.to_owned(), format!("{RETRY}\n  {NO_BUDGET}")] {
        let server = closing();
        let proxy = kept_by(&server, &policy);
        let (requests, answer) = failed(&server, &proxy, "GET");
        assert_eq!(requests, 1, "{policy}");
        assert!(answer.contains("\r\nleno-not-retried: budget\r\n"), "{answer}");
    }
}
