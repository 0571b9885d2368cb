use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Account, Accounts, Exhausted, Holder, Resource};
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

/// The number of streams of an account's holder.
fn streams(account: &Account) -> usize {
    account.accounts.lock().ledger.used_by_holder(&account.key, Resource::Streams)
}

/// Opens streams until the limit rejects a stream.
fn fill(accounts: &Arc<Accounts>, name: &str) -> Vec<Account> {
    std::iter::from_fn(|| open(accounts, name).ok()).collect()
}

#[tokio::test]
async fn a_holder_may_have_all_streams_until_another_needs_some() {
    let accounts = accounts(100, 1);
    let mut first = fill(&accounts, "first");
    assert_eq!(first.len(), 100);
    let refused = open(&accounts, "first").expect_err("there is no room").to_string();
    assert!(refused.starts_with("spiffe://cluster.local/ns/shop/sa/first has 100 streams"), "{refused}");
    assert!(refused.contains("streams_max = 100") && !refused.contains('\n'), "{refused}");

    let second = fill(&accounts, "second");
    assert_eq!((streams(&first[99]), second.len()), (50, 50));
    let displaced = first[0].displacement().wait().await.to_string();
    assert!(displaced.contains("streams_max = 100"), "{displaced}");
    assert!(displaced.contains("spiffe://cluster.local/ns/shop/sa/first had 100 of these"), "{displaced}");
    let youngest = tokio::time::timeout(Duration::from_millis(10), first[99].displacement().wait()).await;
    assert!(youngest.is_err(), "the oldest streams are displaced first");
    drop(first);
    assert_eq!(fill(&accounts, "third").len(), 50);
}

#[test]
fn however_many_identities_a_namespace_has_another_namespace_gets_an_equal_part() {
    let accounts = accounts(64, 64 * 15);
    let mut attackers: Vec<_> =
        (0..64).map(|number| open(&accounts, &number.to_string()).expect("there is room")).collect();
    for stream in &mut attackers {
        stream.take_names(15).expect("there is room");
    }
    let honest = Holder::Identity("spiffe://cluster.local/ns/honest/sa/web".parse().expect("a SPIFFE id"));
    let open_honest = || accounts.open(honest.clone(), [10, 0, 0, 2].into(), Instant::now());
    let mut first = open_honest().expect("a stream is displaced");
    assert_eq!(first.take_names(32 * 15), Ok(()));
    assert!(first.take_names(1).is_err(), "it would have more than the other namespace");
    let more: Vec<_> = std::iter::from_fn(|| open_honest().ok()).collect();
    assert_eq!(more.len(), 31);
}

#[test]
fn names_count_over_all_streams_of_an_identity_and_go_back_with_each_stream() {
    let accounts = accounts(100, 1_000);
    let mut streams = [(); 3].map(|()| open(&accounts, "web").expect("there is room"));
    for stream in &mut streams[..2] {
        assert_eq!(stream.take_names(200), Ok(()));
    }
    let refused = streams[2].take_names(601).expect_err("it would be 1,001 of 1,000");
    assert!(matches!(refused, Exhausted::Names { own: 400, max: 1_000, .. }), "{refused}");
    let mut other = open(&accounts, "other").expect("there is room");
    assert_eq!(other.take_names(300), Ok(()));
    let [first, _second, mut third] = streams;
    drop(first);
    assert_eq!(third.take_names(500), Ok(()));
}

#[test]
fn a_whole_meshs_names_follow_the_mesh() {
    let accounts = accounts(10, 100);
    let mut all = open(&accounts, "all").expect("there is room");
    assert_eq!(all.take_names(40), Ok(()));
    all.set_names(90);
    assert!(all.take_names(11).is_err());
    let mut other = open(&accounts, "other").expect("there is room");
    assert_eq!(other.take_names(10), Ok(()));
    all.set_names(10);
    assert_eq!(other.take_names(80), Ok(()));
}

