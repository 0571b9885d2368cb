use std::sync::Arc;

use leno_http2::{Connection, FieldSection, Role};

use super::*;
use crate::SWEEP_EVERY;
use crate::downstream::client::Speaks;
use crate::effect::Effect;
use crate::fixtures::{connect, mesh_of, outbound, relay, service};
use crate::slots::Id;

/// Returns a relay whose client has a call with an incomplete request in flight, and the place of the call.
fn with_open_call() -> (Relay, (CallId, UpstreamId, StreamKey)) {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let now = relay.now;
    let mut caller = Connection::new(Role::Client, Arc::new(leno_http2::Limits::client()), now);
    let mut request = FieldSection::new();
    for (name, value) in [(":method", "POST"), (":scheme", "http"), (":authority", "cart.shop"), (":path", "/")] {
        request.push(name.as_bytes(), value.as_bytes());
    }
    caller.open(now, 0, &request, false).expect("a stream");
    let origin = outbound();
    let client = connect(&mut relay, 0, origin, None, (Speaks::Http2, caller.output().to_vec()));
    relay.begin_read(LinkId::Client(client));
    relay.dispatch();
    for effect in relay.take_effects() {
        if let Effect::Connect { upstream, address, .. } = effect {
            relay.attach_upstream(upstream, Id::numbered(1), address);
            relay.connected(upstream);
            let mut server = Connection::new(Role::Server, Arc::new(leno_http2::Limits::server()), now);
            let mut fields = FieldSection::new();
            let preface = relay.link(LinkId::Endpoint(upstream)).expect("it is open").output().to_vec();
            server.receive(now, &mut &preface[..], &mut fields).expect("a preface");
            relay.receive(LinkId::Endpoint(upstream), server.output());
        }
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
