use std::collections::BTreeMap;
use std::time::Duration;

use super::super::limits::{DISPLACEMENTS_BURST, DISPLACEMENTS_PER_SECOND};
use super::*;

const STREAMS_MAX: usize = 24;
const NAMES_MAX: usize = 300;
const BYTES_MAX: usize = 2_000;
const CAPACITY: Capacity = Capacity { streams_max: STREAMS_MAX, names_max: NAMES_MAX, bytes_max: BYTES_MAX };

fn holder(namespace: usize, account: usize) -> Holder {
    let id = format!("spiffe://cluster.local/ns/n{namespace}/sa/a{account}");
    Holder::Identity(id.parse().expect("a SPIFFE id"))
}

/// A stream of the account `account` in the namespace `namespace`.
struct Open {
    namespace: usize,
    account: usize,
    key: StreamKey,
    names: usize,
    bytes: usize,
    end: oneshot::Receiver<Displaced>,
}

impl Open {
    /// Opens a stream.
    fn try_new(ledger: &mut Ledger, namespace: usize, account: usize, now: Instant) -> Result<Self, Exhausted> {
        let (sender, end) = oneshot::channel();
        let key = ledger.open(holder(namespace, account), sender, now)?;
        Ok(Self { namespace, account, key, names: 0, bytes: 0, end })
    }
}

/// A stream that was displaced or is over, and whose bytes are still in memory.
struct Leaving {
    stream: Open,
    /// Whether it was displaced for its bytes.
    is_closing: bool,
}

/// What namespaces, or the accounts of one namespace, use.
type Uses = BTreeMap<usize, usize>;

/// Returns what each namespace uses.
fn by_namespace(open: &[Open], used: fn(&Open) -> usize) -> Uses {
    open.iter().fold(Uses::new(), |mut uses, stream| {
        *uses.entry(stream.namespace).or_default() += used(stream);
        uses
    })
}

/// Returns what each account of a namespace uses.
fn by_account(open: &[Open], namespace: usize, used: fn(&Open) -> usize) -> Uses {
    open.iter().filter(|stream| stream.namespace == namespace).fold(Uses::new(), |mut uses, stream| {
        *uses.entry(stream.account).or_default() += used(stream);
        uses
    })
}

/// A request for more of a resource.
struct Request {
    namespace: usize,
    account: usize,
    more: usize,
    resource: Resource,
    max: usize,
    used: fn(&Open) -> usize,
}

/// Removes the streams that the request has displaced, and checks the guarantee against what was in use before.
fn check(open: &mut Vec<Open>, leaving: &mut Vec<Leaving>, request: &Request, is_granted: bool) {
    let Request { namespace, account, more, resource, max, used } = *request;
    let mut namespaces = by_namespace(open, used);
    let mut accounts = by_account(open, namespace, used);
    // Only bytes are left of a stream that is leaving. They count, but cannot be displaced.
    let left = |of: &dyn Fn(&Open) -> bool| -> usize {
        let left = leaving.iter().filter(|left| resource == Resource::Bytes && of(&left.stream));
        left.map(|left| left.stream.bytes).sum()
    };
    let own_namespace = *namespaces.entry(namespace).or_default() + left(&|stream| stream.namespace == namespace);
    let is_of_account = |stream: &Open| (stream.namespace, stream.account) == (namespace, account);
    let own_account = *accounts.entry(account).or_default() + left(&is_of_account);
    if !is_granted {
        // A part that exceeds the request's own by as much as the request lacks would make room.
        let others = namespaces.iter().filter(|(other, _)| **other != namespace);
        assert!(others.clone().all(|(_, part)| *part < own_namespace + 2 * more), "{namespaces:?}");
        let others = accounts.iter().filter(|(other, _)| **other != account);
        assert!(others.clone().all(|(_, part)| *part < own_account + 2 * more), "{accounts:?}");
    }
    let has_equal_parts = resource != Resource::Bytes;
    if !is_granted && has_equal_parts {
        assert!((own_namespace + more) * namespaces.len() > max, "a namespace gets its equal part: {namespaces:?}");
        assert!((own_account + more) * accounts.len() > own_namespace, "an account gets its equal part: {accounts:?}");
    }
    let (mut displaced, mut kept) = (Vec::new(), Vec::new());
    for mut stream in std::mem::take(open) {
        match stream.end.try_recv() {
            Ok(why) => displaced.push((stream, why.resource)),
            Err(_) => kept.push(stream),
        }
    }
    *open = kept;
    assert!(is_granted || displaced.is_empty(), "a request that is refused displaces no stream");
    // The largest part of a namespace, or of an account, is displaced first. So even the last stream that is displaced
    // belongs to a namespace that had more than an equal part before, and so did the streams before it.
    for (stream, _) in &displaced {
        assert!(!is_of_account(stream), "an account displaces none of its own");
        if stream.namespace == namespace {
            let part = accounts[&stream.account];
            assert!(part > own_account + more, "only an account that uses more loses a stream: {accounts:?}");
            if has_equal_parts {
                assert!((own_namespace + more) * namespaces.len() > max, "only above its part does it turn on itself");
                assert!(part * accounts.len() > own_namespace, "an account keeps its equal part: {accounts:?}");
            }
        } else {
            let part = namespaces[&stream.namespace];
            assert!(part > own_namespace + more, "only a namespace that uses more loses a stream: {namespaces:?}");
            if has_equal_parts {
                assert!(part * namespaces.len() > max, "a namespace keeps its equal part: {namespaces:?}");
            }
        }
    }
    let left = |(stream, cause)| Leaving { stream, is_closing: cause == Resource::Bytes };
    leaving.extend(displaced.into_iter().map(left));
}