#[test]
fn nothing_is_kept_of_a_holder_without_streams() {
    let accounts = accounts(10, 100);
    let mut one = open(&accounts, "one").expect("there is room");
    one.take_names(20).expect("there is room");
    drop(one);
    assert!(accounts.lock().ledger.is_empty());
}

#[test]
fn bytes_that_a_client_has_not_read_count_after_its_stream_has_ended() {
    let accounts = accounts(10, 1);
    let ended = open(&accounts, "one").expect("there is room");
    let unread = ended.hold(600);
    drop(ended);
    let other = open(&accounts, "other").expect("there is room");
    let _other_unread = other.hold(300);
    assert!(!other.may_send());
    drop(unread);
    assert!(other.may_send());
}

#[test]
fn who_leaves_responses_unread_gets_no_more_of_them_and_others_do() {
    let accounts = accounts(100, 1);
    let (slow, other) =
        (open(&accounts, "slow").expect("there is room"), open(&accounts, "other").expect("there is room"));
    let again = open(&accounts, "slow").expect("there is room");
    let unread = slow.hold(600);
    assert_eq!([&slow, &again, &other].map(Account::may_send), [false, false, true]);
    let mut request = other.hold_requests();
    assert_eq!(request.grow(400), Ok(()), "the slow client has more");
    let mut late = again.hold_requests();
    assert!(matches!(late.grow(1), Err(Exhausted::Bytes { own: 600, max: 1_000, .. })));
    drop(unread);
    assert!(slow.may_send());
    assert_eq!(request.grow(500), Ok(()));
    assert!(matches!(request.grow(501), Err(Exhausted::Bytes { own: 500, max: 1_000, .. })));
}

/// The buffers of requests are counted for the life of their streams.
#[test]
fn an_identity_gets_responses_however_many_bytes_its_own_requests_take() {
    for bytes in [334, 500] {
        let accounts = accounts(100, 1);
        let reader = open(&accounts, "reader").expect("there is room");
        let again = open(&accounts, "reader").expect("there is room");
        let other = open(&accounts, "other").expect("there is room");
        let mut request = reader.hold_requests();
        assert_eq!(request.grow(bytes), Ok(()));
        let may_send = || [&reader, &again, &other].map(Account::may_send);
        assert_eq!(may_send(), [true; 3], "{bytes} bytes");
        let unread = again.hold(300);
        assert_eq!(may_send(), [false, false, true], "only unread responses count: {bytes} bytes");
        drop(unread);
        assert_eq!(may_send(), [true; 3], "{bytes} bytes");
        drop((request, reader, again, other));
        assert!(accounts.lock().ledger.is_empty());
    }
}

#[test]
fn however_many_identities_leave_responses_unread_other_namespaces_keep_half_of_the_bytes() {
    let accounts = accounts(100, 1);
    let honest = Holder::Identity("spiffe://cluster.local/ns/honest/sa/web".parse().expect("a SPIFFE id"));
    let honest = accounts.open(honest, [10, 0, 0, 2].into(), Instant::now()).expect("there is room");
    let attackers: Vec<_> =
        (0..50).map(|number| open(&accounts, &number.to_string()).expect("there is room")).collect();
    let mut unread = Vec::new();
    for _ in 0..50 {
        unread.extend(attackers.iter().filter(|stream| stream.may_send()).map(|stream| stream.hold(20)));
    }
    assert_eq!(unread.len(), 26, "half of the bytes, and the latest response");
    let mut received = Vec::new();
    while honest.may_send() {
        received.push(honest.hold(20));
    }
    assert!(received.len() >= 8, "a third of what is left: {}", received.len());
}

