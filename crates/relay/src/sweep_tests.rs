use std::sync::Arc;

use leno_http2::Connection;

use super::*;
use crate::downstream::client::Speaks;
use crate::fixtures::{
    TO_CART, begin_to_connect, call, client, connect, connect_endpoint, establish_http2, fields, flush, http2_caller,
    is_open, mesh_of, outbound, read, relay, service, sweep, upgraded,
};
use crate::pool::pools::tests::upstream;

/// The limits on the time for which a peer may leave its socket unread: the limit for HTTP/2, and that for HTTP/1.
fn limits(relay: &Relay) -> (Duration, Duration) {
    (ms(relay.limits.relay.unread_timeout_ms), ms(relay.limits.relay.stall_timeout_ms))
}

#[test]
fn a_server_of_http1_may_leave_its_socket_unread_for_as_long_as_a_client_of_http1() {
    let (mut relay, id) = client(Speaks::Http1);
    let client = LinkId::Client(id);
    relay.receive(client, b"POST / HTTP/1.1\r\nhost: cart.shop:80\r\ncontent-length: 50000\r\n\r\n");
    relay.dispatch();
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    relay.receive(client, &[b'x'; 50_000]);
    flush(&mut relay, client);
    let (short, long) = limits(&relay);
    assert_eq!(relay.unread_limit(upstream), Some(long), "the kernel has the same limit");
    sweep(&mut relay, short + Duration::from_secs(1));
    sweep(&mut relay, long - short - Duration::from_secs(2));
    assert!(is_open(&mut relay, upstream));
    sweep(&mut relay, Duration::from_secs(3));
    assert!(!is_open(&mut relay, upstream));
}