/// Takes the bytes of a stream that is leaving off the count.
fn release(ledger: &mut Ledger, Leaving { stream, .. }: Leaving) {
    ledger.over(&stream.key);
    ledger.remove(&stream.key, Resource::Bytes, stream.bytes);
}

#[test]
fn no_sequence_of_requests_takes_the_equal_part_of_a_namespace() {
    for seed in leno_testing::seeds(0..100) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut ledger = Ledger::new(CAPACITY);
        let (mut open, mut leaving) = (Vec::<Open>::new(), Vec::<Leaving>::new());
        // One namespace has many accounts, the others have few.
        let count = random.usize(1..5);
        let mut now = Instant::now();
        for _ in 0..2_000 {
            now += Duration::from_secs(3_600);
            let namespace = random.usize(..count);
            let accounts = if namespace == 0 { 30 } else { 2 };
            let account = random.usize(..accounts);
            match random.u8(..12) {
                0 | 1 if !open.is_empty() => {
                    let stream = open.swap_remove(random.usize(..open.len()));
                    ledger.remove(&stream.key, Resource::Names, stream.names);
                    ledger.remove(&stream.key, Resource::Streams, 1);
                    ledger.over(&stream.key);
                    leaving.push(Leaving { stream, is_closing: false });
                }
                2 | 3 if !leaving.is_empty() => {
                    release(&mut ledger, leaving.swap_remove(random.usize(..leaving.len())));
                }
                4..=9 if !open.is_empty() => {
                    let chosen = random.usize(..open.len());
                    let stream = &open[chosen];
                    let key = stream.key.clone();
                    let (namespace, account) = (stream.namespace, stream.account);
                    let is_of_names = random.bool();
                    let (resource, max) =
                        if is_of_names { (Resource::Names, NAMES_MAX) } else { (Resource::Bytes, BYTES_MAX) };
                    let used: fn(&Open) -> usize =
                        if is_of_names { |stream| stream.names } else { |stream| stream.bytes };
                    let more = if random.u8(..4) == 0 { random.usize(1..max) } else { random.usize(1..20) };
                    let request = Request { namespace, account, more, resource, max, used };
                    let taken = ledger.take(&key, resource, more, now);
                    check(&mut open, &mut leaving, &request, taken.is_ok());
                    if taken.is_ok() {
                        let stream = open.iter_mut().find(|stream| stream.key.id == key.id);
                        let stream = stream.expect("a request displaces no stream of its account");
                        *(if is_of_names { &mut stream.names } else { &mut stream.bytes }) += more;
                    }
                }
                _ => {
                    let opened = Open::try_new(&mut ledger, namespace, account, now);
                    let (resource, max) = (Resource::Streams, STREAMS_MAX);
                    let request = Request { namespace, account, more: 1, resource, max, used: |_| 1 };
                    check(&mut open, &mut leaving, &request, opened.is_ok());
                    open.extend(opened);
                }
            }
            let names: usize = open.iter().map(|stream| stream.names).sum();
            assert_eq!((ledger.used(Resource::Streams), ledger.used(Resource::Names)), (open.len(), names));
            assert!(open.len() <= STREAMS_MAX && names <= NAMES_MAX);
            let bytes = |left: &Leaving| left.stream.bytes;
            let staying: usize = open.iter().map(|stream| stream.bytes).sum();
            let left: usize = leaving.iter().map(bytes).sum();
            assert_eq!(ledger.used(Resource::Bytes), staying + left, "all bytes in memory count");
            let closing: usize = leaving.iter().filter(|left| left.is_closing).map(bytes).sum();
            assert!(staying + left - closing <= BYTES_MAX);
        }
        for stream in open {
            ledger.remove(&stream.key, Resource::Names, stream.names);
            ledger.remove(&stream.key, Resource::Streams, 1);
            leaving.push(Leaving { stream, is_closing: false });
        }
        for left in leaving {
            release(&mut ledger, left);
        }
        assert!(ledger.is_empty(), "nothing is left of streams that have ended");
    }
}

