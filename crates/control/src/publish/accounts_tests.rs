use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Account, Accounts, Exhausted, Holder};
use crate::publish::limits::{ASKED_BURST_BYTES, Capacity, READ_BURST_BYTES, READ_BYTES_PER_STREAM};

fn accounts(streams_max: usize, names_max: usize) -> Arc<Accounts> {
    Accounts::new(Capacity { streams_max, names_max, bytes_max: 1_000 })
}

fn holder(name: &str) -> Holder {
    Holder::Identity(format!("spiffe://cluster.local/ns/shop/sa/{name}").parse().expect("a SPIFFE id"))
}

fn open(accounts: &Arc<Accounts>, name: &str) -> Result<Account, Exhausted> {
    let address: IpAddr = [10, 0, 0, 1].into();
    accounts.open(holder(name), address, Instant::now())
}

/// Opens streams until the limit rejects a stream.
fn fill(accounts: &Arc<Accounts>, name: &str) -> Vec<Account> {
    std::iter::from_fn(|| open(accounts, name).ok()).collect()
}

#[test]
fn a_holder_has_as_many_streams_as_it_leaves_to_others() {
    let accounts = accounts(1_000, 1);
    let first = fill(&accounts, "first");
    let second = fill(&accounts, "second");
    let third = fill(&accounts, "third");
    assert_eq!([first.len(), second.len(), third.len()], [500, 250, 125]);
    let refused = open(&accounts, "first").expect_err("it has its part").to_string();
    assert!(refused.starts_with("spiffe://cluster.local/ns/shop/sa/first has 500 streams"), "{refused}");
    assert!(refused.contains("streams_max = 1000") && !refused.contains('\n'), "{refused}");
    drop(first);
    assert_eq!(fill(&accounts, "fourth").len(), 312);
}

#[test]
fn names_count_over_all_streams_of_an_identity_and_go_back_with_each_stream() {
    let accounts = accounts(100, 1_000);
    let mut streams = [(); 3].map(|()| open(&accounts, "web").expect("there is room"));
    for stream in &mut streams[..2] {
        assert_eq!(stream.take_names(200), Ok(()));
    }
    let refused = streams[2].take_names(200).expect_err("it would be 600 of 1,000");
    assert!(matches!(refused, Exhausted::Names { own: 400, max: 1_000, .. }), "{refused}");
    let mut other = open(&accounts, "other").expect("there is room");
    assert_eq!(other.take_names(300), Ok(()));
    let [first, _second, mut third] = streams;
    drop(first);
    assert_eq!(third.take_names(150), Ok(()));
}

#[test]
fn a_whole_meshs_names_follow_the_mesh() {
    let accounts = accounts(10, 100);
    let mut all = open(&accounts, "all").expect("there is room");
    assert_eq!(all.take_names(40), Ok(()));
    all.set_names(90);
    let mut other = open(&accounts, "other").expect("there is room");
    assert!(other.take_names(6).is_err());
    assert_eq!(other.take_names(5), Ok(()));
    all.set_names(10);
    assert_eq!(other.take_names(30), Ok(()));
}

#[test]
fn nothing_is_kept_of_a_holder_without_streams() {
    let accounts = accounts(10, 100);
    let mut one = open(&accounts, "one").expect("there is room");
    one.take_names(20).expect("there is room");
    drop(one);
    let inner = accounts.lock();
    assert_eq!((inner.holders.len(), inner.all.streams, inner.all.names), (0, 0, 0));
}

#[test]
fn who_leaves_responses_unread_gets_no_more_of_them_and_others_do() {
    let accounts = accounts(100, 1);
    let (slow, other) =
        (open(&accounts, "slow").expect("there is room"), open(&accounts, "other").expect("there is room"));
    let again = open(&accounts, "slow").expect("there is room");
    let unread = slow.hold(600);
    assert_eq!([&slow, &again, &other].map(Account::may_send), [false, false, true]);
    let mut request = other.hold(0);
    assert_eq!(request.grow(200), Ok(()));
    assert!(matches!(request.grow(201), Err(Exhausted::Bytes { own: 200, max: 1_000, .. })));
    drop(unread);
    assert!(slow.may_send());
    assert_eq!(request.grow(500), Ok(()));
}

#[test]
fn what_a_holder_has_spent_stays_spent_after_its_last_stream_until_time_has_filled_the_purse() {
    let accounts = accounts(10, 100);
    let now = Instant::now();
    let address = [10, 0, 0, 1].into();
    let open = |name, at| accounts.open(holder(name), address, at).expect("there is room");
    let first = open("web", now);
    first.paces().asked.spend(2 * ASKED_BURST_BYTES as usize, now);
    drop(first);
    let second = open("web", now);
    assert!(second.paces().asked.wait(now).is_some(), "a new stream is no new purse");
    assert_eq!(open("other", now).paces().asked.wait(now), None);
    drop(second);
    let later = now + Duration::from_secs(3_600);
    drop(open("third", later));
    drop(open("third", later));
    assert_eq!(accounts.lock().sources.count(), 1, "only of the third");
}

#[test]
fn each_stream_that_is_opened_is_paid_for() {
    let accounts = accounts(10, 100);
    let now = Instant::now();
    let opened = READ_BURST_BYTES as usize / READ_BYTES_PER_STREAM;
    let open = || accounts.open(holder("web"), [10, 0, 0, 1].into(), now).expect("there is room");
    for _ in 0..opened {
        assert_eq!(open().paces().read.wait(now), None);
    }
    assert!(open().paces().read.wait(now).is_some());
}
