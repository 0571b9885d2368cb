use leno_http1::Heads;
use leno_http2::{Connection, FieldSection, Role};
use leno_model::balance::{Balancer, EndpointId, Policy};

use super::*;
use crate::downstream::accounts::Lane;
use crate::fixtures::fields;
use crate::limits::Limits;
use crate::link::Link;
use crate::link::codec::Codec;
use crate::link::opaque::Opaque;
use crate::pool::hop::{Hop, Protocol};
use crate::pool::liveness::{Check, SILENT_AFTER, Seen};
use crate::pool::upstream::Place;

fn endpoint(now: Instant) -> EndpointId {
    let mut balancer = Balancer::new(Policy::Random, 1);
    balancer.set_endpoints(now, ["10.0.0.1:80".parse().expect("an address")]);
    balancer.endpoints().next().expect("an endpoint").0
}

fn pool(protocol: Protocol, now: Instant) -> Pool {
    let key = PoolKey::new(endpoint(now), Hop::Plain(protocol), Lane::Shared);
    Pool::new(ClusterId::numbered(0), key, "10.0.0.1:80".parse().expect("an address"))
}

/// Returns a connection of a pool.
pub(crate) fn upstream(pools: &Pools, id: PoolId, now: Instant) -> Upstream {
    let pool = pools.get(id).expect("a pool");
    let limits = Limits::default();
    let codec = match pool.key.hop {
        Hop::Plain(Protocol::Opaque) => Codec::Opaque(Opaque::opened()),
        _ => Codec::Http2(Connection::new(Role::Client, limits.endpoint.clone(), now)),
    };
    let place = Place { cluster: pool.cluster, pool: id, key: pool.key };
    Upstream::new(place, pool.address, codec, now, &limits.relay)
}

/// Sends a call at `start` and a PING at `now` on a connection. The server sends nothing.
pub(crate) fn let_doubt(pools: &mut Pools, connection: UpstreamId, start: Instant, now: Instant) {
    let liveness = &mut pools.upstream_mut(connection).expect("it is open").liveness;
    liveness.call_sent(start, start);
    let seen = Seen { last_read: start, is_idle: false, is_avoidable: true, highest_with_content: 0 };
    assert_eq!(liveness.check(now, seen, &RelayLimits::default()), Check::Ping);
}

#[test]
fn the_connections_that_are_being_established_are_counted_however_they_end() {
    let now = Instant::now();
    let mut pools = Pools::default();
    let id = pools.insert(pool(Protocol::Http2, now));
    let connections: Vec<UpstreamId> = (0..4)
        .map(|_| {
            let upstream = upstream(&pools, id, now);
            pools.add(upstream)
        })
        .collect();
    let counts = |pools: &Pools| {
        let pool = pools.get(id).expect("a pool");
        (pool.connecting(), pool.connections().len())
    };
    assert_eq!(counts(&pools), (4, 4));
    pools.note_ready(connections[0]);
    pools.note_ready(connections[0]);
    assert_eq!(counts(&pools), (3, 4), "ready once");
    pools.retire(connections[1]);
    pools.retire(connections[1]);
    assert_eq!(counts(&pools), (2, 3), "retired before it was ready");
    pools.note_ready(connections[1]);
    assert_eq!(counts(&pools), (2, 3), "a retired one no longer counts");
    assert!(pools.end(connections[2]).is_some() && pools.end(connections[2]).is_none());
    assert_eq!(counts(&pools), (1, 2));
    pools.retire(connections[0]);
    pools.end(connections[3]);
    assert_eq!(counts(&pools), (0, 0));
    assert_eq!(pools.upstreams().count(), 2, "retired ones end later");
    let entries = |pools: &Pools| pools.connection_entries().iter().map(|(_, entries)| entries).sum::<usize>();
    assert_eq!(entries(&pools), 2);
    connections.iter().for_each(|connection| drop(pools.end(*connection)));
    assert_eq!(entries(&pools), 0);
}

