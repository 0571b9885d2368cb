use std::sync::Arc;

use leno_accept::Source;

use super::{AccountId, AccountKey, Accounts, FIRST_LANE_OF_STRANGERS, Lane, OWN_LANES};
use crate::limits::RelayLimits;

fn address(last: u8) -> Option<AccountKey> {
    Some(AccountKey::Address(Source::of([10, 0, 0, last].into())))
}

#[test]
fn connections_of_one_address_are_one_account_and_those_of_our_application_are_not() {
    let mut accounts = Accounts::default();
    assert_eq!(accounts.enter(address(1)), accounts.enter(address(1)));
    assert_ne!(accounts.enter(address(1)), accounts.enter(address(2)));
    assert_ne!(accounts.enter(None), accounts.enter(None));
}

#[test]
fn callers_without_an_identity_share_no_connection_with_others() {
    let (mut accounts, relay) = (Accounts::default(), RelayLimits::default());
    let (stranger, own) = (accounts.enter(address(1)), accounts.enter(None));
    assert_eq!(accounts.lane(stranger, false, &relay), Lane::Unidentified);
    assert_eq!(accounts.lane(own, false, &relay), Lane::Shared);
}

#[test]
fn an_account_with_its_share_of_calls_gets_its_own_connections_for_the_rest() {
    let (mut accounts, relay) = (Accounts::default(), RelayLimits::default());
    let (greedy, modest) = (accounts.enter(None), accounts.enter(None));
    for _ in 0..relay.max_shared_calls_per_account {
        accounts.call_begun(greedy);
        assert_eq!(accounts.lane(greedy, false, &relay), Lane::Shared);
    }
    accounts.call_begun(greedy);
    assert_eq!(accounts.lane(greedy, false, &relay), Lane::Own(0));
    assert_eq!(accounts.lane(modest, false, &relay), Lane::Shared);
    accounts.call_ended(greedy);
    assert_eq!(accounts.lane(greedy, false, &relay), Lane::Shared);
}

#[test]
fn requests_that_are_still_coming_have_a_smaller_share() {
    let (mut accounts, relay) = (Accounts::default(), RelayLimits::default());
    let account = accounts.enter(None);
    for _ in 0..relay.max_shared_open_calls_per_account {
        assert_eq!(accounts.lane(account, true, &relay), Lane::Shared);
        accounts.request_open(account);
    }
    assert_eq!(accounts.lane(account, true, &relay), Lane::Own(0));
    assert_eq!(accounts.lane(account, false, &relay), Lane::Shared);
    accounts.request_ended(account);
    assert_eq!(accounts.lane(account, true, &relay), Lane::Shared);
}

#[test]
fn accounts_that_stand_out_have_a_lane_each_until_there_are_more_of_them_than_lanes() {
    let (mut accounts, relay) = (Accounts::default(), RelayLimits::default());
    let provoke = |accounts: &mut Accounts| {
        let account = accounts.enter(None);
        (0..=relay.max_shared_cancels_per_account).for_each(|_| accounts.cancelled(account, &relay));
        (account, accounts.lane(account, false, &relay))
    };
    let first: Vec<_> = (0..FIRST_LANE_OF_STRANGERS).map(|_| provoke(&mut accounts)).collect();
    let lanes: Vec<Lane> = first.iter().map(|(_, lane)| *lane).collect();
    assert_eq!(lanes, (0..FIRST_LANE_OF_STRANGERS as u8).map(Lane::Own).collect::<Vec<_>>());
    assert_eq!(provoke(&mut accounts).1, Lane::Own(0));
    accounts.leave(first[7].0);
    assert_eq!(provoke(&mut accounts).1, Lane::Own(7));
}

