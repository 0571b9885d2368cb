use leno_http2::{Connection, ErrorCode, Event, FieldSection, StreamKey};

use super::*;
use crate::downstream::client::Speaks;
use crate::fixtures::{
    begin_connections, call, connect, connect_endpoint, establish_http2, flush, http2_caller, mesh_of, outbound,
    policy, read, relay, service,
};
use crate::link::LinkId;
use crate::metrics::fixtures::scrape;

const MS: Duration = Duration::from_millis(1);

/// The fields of a gRPC call with a deadline of one second.
const WITHIN_A_SECOND: [(&str, &str); 7] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "cart.shop"),
    (":path", "/a.B/C"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
    ("grpc-timeout", "1S"),
];

/// Returns the end of a call as its client receives it: the gRPC status and the proxy's error, or the code of a reset.
fn received(relay: &mut Relay, client: LinkId, caller: &mut Connection) -> String {
    let now = relay.now;
    let output = relay.link(client).expect("it is open").output().to_vec();
    let (mut input, mut fields, mut received) = (&output[..], FieldSection::new(), String::new());
    while let Some(event) = caller.receive(now, &mut input, &mut fields).expect("valid frames") {
        match event {
            Event::Headers { .. } => {
                let value = |name: &[u8]| {
                    let value = fields.iter().find(|line| line.name == name).map(|line| line.value.to_vec());
                    String::from_utf8(value.unwrap_or_default()).expect("text")
                };
                received = format!("{} {}", value(b"grpc-status"), value(b"leno-proxy-error"));
            }
            Event::Reset { code, .. } => received = code.to_string(),
            _ => {}
        }
    }
    received
}

/// Returns how many calls to the only endpoint have failed, and whether the balancer has an estimate of its latency.
fn record(relay: &Relay) -> (u64, bool) {
    let endpoint = relay.explain().remove(0).endpoints.remove(0).balancer;
    (endpoint.failures, endpoint.latency_estimate_ms.is_some())
}

/// Begins a gRPC call with a deadline of one second. Returns the relay, and the client with the stream of its call.
fn called() -> (Relay, LinkId, Connection, StreamKey) {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let client = LinkId::Client(connect(&mut relay, 0, outbound(), None, (Speaks::Http2, Vec::new())));
    assert!(relay.begin_read(client).is_some());
    let (mut caller, stream) = http2_caller(relay.now, &WITHIN_A_SECOND);
    caller.send_data(stream, b"question", true);
    relay.receive(client, caller.output());
    relay.dispatch();
    (relay, client, caller, stream)
}

/// Makes a gRPC call with a deadline of one second. The server resets the stream with this code, `after` the call's
/// start. Returns the relay, and the end of the call as its client receives it.
fn reset_after(after: Duration, code: ErrorCode) -> (Relay, String) {
    let (mut relay, client, mut caller, _) = called();
    let upstream = begin_connections(&mut relay).first().expect("the call needs a connection").0;
    let mut server = establish_http2(&mut relay, upstream);
    relay.serve_waiting();
    let (now, endpoint) = (relay.now, LinkId::Endpoint(upstream));
    let asked = read(&mut server, now, relay.link(endpoint).expect("it is open").output()).expect("a request");
    server.reset(asked, code);
    relay.set_now(now + after);
    relay.receive(endpoint, server.output());
    assert_eq!(relay.calls.len(), 0);
    let received = received(&mut relay, client, &mut caller);
    (relay, received)
}

#[test]
fn a_server_that_cancels_a_call_at_its_deadline_ends_it_as_the_proxys_own_timer_does() {
    for after in [998 * MS, 1_000 * MS, 1_001 * MS] {
        let (relay, received) = reset_after(after, ErrorCode::CANCEL);
        assert_eq!(received, "4 deadline-exceeded", "{after:?}");
        assert_eq!(relay.metrics.deadline_exceeded_total.get(), 1);
        assert_eq!(record(&relay), (0, true), "the endpoint has not failed, but takes at least this long");
    }
}

#[test]
fn a_call_that_its_client_cancels_at_the_deadline_has_failed() {
    for (after, failed) in [(500 * MS, false), (995 * MS, true)] {
        let (mut relay, client, mut caller, stream) = called();
        let sent = caller.output().len();
        caller.advance_output(sent);
        caller.reset(stream, ErrorCode::CANCEL);
        relay.set_now(relay.now + after);
        relay.receive(client, caller.output());
        assert_eq!((relay.calls.len(), relay.metrics.cancelled_total.get()), (0, 1));
        let text = scrape(std::slice::from_ref(&relay.metrics));
        let expired = r#"classification="failure",status_code="200",grpc_status="4"} 1"#;
        let has_failed = text.lines().any(|line| line.starts_with("response_total{") && line.ends_with(expired));
        assert_eq!(has_failed, failed, "{after:?}: {text}");
    }
}

#[test]
fn any_other_reset_is_passed_on_and_is_a_failure_of_the_server() {
    for (after, code) in [(500 * MS, ErrorCode::CANCEL), (1_000 * MS, ErrorCode::INTERNAL_ERROR)] {
        let (relay, received) = reset_after(after, code);
        assert_eq!(received, code.to_string(), "{after:?}");
        assert_eq!((relay.metrics.deadline_exceeded_total.get(), record(&relay).0), (0, 1));
    }
}