/// Opens a stream for which there is room.
fn opened(ledger: &mut Ledger, namespace: usize, account: usize) -> Open {
    Open::try_new(ledger, namespace, account, Instant::now()).expect("there is room")
}

#[test]
fn a_namespace_alone_may_use_everything() {
    let mut ledger = Ledger::new(CAPACITY);
    for number in 0..STREAMS_MAX {
        opened(&mut ledger, 0, number % 3);
    }
    let refused = Open::try_new(&mut ledger, 0, 0, Instant::now());
    assert!(refused.is_err(), "every account has an equal part");
}

#[test]
fn a_small_request_displaces_few_streams_after_the_mesh_has_grown() {
    let mut ledger = Ledger::new(CAPACITY);
    let large: Vec<Open> = (0..5).map(|_| opened(&mut ledger, 0, 0)).collect();
    let small = opened(&mut ledger, 1, 0);
    for stream in &large {
        ledger.add(&stream.key, Resource::Names, NAMES_MAX);
    }
    assert_eq!(ledger.take(&small.key, Resource::Names, 2, Instant::now()), Ok(()));
    let displaced = large.into_iter().filter_map(|mut stream| stream.end.try_recv().ok()).count();
    assert_eq!(displaced, 1);
}

#[test]
fn a_request_above_the_part_of_its_namespace_gets_the_part() {
    let mut ledger = Ledger::new(CAPACITY);
    let now = Instant::now();
    let mut large: Vec<Open> = (0..3).map(|_| opened(&mut ledger, 0, 0)).collect();
    for stream in &large {
        ledger.add(&stream.key, Resource::Names, NAMES_MAX / 3);
    }
    let small = opened(&mut ledger, 1, 0);
    let (taken, why) = ledger.take_most(&small.key, Resource::Names, NAMES_MAX, now);
    // Half of the names are an equal part. Two streams have to end for it, and leave a few more names.
    assert_eq!(taken, NAMES_MAX * 2 / 3);
    assert!(matches!(why, Some(Exhausted::Names { .. })), "{why:?}");
    assert_eq!(large.iter_mut().filter_map(|stream| stream.end.try_recv().ok()).count(), 2);
    assert_eq!(ledger.take_most(&small.key, Resource::Names, 1, now).0, 0);
}

