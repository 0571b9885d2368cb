use std::collections::BTreeMap;

use super::*;

const STREAMS_MAX: usize = 24;
const NAMES_MAX: usize = 300;
const CAPACITY: Capacity = Capacity { streams_max: STREAMS_MAX, names_max: NAMES_MAX, bytes_max: 0 };

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
    end: oneshot::Receiver<Displaced>,
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
    max: usize,
    used: fn(&Open) -> usize,
}

/// Removes the streams that the request has displaced, and checks the guarantee against what was in use before.
fn check(open: &mut Vec<Open>, request: &Request, is_granted: bool) {
    let Request { namespace, account, more, max, used } = *request;
    let mut namespaces = by_namespace(open, used);
    let mut accounts = by_account(open, namespace, used);
    let own_namespace = *namespaces.entry(namespace).or_default();
    let own_account = *accounts.entry(account).or_default();
    if !is_granted {
        assert!((own_namespace + more) * namespaces.len() > max, "a namespace gets its equal part: {namespaces:?}");
        assert!((own_account + more) * accounts.len() > own_namespace, "an account gets its equal part: {accounts:?}");
    }
    let (mut displaced, mut kept) = (Vec::new(), Vec::new());
    for mut stream in std::mem::take(open) {
        let is_displaced = stream.end.try_recv().is_ok();
        let group = if is_displaced { &mut displaced } else { &mut kept };
        group.push(stream);
    }
    *open = kept;
    assert!(is_granted || displaced.is_empty(), "a request that is refused displaces no stream");
    // The largest part of a namespace, or of an account, is displaced first. So even the last stream that is displaced
    // belongs to a namespace that had more than an equal part before, and so did the streams before it.
    for stream in &displaced {
        assert!((stream.namespace, stream.account) != (namespace, account), "an account displaces none of its own");
        if stream.namespace == namespace {
            assert!((own_namespace + more) * namespaces.len() > max, "only above its part does it turn on itself");
            let part = accounts[&stream.account];
            assert!(part * accounts.len() > own_namespace, "an account keeps its equal part: {accounts:?}");
        } else {
            let part = namespaces[&stream.namespace];
            assert!(part * namespaces.len() > max, "a namespace keeps its equal part: {namespaces:?}");
        }
    }
}

#[test]
fn no_sequence_of_requests_takes_the_equal_part_of_a_namespace() {
    for seed in leno_testing::seeds(0..100) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut ledger = Ledger::default();
        let mut open: Vec<Open> = Vec::new();
        // One namespace has many accounts, the others have few.
        let count = random.usize(1..5);
        for _ in 0..2_000 {
            let namespace = random.usize(..count);
            let accounts = if namespace == 0 { 30 } else { 2 };
            let account = random.usize(..accounts);
            match random.u8(..8) {
                0 | 1 if !open.is_empty() => {
                    let stream = open.swap_remove(random.usize(..open.len()));
                    ledger.remove(&stream.key, Resource::Names, stream.names);
                    ledger.remove(&stream.key, Resource::Streams, 1);
                }
                2..=4 if !open.is_empty() => {
                    let chosen = random.usize(..open.len());
                    let more = if random.u8(..4) == 0 { random.usize(1..NAMES_MAX) } else { random.usize(1..20) };
                    let stream = &open[chosen];
                    let key = stream.key.clone();
                    let (namespace, account) = (stream.namespace, stream.account);
                    let request = Request { namespace, account, more, max: NAMES_MAX, used: |stream| stream.names };
                    let taken = ledger.take(&key, Resource::Names, more, &CAPACITY);
                    check(&mut open, &request, taken.is_ok());
                    if taken.is_ok() {
                        let stream = open.iter_mut().find(|stream| stream.key.id == key.id);
                        stream.expect("a request displaces no stream of its account").names += more;
                    }
                }
                _ => {
                    let (sender, end) = oneshot::channel();
                    let opened = ledger.open(holder(namespace, account), sender, &CAPACITY);
                    let request = Request { namespace, account, more: 1, max: STREAMS_MAX, used: |_| 1 };
                    check(&mut open, &request, opened.is_ok());
                    open.extend(opened.map(|key| Open { namespace, account, key, names: 0, end }));
                }
            }
            let names: usize = open.iter().map(|stream| stream.names).sum();
            assert_eq!((ledger.used(Resource::Streams), ledger.used(Resource::Names)), (open.len(), names));
            assert!(open.len() <= STREAMS_MAX && names <= NAMES_MAX);
        }
        for stream in open {
            ledger.remove(&stream.key, Resource::Names, stream.names);
            ledger.remove(&stream.key, Resource::Streams, 1);
        }
        assert!(ledger.is_empty(), "nothing is left of streams that have ended");
    }
}

#[test]
fn a_namespace_alone_may_use_everything() {
    let mut ledger = Ledger::default();
    for number in 0..STREAMS_MAX {
        let (sender, _end) = oneshot::channel();
        ledger.open(holder(0, number % 3), sender, &CAPACITY).expect("there is room");
    }
    let (sender, _end) = oneshot::channel();
    assert!(ledger.open(holder(0, 0), sender, &CAPACITY).is_err(), "every account has an equal part");
}

#[test]
fn a_small_request_displaces_few_streams_after_the_mesh_has_grown() {
    let mut ledger = Ledger::default();
    let mut open = |namespace| {
        let (sender, end) = oneshot::channel();
        (ledger.open(holder(namespace, 0), sender, &CAPACITY).expect("there is room"), end)
    };
    let (large, small) = ([(); 5].map(|()| open(0)), open(1));
    for (key, _) in &large {
        ledger.add(key, Resource::Names, NAMES_MAX);
    }
    assert_eq!(ledger.take(&small.0, Resource::Names, 2, &CAPACITY), Ok(()));
    let displaced = large.into_iter().filter_map(|(_, mut end)| end.try_recv().ok()).count();
    assert_eq!(displaced, 1);
}