#[test]
fn an_unshared_connection_is_found_while_it_is_free() {
    let now = Instant::now();
    let mut pools = Pools::default();
    let id = pools.insert(pool(Protocol::Opaque, now));
    let connection = upstream(&pools, id, now);
    let connection = pools.add(connection);
    assert_eq!(pools.find(id, CallSize::Open, now), None, "it is being established");
    pools.note_ready(connection);
    pools.note_room(connection);
    assert_eq!(pools.find(id, CallSize::Open, now), Some(connection));
    pools.retire(connection);
    pools.note_room(connection);
    assert_eq!(pools.find(id, CallSize::Open, now), None);
}

/// Returns an HTTP/1 connection of a pool whose server has answered a call, and keeps idle connections for 5 s.
fn kept_for_5_s(pools: &Pools, id: PoolId, now: Instant) -> Upstream {
    let mut http1 = leno_http1::Connection::new(Role::Client, Limits::default().http1_endpoint.clone(), now);
    let mut heads = Heads::default();
    let request = fields(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")]);
    http1.open(now, 0, &request, true, &mut heads).expect("a new connection takes a request");
    let sent = http1.output().len();
    http1.advance_output(sent);
    let mut response = &b"HTTP/1.1 200 OK\r\nkeep-alive: timeout=5\r\ncontent-length: 0\r\n\r\n"[..];
    let mut section = FieldSection::new();
    while http1.receive(now, &mut response, &mut section, &mut heads).expect("a valid response").is_some() {}
    Upstream { link: Link::new(None, Codec::Http1(http1), now), ..upstream(pools, id, now) }
}

#[test]
fn idle_connections_that_their_server_will_soon_close_leave_the_pool_when_a_call_meets_them() {
    let now = Instant::now();
    let mut pools = Pools::default();
    let id = pools.insert(pool(Protocol::Http1, now));
    let connections = [(); 3].map(|()| {
        let connection = kept_for_5_s(&pools, id, now);
        let connection = pools.add(connection);
        pools.note_ready(connection);
        pools.note_room(connection);
        connection
    });
    assert_eq!(pools.find(id, CallSize::Open, now + Duration::from_millis(3_999)), Some(connections[2]));
    assert_eq!(pools.get(id).expect("a pool").connections().len(), 3);
    assert_eq!(pools.find(id, CallSize::Open, now + Duration::from_secs(4)), None);
    let left = pools.get(id).expect("a pool").connections();
    assert!(left.is_empty() && left.free().next().is_none(), "the next call does not meet them");
    let is_retired = |connection: &UpstreamId| pools.upstream(*connection).is_some_and(|upstream| upstream.retired);
    assert!(connections.iter().all(is_retired), "a sweep closes them");
}

#[test]
fn a_call_gets_a_connection_whose_server_has_answered_a_ping_if_there_is_one() {
    let start = Instant::now();
    let mut pools = Pools::default();
    let id = pools.insert(pool(Protocol::Http2, start));
    let [oldest, other] = [(); 2].map(|()| {
        let upstream = upstream(&pools, id, start);
        let connection = pools.add(upstream);
        pools.note_ready(connection);
        connection
    });
    let small = CallSize::Complete(0);
    assert_eq!(pools.find(id, small, start), Some(oldest));

    let now = start + SILENT_AFTER;
    for connection in [oldest, other] {
        let_doubt(&mut pools, connection, start, now);
    }
    assert!(pools.is_doubtful(id));
    assert_eq!(pools.find(id, small, now), Some(oldest), "both servers are silent");
    pools.upstream_mut(other).expect("it is open").link.last_read = now + Duration::from_millis(1);
    assert!(!pools.is_doubtful(id));
    assert_eq!(pools.find(id, small, now), Some(other));
}

#[test]
fn a_pool_whose_connections_are_all_in_use_for_good_backs_off() {
    let now = Instant::now();
    let mut pools = Pools::default();
    let id = pools.insert(pool(Protocol::Opaque, now));
    let connection = upstream(&pools, id, now);
    let connection = pools.add(connection);
    pools.note_ready(connection);
    pools.note_room(connection);
    let back_off = |pools: &mut Pools| {
        let pool = pools.get_mut(id).expect("a pool");
        pool.back_off(now, "refused".to_owned(), 0, &RelayLimits::default());
        pool.is_backing_off(now)
    };
    assert!(!back_off(&mut pools), "a connection is free");
    let codec = &mut pools.upstream_mut(connection).expect("it is there").link.codec;
    codec.open(now, 0, &FieldSection::new(), false, &mut Heads::default()).expect("it is free");
    pools.note_room(connection);
    assert!(back_off(&mut pools));
}

#[test]
fn a_shared_connection_that_takes_no_more_calls_leaves_its_pool() {
    let now = Instant::now();
    let mut pools = Pools::default();
    let id = pools.insert(pool(Protocol::Http2, now));
    let connection = upstream(&pools, id, now);
    let connection = pools.add(connection);
    pools.note_ready(connection);
    pools.note_room(connection);
    assert_eq!(pools.get(id).expect("a pool").connections().len(), 1);
    // As if all stream identifiers were used up.
    pools.upstream_mut(connection).and_then(|upstream| upstream.link.codec.http2()).expect("HTTP/2").shut_down();
    pools.note_room(connection);
    assert!(pools.get(id).expect("a pool").connections().is_empty());
    assert!(pools.upstream(connection).expect("its calls go on").retired);
}

#[test]
fn an_unused_pool_forgets_its_failures_after_a_while() {
    const AFTER: Duration = Duration::from_secs(10);
    let now = Instant::now();
    let mut pools = Pools::default();
    let id = pools.insert(pool(Protocol::Http2, now));
    let pool = pools.get_mut(id).expect("a pool");
    pool.back_off(now, "refused".to_owned(), 0, &RelayLimits::default());
    let retry_at = pool.retry_at().expect("a pause");
    pool.forget_old_failures(retry_at + AFTER - Duration::from_millis(1), AFTER);
    assert!(pool.failures == 1 && pool.may_be_busy());
    let turn = pools.join(id, AttemptId::numbered(1), true);
    pools.get_mut(id).expect("a pool").forget_old_failures(retry_at + AFTER, AFTER);
    pools.leave(id, turn);
    let pool = pools.get_mut(id).expect("a pool");
    assert_eq!(pool.failures, 1, "an attempt waited");
    pool.forget_old_failures(retry_at + AFTER, AFTER);
    assert!(pool.failures == 0 && !pool.may_be_busy() && pool.last_error.is_empty());
}

#[test]
fn connections_that_fail_together_are_one_failure() {
    let now = Instant::now();
    let (mut pool, relay) = (pool(Protocol::Http1, now), RelayLimits::default());
    pool.back_off(now, "refused".to_owned(), 0, &relay);
    let first = pool.retry_at();
    (0..8).for_each(|_| pool.back_off(now, "refused".to_owned(), 0, &relay));
    assert_eq!(pool.retry_at(), first);
    let later = first.expect("a pause");
    pool.back_off(later, "refused".to_owned(), 0, &relay);
    assert_eq!(pool.retry_at(), Some(later + 2 * (later - now)));
}

#[test]
fn pools_are_listed_while_attempts_wait() {
    let now = Instant::now();
    let mut pools = Pools::default();
    let [first, second] = [(); 2].map(|()| pools.insert(pool(Protocol::Http2, now)));
    let turns = [1, 2].map(|call| pools.join(first, AttemptId::numbered(call), true));
    let turn = pools.join(second, AttemptId::numbered(3), false);
    assert!(turns[0] < turns[1] && turns[1] < turn);
    assert_eq!(pools.waited_for(), [first, second]);
    assert_eq!(pools.first_waiting(first), Some(AttemptId::numbered(1)));

    pools.leave(second, turn);
    pools.leave(first, turns[0]);
    pools.unlist_served();
    assert_eq!(pools.waited_for(), [first]);
    pools.join(second, AttemptId::numbered(4), true);
    assert_eq!(pools.waited_for(), [first, second], "listed again");
    let mut gone = pools.remove(first).expect("a pool");
    assert_eq!(gone.take_waiting().collect::<Vec<_>>(), [AttemptId::numbered(2)]);
    pools.unlist_served();
    assert_eq!(pools.waited_for(), [second]);
}
