use std::time::Instant;

use leno_accept::Source;
use leno_http2::{Connection, Role};

use super::*;
use crate::downstream::origin::{Door, Origin};
use crate::limits::Limits;
use crate::link::Link;
use crate::link::codec::Codec;

fn client(account: AccountId) -> Client {
    let now = Instant::now();
    let codec = Codec::Http2(Connection::new(Role::Server, Limits::default().client, now));
    let address = "10.0.0.1:80".parse().expect("an address");
    let origin = Origin { door: Door::Inbound, peer: address, local: address, original_destination: None };
    Client::new(Link::new(None, codec, now), origin, None, None, account)
}

fn account() -> Option<AccountKey> {
    Some(AccountKey::Address(Source::of([10, 0, 0, 1].into())))
}

#[test]
fn clients_of_one_account_share_it_until_the_last_has_gone() {
    let mut downstreams = Downstreams::default();
    let [first, second] = [(); 2].map(|()| downstreams.add(account(), client));
    let shared = downstreams.get(first).map(|client| client.account);
    assert_eq!(downstreams.get(second).map(|client| client.account), shared);
    downstreams.call_begun(first, StreamKey::numbered(1), 0, 100);
    downstreams.remove(first);
    assert!(!downstreams.may_begin(Some(second), 2, 4), "the account still has a call");
    downstreams.remove(second);
    let third = downstreams.add(account(), client);
    assert!(downstreams.may_begin(Some(third), 2, 4), "a new account of the same address");
    assert_ne!(downstreams.get(third).map(|client| client.account), shared);
    downstreams.remove(third);
    assert!(downstreams.call_entries().chain(downstreams.connection_entries()).all(|(_, entries)| entries == 0));
}

#[test]
fn what_a_client_has_in_flight_is_taken_back_once() {
    let mut downstreams = Downstreams::default();
    let id = downstreams.add(account(), client);
    let relay = Limits::default().relay;
    downstreams.call_begun(id, StreamKey::numbered(1), 0, 300);
    downstreams.call_begun(id, StreamKey::numbered(1), 0, 50);
    downstreams.call_cancelled(Some(id), true, &relay);
    downstreams.call_ended(Some(id), StreamKey::numbered(1), (300, 0), false);
    downstreams.cancelled_call_is_over(Some(id));
    downstreams.cancelled_call_is_over(Some(id));
    let counts = |downstreams: &Downstreams| {
        let client = downstreams.get(id).expect("a client");
        (client.fields_bytes, client.cancelled_calls)
    };
    assert_eq!(counts(&downstreams), (50, 0));
    downstreams.call_ended(None, StreamKey::numbered(1), (50, 0), false);
    assert_eq!(counts(&downstreams), (50, 0), "a copy of a request has no client");
}
