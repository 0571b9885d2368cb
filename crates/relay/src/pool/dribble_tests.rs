use std::sync::Arc;

use super::*;
use crate::SWEEP_EVERY;
use crate::downstream::client::Speaks;
use crate::fixtures::{
    TO_CART, begin_connections, connect, establish_http2, http2_caller, mesh_of, outbound, relay, service,
};

/// Returns a relay whose client has a call with an incomplete request in flight, and the place of the call.
fn with_open_call() -> (Relay, (CallId, UpstreamId, StreamKey)) {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let (mut caller, _) = http2_caller(relay.now, &TO_CART);
    let client = connect(&mut relay, 0, outbound(), None, (Speaks::Http2, caller.output().to_vec()));
    relay.begin_read(LinkId::Client(client));
    relay.dispatch();
    for (upstream, _) in begin_connections(&mut relay) {
        establish_http2(&mut relay, upstream);
    }
    relay.serve_waiting();
    let (id, call) = relay.calls.iter().next().expect("a call");
    let (upstream, stream) = call.attempts.ids(id).find_map(|(_, attempt)| attempt.stream()).expect("it was sent");
    (relay, (id, upstream, stream))
}

/// Lets many short pieces arrive. Returns how many of them the connection sends at once.
fn sent_at_once(relay: &mut Relay, (id, upstream, stream): (CallId, UpstreamId, StreamKey)) -> usize {
    (0..200).filter(|_| !relay.collect(id, (upstream, stream), b"x", true)).count()
}

#[test]
fn a_connection_sends_few_short_pieces_at_once_however_many_accounts_send_them() {
    let (mut relay, place) = with_open_call();
    let of_account = relay.limits.relay.max_dribbles_per_account as usize;
    assert_eq!(sent_at_once(&mut relay, place), of_account);
    relay.set_now(relay.now + SWEEP_EVERY);
    assert!(relay.sweep());
    // As if the pieces came from many accounts.
    Arc::make_mut(&mut relay.limits).relay.max_dribbles_per_account = u32::MAX;
    assert_eq!(sent_at_once(&mut relay, place), MAX_SENT_AT_ONCE_PER_SWEEP as usize);
    relay.set_now(relay.now + SWEEP_EVERY);
    assert!(relay.sweep());
    assert_eq!(sent_at_once(&mut relay, place), MAX_SENT_AT_ONCE_PER_SWEEP as usize);
}

#[test]
fn a_mirrored_copy_sends_no_short_piece_at_once() {
    let (mut relay, place) = with_open_call();
    // A copy is a call without a client.
    relay.calls.get_mut(place.0).expect("a call").client = None;
    assert_eq!(sent_at_once(&mut relay, place), 0);
}
