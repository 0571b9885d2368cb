use leno_http2::{FieldSection, StreamKey};
use leno_model::traffic::Repeatable;

use super::*;
use crate::call::Response;
use crate::call::attempt::tests::Attempted;
use crate::downstream::client::ClientId;
use crate::fixtures::{call, mesh_of, outbound, relay, service};
use crate::pool::hop::Protocol;

fn hedge() -> Hedge {
    let methods = ["a.B/C".parse::<Repeatable>().expect("a method")].into();
    Hedge { delay: HedgeDelay::Fixed(Duration::from_millis(10)), attempts: 1, methods }
}

/// Returns a call whose request has these fields. The call has one attempt.
fn attempted(fields: &[(&str, &str)], now: Instant) -> Call {
    let mut section = FieldSection::new();
    fields.iter().for_each(|(name, value)| section.push(name.as_bytes(), value.as_bytes()));
    let client = Some(ClientId::numbered(0));
    let mut call = Call::new((client, StreamKey::numbered(1)), section, Protocol::Http2, true, now);
    let mut attempts = Attempted::new(now);
    attempts.begin(now);
    call.attempts = attempts.attempts;
    call
}

#[test]
fn a_complete_request_that_waits_for_its_answer_may_be_sent_to_another_endpoint() {
    let now = Instant::now();
    assert_eq!(check(&attempted(&[], now), &hedge(), now, None), Ok(()));
}

#[test]
fn a_request_that_is_not_stored_as_a_whole_or_has_no_attempt_is_not_hedged() {
    let now = Instant::now();
    let refused = |change: fn(&mut Call)| {
        let mut call = attempted(&[], now);
        change(&mut call);
        check(&call, &hedge(), now, None)
    };
    assert_eq!(refused(|call| call.request_ended = false), Err(Unhedged::Request));
    assert_eq!(refused(|call| call.replayable = false), Err(Unhedged::Request));
    assert_eq!(refused(|call| call.response = Response::Begun), Err(Unhedged::Request));
    assert_eq!(refused(|call| call.attempts = Default::default()), Err(Unhedged::Request), "it waits for its retry");
}

#[test]
fn a_call_that_its_client_sends_again_itself_is_not_hedged() {
    let now = Instant::now();
    let call = attempted(&[("grpc-previous-rpc-attempts", "1")], now);
    assert_eq!(check(&call, &hedge(), now, None), Err(Unhedged::Client));
}

#[test]
fn a_call_without_time_left_is_not_hedged() {
    let now = Instant::now();
    let mut call = attempted(&[], now);
    assert_eq!(check(&call, &hedge(), now, Some(now)), Err(Unhedged::Deadline), "the proxy drains");
    call.deadline = Some(now);
    assert_eq!(check(&call, &hedge(), now, None), Err(Unhedged::Deadline));
}

#[test]
fn a_cluster_keeps_the_shares_of_a_limited_number_of_delays() {
    let (now, mut hedging) = (Instant::now(), Hedging::default());
    for ms in 1..=1_000 {
        assert!(hedging.slow(HedgeDelay::Fixed(Duration::from_millis(ms)), now).is_some());
        assert!(hedging.slow.len() <= DELAYS_MAX, "{} delays", hedging.slow.len());
    }
}

#[test]
fn the_calls_of_a_rule_with_hedging_count_in_the_budget_whatever_their_method() {
    let policy = "---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: cart, namespace: shop}\n\
                  spec:\n  targetRefs: [{kind: Service, name: cart}]\n  hedge: {delay: 10ms, methods: [GET]}\n";
    let mut relay = relay(1, mesh_of(policy.to_owned() + &service("cart", &["10.0.0.9"])), false);
    let origin = outbound();
    call(&mut relay, 0, origin, None, b"DELETE / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n".to_vec());
    let have_budgets: Vec<_> = relay.targets.iter().map(|(_, state)| state.retry_budget.is_some()).collect();
    assert_eq!(have_budgets, [true]);
}
