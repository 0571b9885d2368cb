use std::time::Duration;

use leno_http2::StreamKey;

use super::*;
use crate::call::attempt::tests::Attempted;
use crate::downstream::origin::{Door, Origin};
use crate::fixtures::{mesh_of, outbound, policy, relay, service};
use crate::target::balance::Choice;
use crate::trace::{FinishedAttempt, Outbox, Sampling, Tracer, Tracing};

const MAX_ATTEMPTS: u32 = 3;

fn call(protocol: Protocol, method: &str, attempted: Attempted, now: Instant) -> Call {
    let mut request = FieldSection::new();
    request.push(b":method", method.as_bytes());
    let mut call = Call::new((None, StreamKey::numbered(0)), request, protocol, true, now);
    call.attempts = attempted.attempts;
    call
}

/// Returns a call for which `attempts` attempts have begun. All attempts except the latest have ended. Also returns the
/// id of the latest attempt.
fn tried(protocol: Protocol, method: &str, attempts: u32) -> (Call, AttemptId) {
    let now = Instant::now();
    let mut attempted = Attempted::new(now);
    let mut latest = attempted.begin(now);
    for _ in 1..attempts {
        assert!(attempted.attempts.end(latest).is_some());
        latest = attempted.begin(now);
    }
    (call(protocol, method, attempted, now), latest)
}

fn failures() -> Vec<Failure> {
    let endpoint = "10.0.0.1:80".parse().expect("an address");
    vec![
        Failure::NotSent,
        Failure::NotConnected(ProxyError::Connect { endpoint, why: "connection refused".to_owned() }),
        Failure::Refused { endpoint },
        Failure::GoneAway { endpoint },
        Failure::Lost { endpoint, was_used: false },
        Failure::Lost { endpoint, was_used: true },
        Failure::Reset(ErrorCode::REFUSED_STREAM),
        Failure::Fault(ProxyError::ConnectionClosed { endpoint }),
        Failure::Violation(ProxyError::ConnectionClosed { endpoint }),
    ]
}

/// Returns one letter for each failure, in the order of [`failures`]. The letter says what happens to the call:
///
/// - `r`: the call is sent again.
/// - `w`: the call waits for another attempt.
/// - `f`: the call fails.
/// - `x`: the client's stream is reset.
/// - `e`: the call ends.
/// - `c`: the call ends, and its client is reset.
fn after_each(call: &Call) -> String {
    let letter = |failure: &Failure| match next(call, failure, MAX_ATTEMPTS) {
        Next::Resend => 'r',
        Next::Retry(_) => panic!("the policy is asked later"),
        Next::AwaitOthers => 'w',
        Next::Fail(_) => 'f',
        Next::Reset(_) => 'x',
        Next::End => 'e',
        Next::Cut => 'c',
    };
    failures().iter().map(letter).collect()
}

#[test]
fn only_what_no_server_has_processed_is_sent_again() {
    for (protocol, method, expected) in [
        (Protocol::Http2, "POST", "rrrrffxff"),
        // Even a GET is not sent again after its connection is lost: an HTTP/2 server reports which calls it did not
        // process.
        (Protocol::Http2, "GET", "rrrrffxff"),
        (Protocol::Http1, "POST", "rrrrffxff"),
        (Protocol::Http1, "GET", "rrrrfrxff"),
    ] {
        let (call, _) = tried(protocol, method, 1);
        assert_eq!(after_each(&call), expected, "{protocol:?} {method}");
    }
}

#[test]
fn a_call_whose_request_is_not_stored_goes_to_another_endpoint_only_if_it_was_not_sent() {
    let (mut call, _) = tried(Protocol::Http1, "GET", 1);
    call.replayable = false;
    assert_eq!(after_each(&call), "rrffffxff");
}

#[test]
fn a_call_without_attempts_left_fails() {
    let (call, _) = tried(Protocol::Http1, "GET", MAX_ATTEMPTS);
    assert_eq!(after_each(&call), "ffffffxff");
    let (call, _) = tried(Protocol::Http1, "GET", MAX_ATTEMPTS - 1);
    assert_eq!(after_each(&call), "rrrrfrxff");
}

#[test]
fn once_the_response_has_begun_nothing_is_sent_again() {
    let (mut call, _) = tried(Protocol::Http1, "GET", 1);
    call.response = Response::Begun;
    assert_eq!(after_each(&call)[2..], *"ffffxff");
    call.response = Response::Ended;
    assert_eq!(after_each(&call), "eeeeeeeee");
    call.protocol = Protocol::Opaque;
    assert_eq!(after_each(&call), "ccccccccc");
}