#[test]
fn callers_without_a_certificate_share_no_lane_with_others_however_many_stand_out() {
    let (mut accounts, relay) = (Accounts::default(), RelayLimits::default());
    let mut lanes_of = |keys: &mut dyn Iterator<Item = Option<AccountKey>>| {
        let lanes = keys.map(|key| {
            let account = accounts.enter(key);
            (0..=relay.max_shared_cancels_per_account).for_each(|_| accounts.cancelled(account, &relay));
            match accounts.lane(account, false, &relay) {
                Lane::Own(lane) => lane,
                lane => panic!("{lane:?}"),
            }
        });
        lanes.collect::<std::collections::BTreeSet<u8>>()
    };
    let strangers = lanes_of(&mut (0..100).map(address));
    let members = lanes_of(&mut (0..100).map(|number| {
        let id = format!("spiffe://example.org/ns/shop/sa/web-{number}").parse().expect("a SPIFFE id");
        Some(AccountKey::Identity(Arc::new(id)))
    }));
    let own = lanes_of(&mut (0..100).map(|_| None));
    assert!(strangers.is_disjoint(&members) && strangers.is_disjoint(&own));
    assert_eq!((strangers.len(), members.len()), (OWN_LANES - FIRST_LANE_OF_STRANGERS, FIRST_LANE_OF_STRANGERS));
}

#[test]
fn cancelling_now_and_then_is_no_reason() {
    let (mut accounts, relay) = (Accounts::default(), RelayLimits::default());
    let account = accounts.enter(None);
    for _ in 0..10 {
        (0..relay.max_shared_cancels_per_account).for_each(|_| accounts.cancelled(account, &relay));
        (0..100).for_each(|_| accounts.sweep());
    }
    assert_eq!(accounts.lane(account, false, &relay), Lane::Shared);
}

#[test]
fn callers_leave_calls_to_others_and_a_part_to_the_application() {
    let mut accounts = Accounts::default();
    let (stranger, own) = (accounts.enter(address(1)), accounts.enter(None));
    let id = "spiffe://example.org/ns/shop/sa/web".parse().expect("a SPIFFE id");
    let member = accounts.enter(Some(AccountKey::Identity(Arc::new(id))));
    for (account, most) in [(stranger, 25), (member, 25), (own, 100)] {
        assert_eq!(begin_all(&mut accounts, account, 0), most, "alone");
        (0..most).for_each(|_| accounts.call_ended(account));
    }
    accounts.call_begun(stranger);
    accounts.call_begun(member);
    assert!(!accounts.may_begin(Some(stranger), 50, 100), "members have a half that strangers cannot take");
    assert!(accounts.may_begin(Some(member), 50, 100) && !accounts.may_begin(Some(member), 75, 100));
    assert!(accounts.may_begin(None, 100, 100) && !accounts.may_begin(None, 101, 100));
}

/// Begins calls of an account until the account reaches its limit, and returns their number. `max_calls` is 100, and
/// `calls` calls are in flight before.
fn begin_all(accounts: &mut Accounts, account: AccountId, calls: usize) -> usize {
    let mut begun = 0;
    loop {
        accounts.call_begun(account);
        if !accounts.may_begin(Some(account), calls + begun + 1, 100) {
            accounts.call_ended(account);
            return begun;
        }
        begun += 1;
    }
}

#[test]
fn the_identities_of_a_namespace_leave_half_of_their_part_to_other_namespaces() {
    let mut accounts = Accounts::default();
    let enter = |accounts: &mut Accounts, workload: &str| {
        let id = format!("spiffe://example.org/ns/{workload}").parse().expect("a SPIFFE id");
        accounts.enter(Some(AccountKey::Identity(Arc::new(id))))
    };
    let crowd: Vec<_> = (0..50).map(|number| enter(&mut accounts, &format!("crowd/sa/{number}"))).collect();
    let mut calls = 0;
    for account in &crowd {
        calls += begin_all(&mut accounts, *account, calls);
    }
    assert_eq!(calls, 37, "half of three quarters of 100");
    let shop = enter(&mut accounts, "shop/sa/web");
    assert_eq!(begin_all(&mut accounts, shop, calls), 12);
    assert_eq!(accounts.call_entries()[1], ("calls of namespaces", 49));
    crowd.into_iter().chain([shop]).for_each(|account| accounts.leave(account));
    assert!(accounts.connection_entries().iter().chain(&accounts.call_entries()).all(|(_, entries)| *entries == 0));
}