/// Returns a relay whose HTTP/1 server has answered a call with these fields, and the connections to the client and to
/// the server.
fn answered_with(fields: &str) -> (Relay, LinkId, LinkId) {
    let (mut relay, id) = client(Speaks::Http1);
    let client = LinkId::Client(id);
    relay.receive(client, b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n");
    relay.dispatch();
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    relay.receive(upstream, format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n").as_bytes());
    flush(&mut relay, client);
    (relay, client, upstream)
}

#[test]
fn a_connection_takes_no_call_shortly_before_its_server_closes_it() {
    for (fields, idle_ms, takes_call) in [
        ("keep-alive: timeout=5\r\n", 3_900, true),
        ("keep-alive: timeout=5\r\n", 4_000, false),
        ("keep-alive: timeout=1\r\n", 400, true),
        ("keep-alive: timeout=1\r\n", 500, false),
        ("keep-alive: timeout=0\r\n", 900, true),
        ("keep-alive: max=100\r\n", 30_000, true),
    ] {
        let (mut relay, client, _) = answered_with(fields);
        relay.set_now(relay.now + Duration::from_millis(idle_ms));
        relay.receive(client, b"POST / HTTP/1.1\r\nhost: cart.shop:80\r\ncontent-length: 0\r\n\r\n");
        relay.dispatch();
        let opens = relay.take_effects().iter().any(|effect| matches!(effect, Effect::Connect { .. }));
        assert_eq!(opens, !takes_call, "{fields} after {idle_ms} ms");
    }
}

#[test]
fn a_connection_is_closed_shortly_before_its_server_closes_it_and_at_our_own_limit_at_the_latest() {
    for (fields, seconds) in [("keep-alive: timeout=7\r\n", 7), ("keep-alive: timeout=600\r\n", 64)] {
        let (mut relay, _, upstream) = answered_with(fields);
        sweep(&mut relay, Duration::from_secs(2));
        assert!(is_open(&mut relay, upstream), "{fields}");
        sweep(&mut relay, Duration::from_secs(seconds - 2));
        assert!(!is_open(&mut relay, upstream), "{fields}");
    }
}

#[test]
fn a_server_of_http2_must_read_its_socket_sooner() {
    let (mut relay, id) = client(Speaks::Http2);
    let client = LinkId::Client(id);
    let (mut caller, stream) = http2_caller(relay.now, &TO_CART);
    caller.send_data(stream, b"0123456789", true);
    relay.receive(client, caller.output());
    relay.dispatch();
    let upstream = begin_to_connect(&mut relay);
    establish_http2(&mut relay, upstream);
    flush(&mut relay, client);
    let (endpoint, (short, _)) = (LinkId::Endpoint(upstream), limits(&relay));
    assert_eq!(relay.unread_limit(endpoint), Some(short));
    sweep(&mut relay, short - Duration::from_secs(1));
    assert!(is_open(&mut relay, endpoint));
    sweep(&mut relay, Duration::from_secs(3));
    assert!(!is_open(&mut relay, endpoint));
}

/// Returns a relay that has sent a call to an HTTP/2 endpoint of the Service `cart` in `manifests`, with the connection
/// and the endpoint's HTTP/2 engine.
fn called(manifests: String) -> (Relay, UpstreamId, Connection) {
    let mut relay = relay(1, mesh_of(manifests), false);
    let client = LinkId::Client(connect(&mut relay, 0, outbound(), None, (Speaks::Http2, Vec::new())));
    assert!(relay.begin_read(client).is_some());
    let (mut caller, stream) = http2_caller(relay.now, &TO_CART);
    caller.send_data(stream, b"0123456789", true);
    relay.receive(client, caller.output());
    relay.dispatch();
    let upstream = begin_to_connect(&mut relay);
    flush(&mut relay, client);
    let server = establish_http2(&mut relay, upstream);
    flush(&mut relay, LinkId::Endpoint(upstream));
    (relay, upstream, server)
}

fn output_of(relay: &mut Relay, id: LinkId) -> Vec<u8> {
    relay.link(id).expect("it is open").output().to_vec()
}

#[test]
fn a_silent_server_of_http2_gets_one_ping_and_keeps_its_calls() {
    let (mut relay, upstream, mut server) = called(service("cart", &["10.0.0.8", "10.0.0.9"]));
    let endpoint = LinkId::Endpoint(upstream);
    let is_doubtful = |relay: &Relay| relay.pools.upstream(upstream).expect("it is open").is_doubtful();
    let silent = |relay: &Relay| relay.explain()[0].endpoints.iter().filter(|endpoint| endpoint.is_silent).count();
    assert_eq!(silent(&relay), 0);
    sweep(&mut relay, Duration::from_millis(1_500));
    let ping = output_of(&mut relay, endpoint);
    assert_eq!((ping.len(), &ping[..5]), (17, &[0, 0, 8, 6, 0][..]), "one PING");
    flush(&mut relay, endpoint);
    // The server's process pauses.
    sweep(&mut relay, Duration::from_secs(60));
    assert!(output_of(&mut relay, endpoint).is_empty() && is_doubtful(&relay));
    assert_eq!(silent(&relay), 1, "`/balancer` shows it");
    assert_eq!(relay.pools.upstream(upstream).expect("it is open").link.codec.stream_count(), 1);

    read(&mut server, relay.now, &ping);
    relay.set_now(relay.now + Duration::from_millis(1));
    relay.receive(endpoint, server.output());
    assert!(!is_doubtful(&relay));
    assert_eq!(silent(&relay), 0);
}

/// The SETTINGS of a server that allows one stream at a time.
const ONE_STREAM: [u8; 15] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1];
/// SETTINGS that change nothing.
const NO_SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

#[test]
fn calls_that_wait_for_a_silent_server_go_to_another_endpoint() {
    let settings = "annotations: {leno.dev/balancer: round-robin, leno.dev/max-connections-per-endpoint: '1'}";
    let plain = service("cart", &["10.0.0.8", "10.0.0.9"]);
    let cart = "{name: cart, namespace: shop";
    let (mut relay, gone, _) = called(plain.replacen(cart, &format!("{cart}, {settings}"), 1));
    relay.receive(LinkId::Endpoint(gone), &ONE_STREAM);
    flush(&mut relay, LinkId::Endpoint(gone));

    // One of these calls waits for the first endpoint, the other call for a connection to the second endpoint.
    let client = LinkId::Client(connect(&mut relay, 1, outbound(), None, (Speaks::Http2, Vec::new())));
    assert!(relay.begin_read(client).is_some());
    let (mut caller, first) = http2_caller(relay.now, &TO_CART);
    let second = caller.open(relay.now, 0, &fields(&TO_CART), false).expect("a stream");
    for stream in [first, second] {
        caller.send_data(stream, b"0123456789", true);
    }
    relay.receive(client, caller.output());
    relay.dispatch();
    let other = begin_to_connect(&mut relay);
    establish_http2(&mut relay, other);
    flush(&mut relay, LinkId::Endpoint(other));
    let calls = |relay: &Relay, id: UpstreamId| {
        let upstream = relay.pools.upstream(id).expect("it is open");
        let pool = relay.pools.get(upstream.pool).expect("a pool");
        (upstream.link.codec.stream_count(), pool.waiting().len())
    };
    assert_eq!((calls(&relay, gone), calls(&relay, other)), ((1, 1), (1, 0)));

    relay.set_now(relay.now + Duration::from_millis(1));
    relay.receive(LinkId::Endpoint(other), &NO_SETTINGS);
    sweep(&mut relay, Duration::from_millis(1_500));
    relay.dispatch();
    assert_eq!((calls(&relay, gone), calls(&relay, other)), ((1, 0), (2, 0)));
}

#[test]
fn a_silent_connection_makes_its_pool_doubtful_when_the_other_connections_have_left() {
    let (mut relay, silent, _) = called(service("cart", &["10.0.0.8", "10.0.0.9"]));
    let connection = relay.pools.upstream(silent).expect("it is open");
    let (pool, cluster) = (connection.pool, connection.cluster);
    let other = upstream(&relay.pools, pool, relay.now);
    let other = relay.pools.add(other);
    relay.pools.note_ready(other);
    let may_be_busy = |relay: &Relay| relay.targets.get(cluster).expect("it is in use").may_be_busy();
    sweep(&mut relay, Duration::from_millis(1_500));
    relay.set_now(relay.now + Duration::from_millis(1));
    let now = relay.now;
    relay.pools.upstream_mut(other).expect("it is open").link.last_read = now;
    sweep(&mut relay, Duration::from_secs(1));
    assert!(!may_be_busy(&relay), "the server has sent a byte on the other connection");

    relay.pools.retire(other);
    sweep(&mut relay, Duration::from_secs(1));
    assert!(relay.pools.is_doubtful(pool) && may_be_busy(&relay));
}

#[test]
fn the_only_endpoint_of_a_service_gets_no_ping_after_a_short_silence() {
    let (mut relay, upstream, _) = called(service("cart", &["10.0.0.9"]));
    sweep(&mut relay, Duration::from_secs(60));
    assert!(output_of(&mut relay, LinkId::Endpoint(upstream)).is_empty());
}

#[test]
fn both_ends_of_an_upgraded_connection_may_leave_their_sockets_unread_for_any_time() {
    let (mut relay, client, upstream) = upgraded();
    relay.receive(client, &[b'x'; 50_000]);
    relay.receive(upstream, &[b'x'; 50_000]);
    // Neither socket accepts bytes.
    let now = relay.now;
    for id in [client, upstream] {
        assert_eq!(relay.unread_limit(id), None);
        relay.link(id).expect("it is open").note_flushed(now, true);
    }
    let (_, long) = limits(&relay);
    sweep(&mut relay, long * 2);
    assert!(is_open(&mut relay, upstream));
    assert!(!relay.link(client).expect("it is open").is_closing());
}

#[test]
fn calls_that_wait_because_upgraded_connections_use_up_the_limit_are_logged() {
    let (mut relay, _, upstream) = upgraded();
    Arc::make_mut(&mut relay.limits).relay.max_unshared_connections_per_endpoint = 1;
    call(&mut relay, 1, outbound(), None, b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n".to_vec());
    let told = |relay: &Relay| {
        let LinkId::Endpoint(upstream) = upstream else { return false };
        let pool = relay.pools.upstream(upstream).expect("it is open").pool;
        relay.pools.get(pool).expect("it has a connection").wait_is_told
    };
    let opens = relay.take_effects().iter().any(|effect| matches!(effect, Effect::Connect { .. }));
    assert!(!opens && !told(&relay));
    sweep(&mut relay, TELL_AFTER + Duration::from_secs(1));
    assert!(told(&relay));
}

/// Returns a relay, and the connection of an HTTP/1 client that closes after its response. The client has not read
/// `kernel_bytes`.
fn closing(kernel_bytes: usize) -> (Relay, LinkId) {
    let (mut relay, id) = client(Speaks::Http1);
    let client = LinkId::Client(id);
    relay.receive(client, b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\nconnection: close\r\n\r\n");
    relay.dispatch();
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    relay.receive(upstream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
    flush(&mut relay, client);
    let link = relay.link(client).expect("the client has not closed it");
    assert!(link.is_closing());
    link.set_wire_bytes(0, kernel_bytes);
    (relay, client)
}

/// Returns whether the relay has requested to reset a connection.
fn has_reset(relay: &mut Relay) -> bool {
    relay.take_effects().iter().any(|effect| matches!(effect, Effect::Abort(_)))
}

#[test]
fn a_client_that_reads_slowly_gets_the_end_of_its_last_response() {
    let (mut relay, client) = closing(400_000);
    for kernel_bytes in [300_000, 200_000, 100_000, 0] {
        sweep(&mut relay, Duration::from_secs(200));
        relay.link(client).expect("the client reads").set_wire_bytes(0, kernel_bytes);
    }
    sweep(&mut relay, Duration::from_secs(2));
    assert!(!is_open(&mut relay, client) && !has_reset(&mut relay));
}

#[test]
fn a_client_that_reads_nothing_of_its_last_response_is_reset() {
    let (mut relay, client) = closing(400_000);
    let (_, long) = limits(&relay);
    sweep(&mut relay, Duration::from_secs(1));
    sweep(&mut relay, long - Duration::from_secs(1));
    assert!(is_open(&mut relay, client));
    sweep(&mut relay, Duration::from_secs(2));
    assert!(!is_open(&mut relay, client) && has_reset(&mut relay));
}