#[test]
fn a_call_with_another_attempt_waits_for_that() {
    let now = Instant::now();
    let mut attempted = Attempted::new(now);
    attempted.begin(now);
    attempted.begin(now);
    let call = call(Protocol::Http2, "POST", attempted, now);
    assert_eq!(after_each(&call), "wwwwwwwww");
}

#[test]
fn the_balancer_hears_of_failures_of_the_endpoint_only() {
    let (call, id) = tried(Protocol::Http1, "GET", 1);
    let attempt = call.attempts.get(id).expect("an attempt");
    let (latency, pushback) = (Duration::from_millis(20), None);
    let letter = |failure: &Failure| {
        let is_harmless = is_harmless(&call, failure, &next(&call, failure, MAX_ATTEMPTS));
        match outcome(attempt, failure, is_harmless, attempt.since + latency) {
            Outcome::NotSent => '-',
            failed if failed == (Outcome::Failure { latency, pushback }) => 'f',
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(failures().iter().map(letter).collect::<String>(), "-ff-f-fff");
}

#[test]
fn a_server_that_closes_a_used_connection_is_blamed_only_if_the_call_has_no_attempt_left() {
    let (mut call, _) = tried(Protocol::Http1, "GET", 1);
    let endpoint = "10.0.0.1:80".parse().expect("an address");
    let lost = Failure::Lost { endpoint, was_used: true };
    let fail = Next::Fail(ProxyError::ConnectionClosed { endpoint });
    assert!(is_harmless(&call, &lost, &Next::Resend));
    for (why, expected) in [
        (Unretried::Budget, true),
        (Unretried::Deadline, true),
        (Unretried::Client, true),
        (Unretried::Attempts, false),
        (Unretried::Request, false),
    ] {
        call.unretried = Some(why);
        assert_eq!(is_harmless(&call, &lost, &fail), expected, "{why:?}");
    }
    let fresh = Failure::Lost { endpoint, was_used: false };
    call.unretried = Some(Unretried::Budget);
    assert!(!is_harmless(&call, &fresh, &fail), "a connection that was not used before");
}

/// Traces a call with two attempts, and lets `end` end one attempt. Returns the span of the second attempt.
fn second_attempt(end: fn(&mut Relay, [AttemptId; 2])) -> FinishedAttempt {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.8", "10.0.0.9"])), false);
    let outbox = std::sync::Arc::<Outbox>::default();
    let tracing = Tracing { sampling: Sampling { ratio: 1.0, ..Sampling::default() }, outbox: outbox.clone() };
    relay.tracer = Tracer::new(Some(tracing), relay.now, &mut fastrand::Rng::with_seed(1));
    let origin = outbound();
    crate::fixtures::call(&mut relay, 0, origin, None, b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n".to_vec());
    let (id, call) = relay.calls.iter().next().expect("a call");
    let first = call.attempts.ids(id).next().expect("an attempt").0;
    let begun = relay.begin_attempt(id, Choice::Another).expect("another endpoint");
    let second = begun.attempt;
    relay.place(begun);

    end(&mut relay, [first, second]);
    assert_eq!(relay.calls.get(id).map(|call| call.attempts.len()), Some(1));
    relay.end_call(id, Ending::Cancelled);
    let mut traced = outbox.take();
    let spans = std::mem::take(&mut traced.first_mut().expect("a traced call").attempts);
    spans.into_iter().find(|attempt| attempt.number == second.number()).expect("its span")
}

#[test]
fn an_attempt_that_loses_against_another_is_cancelled_and_has_not_failed() {
    let span = second_attempt(|relay, [first, _]| relay.abandon_others(first));
    assert_eq!((span.error, span.has_failed), (Some("cancelled"), false));
}

#[test]
fn an_attempt_that_cannot_go_on_has_failed_with_the_reason() {
    let span = second_attempt(|relay, [_, second]| {
        relay.give_up_attempt(second, &ProxyError::HeaderListTooLarge { limit_bytes: 1 });
    });
    let why = ProxyError::HeaderListTooLarge { limit_bytes: 1 }.why();
    assert_eq!((span.error, span.has_failed), (Some(why), true));
}

#[test]
fn a_mirrored_copy_whose_stream_is_reset_counts_as_dropped() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.8"])), false);
    let mut attempted = Attempted::new(relay.now);
    attempted.begin(relay.now);
    let copy = call(Protocol::Http2, "POST", attempted, relay.now);
    let id = relay.calls.insert(copy);
    let attempt = relay.calls.get(id).and_then(|copy| copy.attempts.ids(id).next()).expect("an attempt").0;
    relay.attempt_failed(attempt, &Failure::Reset(ErrorCode::INTERNAL_ERROR));
    assert!(relay.calls.get(id).is_none());
    assert_eq!(relay.metrics.mirrors_dropped_total.get(), 1);
}

/// Returns a relay with a call of our application to a Service with two endpoints, and with the manifest of its policy.
fn calling(policy: String) -> Relay {
    let mut relay = relay(1, mesh_of(policy + &service("cart", &["10.0.0.8", "10.0.0.9"])), false);
    let request = b"POST / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n".to_vec();
    crate::fixtures::call(&mut relay, 0, outbound(), None, request);
    relay
}

/// Sends the relay's only call, and lets the server refuse it. Returns whether the relay sends the call again at once.
fn refuse(relay: &mut Relay) -> bool {
    relay.dispatch();
    let (id, call) = relay.calls.iter().next().expect("a call");
    let attempt = call.attempts.ids(id).next().expect("an attempt").0;
    let endpoint = "10.0.0.8:8080".parse().expect("an address");
    relay.attempt_failed(attempt, &Failure::Refused { endpoint });
    relay.calls.has_listed()
}

#[test]
fn a_refused_call_is_sent_again_at_once_only_the_first_time_and_each_refusal_is_a_failure() {
    let mut relay = calling(String::new());
    assert!(refuse(&mut relay));
    for _ in 0..2 {
        assert!(!refuse(&mut relay) && relay.calls.len() == 1, "it waits");
        relay.set_now(relay.now + Duration::from_secs(1));
        relay.expire_deadlines();
        assert!(relay.calls.has_listed(), "the pause is over");
    }
    assert!(!refuse(&mut relay) && relay.calls.len() == 0, "it has no attempt left");
    let cluster = relay.explain().remove(0);
    assert_eq!(cluster.endpoints.iter().map(|endpoint| endpoint.balancer.failures).sum::<u64>(), 4);
}

#[test]
fn the_budget_limits_how_often_a_refused_call_is_sent_again() {
    let mut relay = calling(policy("budget: {percent: 0, minPerSecond: 0}"));
    assert!(refuse(&mut relay));
    assert!(!refuse(&mut relay) && relay.calls.len() == 0);
}

#[test]
fn an_audited_budget_counts_a_refused_call_and_lets_it_go_on() {
    let mut relay = calling(policy("budget: {percent: 0, minPerSecond: 0, mode: Audit}"));
    assert!(refuse(&mut relay));
    assert!(!refuse(&mut relay) && relay.calls.len() == 1, "it waits");
    assert_eq!(relay.metrics.audited_count("retry-budget-spent"), 1);
}

#[test]
fn a_refused_call_that_would_wait_beyond_its_deadline_fails() {
    let mut relay = calling(policy("timeouts: {request: 20ms}"));
    assert!(refuse(&mut relay));
    assert!(!refuse(&mut relay) && relay.calls.len() == 0, "the shortest pause is 25 ms");
}

#[test]
fn after_the_first_refusal_a_call_uses_the_retries_of_its_rule() {
    let mut relay = calling(policy("retry: {attempts: 1, backoff: 0s}"));
    let retries = |relay: &Relay| relay.calls.iter().map(|(_, call)| call.retries).collect::<Vec<_>>();
    assert!(refuse(&mut relay));
    assert_eq!(retries(&relay), [0]);
    assert!(refuse(&mut relay));
    assert_eq!(retries(&relay), [1]);
    assert!(!refuse(&mut relay) && relay.calls.len() == 0);
}

#[test]
fn a_proxy_gives_a_call_back_to_the_callers_proxy_after_two_refusals() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let (peer, local) = ("10.0.1.1:40000", "10.0.0.9:8080");
    let [peer, local] = [peer, local].map(|address| address.parse().expect("an address"));
    let origin = Origin { door: Door::Inbound, peer, local, original_destination: Some(local) };
    let web = "spiffe://example.org/ns/shop/sa/web".parse().expect("an id");
    crate::fixtures::call(&mut relay, 0, origin, Some(web), b"POST / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec());
    assert!(refuse(&mut relay));
    assert!(!refuse(&mut relay) && relay.calls.len() == 0);
}