#[test]
fn bytes_that_cannot_be_displaced_do_not_stop_a_request() {
    let mut ledger = Ledger::new(CAPACITY);
    let take =
        |ledger: &mut Ledger, stream: &Open, bytes| ledger.take(&stream.key, Resource::Bytes, bytes, Instant::now());
    // The task of this stream has ended. Its namespace uses the most.
    let unread = opened(&mut ledger, 0, 0);
    ledger.add(&unread.key, Resource::Bytes, 1_000);
    ledger.remove(&unread.key, Resource::Streams, 1);
    ledger.over(&unread.key);
    let mut reader = opened(&mut ledger, 1, 0);
    ledger.add(&reader.key, Resource::Bytes, 900);
    let small = opened(&mut ledger, 2, 0);
    assert_eq!(take(&mut ledger, &small, 300), Ok(()));
    assert!(reader.end.try_recv().is_ok());
    assert_eq!(ledger.used(Resource::Bytes), 2_200, "the bytes are in memory until the connection is closed");
    assert_eq!(take(&mut ledger, &small, 50), Ok(()), "the same bytes make room for the next request");
    assert!(take(&mut ledger, &small, 1_000).is_err(), "no other stream can be displaced");
    ledger.over(&reader.key);
    ledger.remove(&reader.key, Resource::Bytes, 900);
    ledger.remove(&unread.key, Resource::Bytes, 1_000);
    assert_eq!(take(&mut ledger, &small, 600), Ok(()));
}

#[test]
fn a_namespace_displaces_only_so_many_streams() {
    let capacity = Capacity { streams_max: 4_000, ..CAPACITY };
    let (mut ledger, now) = (Ledger::new(capacity), Instant::now());
    let mut open = |namespace, at| {
        let (sender, _end) = oneshot::channel();
        ledger.open(holder(namespace, 0), sender, at)
    };
    for _ in 0..capacity.streams_max {
        open(0, now).expect("there is room");
    }
    for _ in 0..DISPLACEMENTS_BURST {
        open(1, now).expect("a stream is displaced");
    }
    let refused = open(1, now).expect_err("its allowance is spent").to_string();
    assert!(refused.contains("streams_max = 4000 for all clients") && !refused.contains('\n'), "{refused}");
    open(2, now).expect("another namespace has its own allowance");
    let later = now + Duration::from_secs(2);
    for _ in 0..2 * DISPLACEMENTS_PER_SECOND {
        open(1, later).expect("a stream is displaced");
    }
    assert!(open(1, later).is_err());
}

#[test]
fn a_request_for_more_than_its_namespace_may_displace_gets_what_the_allowance_frees() {
    const NAMES: usize = 4_000;
    let burst = DISPLACEMENTS_BURST as usize;
    let capacity = Capacity { streams_max: 2 * NAMES, names_max: NAMES, ..CAPACITY };
    let (mut ledger, now) = (Ledger::new(capacity), Instant::now());
    let open = |ledger: &mut Ledger, namespace| {
        let (sender, end) = oneshot::channel();
        (ledger.open(holder(namespace, 0), sender, now).expect("there is room"), end)
    };
    let mut large: Vec<_> = (0..NAMES).map(|_| open(&mut ledger, 0)).collect();
    for (key, _) in &large {
        ledger.add(key, Resource::Names, 1);
    }
    let mut displaced = || large.iter_mut().filter_map(|(_, end)| end.try_recv().ok()).count();
    let (small, _end) = open(&mut ledger, 1);
    let refused = ledger.take(&small, Resource::Names, burst + 1, now);
    assert!(matches!(refused, Err(Exhausted::Displacements { .. })), "{refused:?}");
    assert_eq!((displaced(), ledger.used(Resource::Names)), (0, NAMES), "a refused request displaces no stream");
    let (taken, why) = ledger.take_most(&small, Resource::Names, burst + 1, now);
    assert_eq!(taken, burst);
    assert!(matches!(why, Some(Exhausted::Displacements { .. })), "{why:?}");
    assert_eq!((displaced(), ledger.used(Resource::Names)), (burst, NAMES));
    let (taken, why) = ledger.take_most(&small, Resource::Names, 1, now);
    assert_eq!((taken, displaced()), (0, 0));
    assert!(matches!(why, Some(Exhausted::Displacements { .. })), "{why:?}");
}