#[test]
fn an_identity_without_unread_bytes_gets_a_response_while_other_namespaces_leave_nothing_free() {
    let accounts = accounts(100, 1);
    let of = |namespace: &str, name: &str| {
        let id = format!("spiffe://cluster.local/ns/{namespace}/sa/{name}").parse().expect("a SPIFFE id");
        accounts.open(Holder::Identity(id), [10, 0, 0, 2].into(), Instant::now()).expect("there is room")
    };
    let (slow, web, mail) = (of("slow", "slow"), of("honest", "web"), of("honest", "mail"));
    let _unread = slow.hold(1_000);
    let _first = web.hold(500);
    assert_eq!([&slow, &web, &mail].map(Account::may_send), [false, false, true]);
    let _second = mail.hold(1);
    let late = of("honest", "late");
    assert!(!late.may_send(), "the namespace has more than an equal part");
}

#[test]
fn however_many_namespaces_leave_responses_unread_they_take_at_most_twice_the_limit() {
    let accounts = accounts(1_000, 1);
    let (mut streams, mut unread) = (Vec::new(), Vec::new());
    // The namespaces come one after another, so that the earlier ones have more than an equal part.
    for number in 0..400 {
        let (namespace, name) = (number / 20, number % 20);
        let id = format!("spiffe://cluster.local/ns/n{namespace}/sa/s{name}").parse().expect("a SPIFFE id");
        let stream = accounts.open(Holder::Identity(id), [10, 0, 0, 2].into(), Instant::now());
        streams.push(stream.expect("there is room"));
        unread.extend(streams.iter().filter(|stream| stream.may_send()).map(|stream| stream.hold(100)));
    }
    let used = accounts.lock().ledger.used(Resource::Bytes);
    assert!((1_900..=2_100).contains(&used), "{used}");
}

#[tokio::test]
async fn a_request_that_finds_no_room_displaces_a_stream_whose_client_does_not_read() {
    let accounts = accounts(10, 1);
    let mut slow = open(&accounts, "slow").expect("there is room");
    let other = open(&accounts, "other").expect("there is room");
    let unread = slow.hold(1_000);
    let mut request = other.hold_requests();
    assert_eq!(request.grow(300), Ok(()));
    let displaced = slow.displacement().wait().await.to_string();
    assert!(displaced.contains("bytes_max = 1000"), "{displaced}");
    let used = || accounts.lock().ledger.used(Resource::Bytes);
    assert_eq!(used(), 1_300, "the unread bytes are still in memory");
    assert_eq!(request.grow(400), Ok(()), "the connection of the slow client closes");
    drop(slow);
    assert_eq!(used(), 1_400);
    drop(unread);
    assert_eq!(used(), 400);
}

#[test]
fn the_bytes_of_a_stream_that_is_displaced_for_a_stream_count_until_they_are_read() {
    let accounts = accounts(2, 1);
    let slow = [(); 2].map(|()| open(&accounts, "slow").expect("there is room"));
    let unread = slow[0].hold(600);
    let other = open(&accounts, "other").expect("a stream is displaced");
    assert_eq!(streams(&slow[0]), 1);
    let late = slow[0].hold(100);
    let used = || accounts.lock().ledger.used(Resource::Bytes);
    assert_eq!(used(), 700);
    let mut request = other.hold_requests();
    assert!(request.grow(400).is_err(), "a stream is displaced only once");
    drop(slow);
    assert_eq!(used(), 700);
    drop((unread, late));
    assert_eq!(request.grow(400), Ok(()));
    drop((request, other));
    assert!(accounts.lock().ledger.is_empty());
}

#[test]
fn names_of_a_displaced_stream_do_not_count_again() {
    let accounts = accounts(2, 100);
    let mut slow = [(); 2].map(|()| open(&accounts, "slow").expect("there is room"));
    slow[0].take_names(10).expect("there is room");
    let _other = open(&accounts, "other").expect("a stream is displaced");
    let used = || accounts.lock().ledger.used(Resource::Names);
    assert_eq!(used(), 0);
    slow[0].take_names(5).expect("it ends soon");
    slow[0].set_names(20);
    assert_eq!(used(), 0);
    slow[1].take_names(7).expect("there is room");
    let [displaced, _still_open] = slow;
    drop(displaced);
    assert_eq!(used(), 7);
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