/// Lets an attempt at this request take longer than the 100 ms that a policy with one retry allows it. Returns the
/// relay.
fn late(request: &[u8]) -> Relay {
    let policy = policy("timeouts: {backendRequest: 100ms}, retry: {attempts: 1, backoff: 0s}");
    let mut relay = relay(1, mesh_of(policy + &service("cart", &["10.0.0.9"])), false);
    call(&mut relay, 0, outbound(), None, request.to_vec());
    connect_endpoint(&mut relay);
    relay.set_now(relay.now + 200 * MS);
    relay.expire_deadlines();
    relay
}

#[test]
fn an_endpoint_that_takes_too_long_has_failed_and_its_call_is_retried() {
    let relay = late(b"PUT / HTTP/1.1\r\nhost: cart.shop:80\r\ncontent-length: 8\r\n\r\nabcdefgh");
    assert!(relay.calls.has_listed());
    assert_eq!(record(&relay).0, 1);
}

#[test]
fn an_endpoint_that_does_not_answer_an_upgrade_in_time_has_failed_and_the_call_is_not_retried() {
    let relay = late(b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    assert_eq!((relay.calls.len(), relay.calls.has_listed()), (0, false));
    assert_eq!(record(&relay).0, 1);
}

#[test]
fn an_endpoint_that_waits_for_the_rest_of_a_request_has_not_failed_and_the_call_is_not_retried() {
    let relay = late(b"PUT / HTTP/1.1\r\nhost: cart.shop:80\r\ncontent-length: 16\r\n\r\nabcdefgh");
    assert_eq!((relay.calls.len(), relay.metrics.deadline_exceeded_total.get()), (0, 1));
    assert_eq!(record(&relay), (0, false));
}

#[test]
fn an_upload_that_pauses_fails_as_soon_as_its_latest_content_is_as_old_as_the_limit() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let head = b"PUT / HTTP/1.1\r\nhost: cart.shop:80\r\ncontent-length: 16\r\n\r\nabcd";
    let client = call(&mut relay, 0, outbound(), None, head.to_vec());
    connect_endpoint(&mut relay);
    let (began, limit) = (relay.now, ms(relay.limits.relay.content_timeout_ms));
    relay.set_now(began + limit / 2);
    relay.receive(LinkId::Client(client), b"efgh");
    for (after, calls) in [(limit + MS, 1), (limit * 3 / 2 - MS, 1), (limit * 3 / 2 + 2 * MS, 0)] {
        relay.set_now(began + after);
        relay.expire_deadlines();
        assert_eq!(relay.calls.len(), calls, "{after:?}");
    }
}

#[test]
fn an_endpoint_that_does_not_answer_an_open_grpc_stream_has_failed() {
    let policy = policy("timeouts: {backendRequest: 100ms}");
    let mut relay = relay(1, mesh_of(policy + &service("cart", &["10.0.0.9"])), false);
    let (mut caller, stream) = http2_caller(relay.now, &WITHIN_A_SECOND);
    caller.send_data(stream, b"question", false);
    connect(&mut relay, 0, outbound(), None, (Speaks::Http2, caller.output().to_vec()));
    let client = relay.downstreams.iter().next().expect("a client").0;
    assert!(relay.begin_read(LinkId::Client(client)).is_some());
    relay.dispatch();
    let upstream = begin_connections(&mut relay).first().expect("the call needs a connection").0;
    establish_http2(&mut relay, upstream);
    relay.serve_waiting();
    relay.set_now(relay.now + 200 * MS);
    relay.expire_deadlines();
    assert_eq!(relay.calls.len(), 0);
    assert_eq!(record(&relay).0, 1);
}

/// Asks for a WebSocket through a rule with these time limits, and lets the server answer with `answer`. Then lets a
/// second pass, which is longer than the limits. Returns the number of calls that are still open.
fn open_after_limits(limits: &str, answer: &str) -> usize {
    let mut relay = relay(1, mesh_of(policy(limits) + &service("cart", &["10.0.0.9"])), false);
    let asked = b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let client = LinkId::Client(call(&mut relay, 0, outbound(), None, asked.to_vec()));
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    relay.receive(upstream, answer.as_bytes());
    flush(&mut relay, client);
    relay.set_now(relay.now + 1_000 * MS);
    relay.expire_deadlines();
    assert_eq!(relay.metrics.audited_count("request-timeout") + relay.metrics.audited_count("backend-timeout"), 0);
    relay.calls.len()
}

#[test]
fn the_time_limits_of_a_rule_end_when_the_server_accepts_an_upgrade() {
    let accepted = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    for limits in
        ["{request: 500ms}", "{backendRequest: 500ms}", "{request: 500ms, backendRequest: 500ms, mode: Audit}"]
    {
        assert_eq!(open_after_limits(&format!("timeouts: {limits}"), accepted), 1, "{limits}");
    }
}

#[test]
fn the_time_limits_of_a_rule_apply_to_an_upgrade_that_the_server_has_not_accepted() {
    let ignored = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf";
    for answer in ["", ignored] {
        for limits in ["{request: 500ms}", "{backendRequest: 500ms}"] {
            assert_eq!(open_after_limits(&format!("timeouts: {limits}"), answer), 0, "{limits} {answer:?}");
        }
    }
}
