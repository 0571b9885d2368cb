use super::*;
use crate::fixtures::{begin_to_connect, call, connect_endpoint, flush, mesh_of, outbound, policy, relay, service};
use crate::limits::ms;
use crate::link::LinkId;

/// Returns a relay beside an application that calls a Service with one endpoint. `policy` is the manifest of the
/// Service's policy; it may be empty.
fn relay_with(policy: String) -> Relay {
    relay(1, mesh_of(policy + &service("cart", &["10.0.0.9"])), false)
}

/// The application makes a request with this method, on a new connection with this number.
fn ask(relay: &mut Relay, number: u32, method: &str) {
    let request = format!("{method} / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n").into_bytes();
    call(relay, number, outbound(), None, request);
}

/// Returns how many calls to the endpoint have failed.
fn failures(relay: &Relay) -> u64 {
    relay.explain().remove(0).endpoints.remove(0).balancer.failures
}

#[test]
fn waiting_calls_leave_a_pool_that_pauses_once_its_last_connection_has_gone() {
    let mut relay = relay_with(String::new());
    ask(&mut relay, 0, "POST");
    let first = connect_endpoint(&mut relay);
    ask(&mut relay, 1, "POST");
    let second = begin_to_connect(&mut relay);
    relay.close_upstream(second, "refused");
    flush(&mut relay, LinkId::Endpoint(first));
    relay.dispatch();
    assert_eq!(relay.calls.len(), 2, "the second call waits for the first connection");
    relay.close_upstream(first, "closed");
    flush(&mut relay, LinkId::Endpoint(first));
    relay.dispatch();
    assert_eq!(relay.calls.len(), 0, "no endpoint takes the second call now");
}

#[test]
fn a_call_for_which_the_proxy_has_no_socket_fails_with_the_reason_and_its_endpoint_stays_healthy() {
    let mut relay = relay_with(String::new());
    let request = b"POST / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n".to_vec();
    let client = call(&mut relay, 0, outbound(), None, request);
    let upstream = begin_to_connect(&mut relay);
    let error = "this proxy has no file descriptor left; raise its limit".to_owned();
    relay.end_upstream(upstream, &ConnectionFailure::NoSocket { error });
    relay.dispatch();
    let answer = relay.link(LinkId::Client(client)).expect("it is open").output().to_vec();
    let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 503 ") && answer.contains("leno-proxy-error: no-socket"), "{answer}");
    assert!(answer.contains("this proxy has no file descriptor left; raise its limit"), "{answer}");
    let endpoint = relay.explain().remove(0).endpoints.remove(0);
    assert_eq!((endpoint.balancer.failures, endpoint.connect_failures), (0, 0));
    // The pause does not grow, and the relay tries again after it.
    for number in 1..4 {
        relay.set_now(relay.now + ms(relay.limits.relay.min_backoff_ms));
        ask(&mut relay, number, "POST");
        let upstream = begin_to_connect(&mut relay);
        relay.end_upstream(upstream, &ConnectionFailure::NoSocket { error: String::new() });
        relay.dispatch();
    }
}

/// Returns a relay with a connection that has carried a request. Another request with this method is on the connection,
/// and its bytes wait for the socket.
fn reused(method: &str) -> (Relay, UpstreamId) {
    let mut relay = relay_with(String::new());
    ask(&mut relay, 0, "GET");
    let upstream = connect_endpoint(&mut relay);
    let endpoint = LinkId::Endpoint(upstream);
    relay.receive(endpoint, b"HTTP/1.1 204 No Content\r\n\r\n");
    flush(&mut relay, endpoint);
    assert_eq!(relay.calls.len(), 0);
    ask(&mut relay, 1, method);
    assert!(relay.pools.upstream(upstream).expect("it is open").is_reused);
    (relay, upstream)
}

#[test]
fn a_request_of_which_the_socket_has_accepted_nothing_is_sent_again_whatever_its_method() {
    for (written, is_sent_again) in [(0, true), (1, false)] {
        let (mut relay, upstream) = reused("POST");
        relay.link(LinkId::Endpoint(upstream)).expect("it is open").note_written(written);
        relay.close_upstream(upstream, "reset");
        assert_eq!((relay.calls.has_listed(), relay.calls.len() == 1), (is_sent_again, is_sent_again), "{written}");
        assert_eq!(failures(&relay), u64::from(!is_sent_again), "{written}");
    }
}

#[test]
fn a_new_connection_that_ends_before_its_first_byte_has_failed_and_its_call_is_sent_again() {
    let mut relay = relay_with(String::new());
    ask(&mut relay, 0, "POST");
    let upstream = begin_to_connect(&mut relay);
    relay.connected(upstream);
    relay.serve_waiting();
    relay.close_upstream(upstream, "reset");
    assert!(relay.calls.has_listed());
    assert_eq!(failures(&relay), 1);
}

#[test]
fn a_connection_that_ends_in_the_middle_of_an_answer_was_not_closed_because_it_was_idle() {
    for (answer, is_sent_again) in [("", true), ("HTTP/1.1 2", false)] {
        let (mut relay, upstream) = reused("GET");
        let endpoint = LinkId::Endpoint(upstream);
        flush(&mut relay, endpoint);
        relay.receive(endpoint, answer.as_bytes());
        relay.receive_end(endpoint);
        assert_eq!((relay.calls.has_listed(), relay.calls.len() == 1), (is_sent_again, is_sent_again), "{answer:?}");
        assert_eq!(failures(&relay), u64::from(!is_sent_again), "{answer:?}");
    }
}

#[test]
fn a_call_whose_server_breaks_the_protocol_is_retried_if_its_rule_has_retries() {
    for (policy, is_sent_again) in [(policy("retry: {attempts: 1, backoff: 0s}"), true), (String::new(), false)] {
        let mut relay = relay_with(policy);
        ask(&mut relay, 0, "POST");
        let upstream = connect_endpoint(&mut relay);
        relay.receive(LinkId::Endpoint(upstream), b"220 mail.example ESMTP\r\n\r\n");
        assert_eq!((relay.calls.has_listed(), relay.calls.len() == 1), (is_sent_again, is_sent_again));
        assert_eq!(failures(&relay), 1);
    }
}
