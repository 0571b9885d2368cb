use std::sync::Arc;
use std::time::Duration;

use leno_http2::limits::OUTPUT_HIGH_WATER_BYTES;
use leno_http2::{Connection, ErrorCode, FieldSection, Role, Section, StreamKey};
use leno_model::spiffe::SpiffeId;

use super::*;
use crate::downstream::client::Speaks;
use crate::failure::ConnectionFailure;
use crate::fixtures::{
    TO_CART, begin_to_connect, call, client, connect, connect_endpoint, establish_http2, fields, flush, http2_caller,
    is_open, mesh_of, outbound, read, service, sweep, upgraded,
};
use crate::limits::ms;
use crate::link::opaque::{Contents, MAX_UNRELEASED_BYTES};
use crate::metrics::Direction;
use crate::pool::upstream::UpstreamId;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n";

/// Flushes all connections, but no socket accepts bytes. Returns whether the relay has requested to reset a connection.
fn aborts(relay: &mut Relay) -> bool {
    while let Some(id) = relay.next_dirty() {
        relay.flushed(id);
    }
    relay.take_effects().iter().any(|effect| matches!(effect, Effect::Abort(_)))
}

#[test]
fn a_client_whose_socket_fails_while_it_is_not_read_is_closed() {
    let (mut relay, client) = client(Speaks::Http1);
    let id = LinkId::Client(client);
    relay.receive(id, &[REQUEST, REQUEST].concat());
    assert!(relay.link(id).expect("it is open").paused, "the second request waits for the first response");
    relay.socket_failed(id);
    assert_eq!(relay.begin_read(id), None);
    assert!(!is_open(&mut relay, id) && relay.calls.len() == 0);
}

#[test]
fn a_client_whose_socket_failed_before_its_last_bytes_were_read_is_closed_after_them() {
    for is_reported in [true, false] {
        let (mut relay, client) = client(Speaks::Http1);
        let id = LinkId::Client(client);
        match is_reported {
            true => relay.socket_failed(id),
            false => relay.link(id).expect("it is open").note_unwritable(),
        }
        assert!(relay.begin_read(id).is_some(), "the kernel may have bytes");
        relay.receive(id, REQUEST);
        assert!(is_open(&mut relay, id) && relay.calls.len() == 1);
        assert!(relay.begin_read(id).is_some(), "the kernel may have more");
        relay.receive_end(id);
        assert!(!is_open(&mut relay, id) && relay.calls.len() == 0);
    }
}

/// Returns a relay whose HTTP/1 client has sent a request, and the connections to the client and to the server. The
/// server has sent `response`, and no byte of it has been written.
fn asked(response: &[u8]) -> (Relay, LinkId, LinkId) {
    let (mut relay, client) = client(Speaks::Http1);
    let client = LinkId::Client(client);
    relay.receive(client, REQUEST);
    relay.dispatch();
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    response.chunks(16_384).for_each(|part| relay.receive(upstream, part));
    flush(&mut relay, upstream);
    (relay, client, upstream)
}

#[test]
fn a_client_of_http1_that_closes_its_side_before_its_response_is_complete_has_its_call_cancelled() {
    let large = [&b"HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n"[..], &[b'x'; 300_000]].concat();
    for response in [&b""[..], b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", &large] {
        let (mut relay, client, upstream) = asked(response);
        assert_eq!(relay.calls.len(), 1);
        assert!(relay.begin_read(client).is_some(), "it must be noticed even if the client reads nothing");
        relay.receive_end(client);
        assert_eq!((relay.calls.len(), relay.metrics.cancelled_total.get()), (0, 1));
        flush(&mut relay, client);
        assert!(!is_open(&mut relay, upstream), "the connection carries no other call");
        assert!(relay.link(client).is_none_or(|link| link.is_closing()));
    }
}

#[test]
fn a_client_of_http1_that_closes_its_side_still_gets_a_response_that_has_been_received_whole() {
    let length = OUTPUT_HIGH_WATER_BYTES + 20_000;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    let (mut relay, client, _) = asked(&[head.as_bytes(), &vec![b'x'; length]].concat());
    assert!(relay.begin_read(client).is_some());
    relay.receive_end(client);
    let link = relay.link(client).expect("its response is not written");
    assert!(link.codec.queued_bytes() > 0 && !link.is_closing());
    flush(&mut relay, client);
    let link = relay.link(client).expect("it may still read");
    assert!(link.codec.queued_bytes() == 0 && link.codec.pending_output() == 0 && link.is_closing());
    assert_eq!(relay.metrics.cancelled_total.get(), 0);
}

#[test]
fn a_further_request_of_a_client_of_http1_waits_without_work_until_the_response_before_it_is_complete() {
    let (mut relay, client, upstream) = asked(b"");
    assert!(relay.begin_read(client).is_some());
    relay.receive(client, REQUEST);
    for _ in 0..2 {
        assert_eq!(relay.begin_read(client), None, "no more than one read is kept");
        assert!(!flush(&mut relay, client), "nothing has changed");
        assert_eq!(relay.link(client).expect("it is open").pending_input, REQUEST);
    }
    relay.receive(upstream, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    assert!(flush(&mut relay, client));
    assert!(relay.begin_read(client).is_some());
    assert_eq!(relay.calls.len(), 1);
    relay.receive_end(client);
    assert!(relay.calls.len() == 0 && !is_open(&mut relay, client));
}

#[test]
fn the_end_of_one_side_of_an_upgraded_connection_leaves_the_other_side_open() {
    let (mut relay, client, upstream) = upgraded();
    for _ in 0..2 {
        relay.receive_end(client);
        flush(&mut relay, upstream);
        assert!(relay.link(upstream).expect("it is open").is_finished());
        assert!(relay.calls.len() == 1 && is_open(&mut relay, client));
    }
}

#[test]
fn a_response_that_a_server_sent_before_its_reset_is_read_when_the_client_has_room() {
    let (mut relay, client) = client(Speaks::Http1);
    relay.receive(LinkId::Client(client), REQUEST);
    relay.dispatch();
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    relay.receive(upstream, b"HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n");
    let mut received = 0;
    while !relay.link(upstream).expect("it is open").paused {
        relay.receive(upstream, &[b'x'; 16_384]);
        received += 16_384;
        flush(&mut relay, upstream);
        assert!(received < 5_000_000, "the client reads nothing");
    }
    relay.socket_failed(upstream);
    assert_eq!(relay.begin_read(upstream), None);
    assert!(is_open(&mut relay, upstream));
    let is_read_on = (0..100).any(|_| {
        relay.mark_dirty(LinkId::Client(client));
        flush(&mut relay, LinkId::Client(client))
    });
    assert!(is_read_on && relay.begin_read(upstream).is_some());
}

#[test]
fn an_opaque_connection_to_a_server_that_fails_while_it_is_not_read_is_closed() {
    let (mut relay, client) = client(Speaks::Opaque(Contents::Unknown));
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    while !relay.link(upstream).expect("it is open").paused {
        assert!(relay.begin_read(upstream).is_some());
        relay.receive(upstream, &[b'x'; MAX_UNRELEASED_BYTES]);
        flush(&mut relay, upstream);
    }
    relay.socket_failed(upstream);
    assert!(!is_open(&mut relay, upstream));
    assert!(relay.link(LinkId::Client(client)).is_none_or(|link| link.codec.is_aborted()));
}

#[test]
fn the_first_bytes_of_a_server_wait_without_work_until_a_call_uses_the_connection() {
    let (mut relay, client) = client(Speaks::Opaque(Contents::Unknown));
    let upstream = begin_to_connect(&mut relay);
    relay.close_client(client);
    relay.connected(upstream);
    let id = LinkId::Endpoint(upstream);
    flush(&mut relay, id);
    assert!(is_open(&mut relay, id), "a call of this moment may use it");
    relay.receive(id, b"220 welcome\r\n");
    assert!(!flush(&mut relay, id), "no call takes the bytes");
    assert_eq!(relay.link(id).expect("it is open").pending_input, b"220 welcome\r\n");
    sweep(&mut relay, Duration::from_secs(1));
    assert!(!is_open(&mut relay, id), "a later client would get a server that has waited for long");
}

#[test]
fn the_end_of_an_opaque_client_that_has_sent_nothing_reaches_the_server() {
    let (mut relay, client) = client(Speaks::Opaque(Contents::Unknown));
    let upstream = begin_to_connect(&mut relay);
    relay.receive_end(LinkId::Client(client));
    relay.connected(upstream);
    flush(&mut relay, LinkId::Endpoint(upstream));
    assert!(relay.link(LinkId::Endpoint(upstream)).expect("it is open").is_finished());
}

/// Returns a relay whose opaque connection has ended on both sides, while 100,000 bytes of the client wait for the
/// server.
fn ended_with_bytes_left() -> (Relay, LinkId) {
    let (mut relay, client) = client(Speaks::Opaque(Contents::Unknown));
    let client = LinkId::Client(client);
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    assert!(relay.begin_read(upstream).is_some());
    relay.receive(client, &[b'x'; 100_000]);
    relay.receive_end(client);
    relay.receive_end(upstream);
    flush(&mut relay, client);
    (relay, upstream)
}

#[test]
fn a_slow_server_gets_all_bytes_of_an_opaque_client_although_both_sides_have_ended() {
    let (mut relay, upstream) = ended_with_bytes_left();
    let limit = ms(relay.limits.relay.unread_timeout_ms);
    for left in [60_000, 20_000] {
        sweep(&mut relay, limit * 2 / 3);
        assert!(relay.has_work(), "the process must not end");
        let link = relay.link(upstream).expect("it is open");
        let written = link.output().len() - left;
        link.note_written(written);
    }
    assert_eq!(relay.calls.len(), 0);
    flush(&mut relay, upstream);
    assert!(!is_open(&mut relay, upstream));
}

#[test]
fn a_server_that_reads_nothing_more_of_an_ended_opaque_connection_is_given_up() {
    let (mut relay, upstream) = ended_with_bytes_left();
    let limit = ms(relay.limits.relay.unread_timeout_ms);
    sweep(&mut relay, limit + Duration::from_secs(1));
    assert!(aborts(&mut relay), "the server must not take the end for the end of the content");
    assert!(!is_open(&mut relay, upstream));
}

/// Returns a relay, a client that has left, and the connection to an HTTP/1 server that has answered the client's
/// request. The server ends the connection after this request, and has not read the request's last 60,000 bytes.
fn answered_with_bytes_left() -> (Relay, LinkId, LinkId) {
    let (mut relay, id) = client(Speaks::Http1);
    let client = LinkId::Client(id);
    relay.receive(client, b"PUT / HTTP/1.1\r\nhost: cart.shop:80\r\ncontent-length: 60000\r\n\r\n");
    relay.dispatch();
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    relay.receive(upstream, b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    relay.receive(client, &[b'x'; 60_000]);
    flush(&mut relay, client);
    assert_eq!(relay.calls.len(), 0, "request and response are complete");
    relay.close_client(id);
    (relay, client, upstream)
}

#[test]
fn a_slow_server_gets_the_rest_of_a_request_although_it_has_answered_and_ends_the_connection() {
    let (mut relay, client, upstream) = answered_with_bytes_left();
    for left in [40_000, 20_000] {
        sweep(&mut relay, Duration::from_secs(8));
        flush(&mut relay, client);
        assert!(relay.has_work(), "the process must not end");
        let link = relay.link(upstream).expect("it is open");
        let written = link.output().len() - left;
        link.note_written(written);
    }
    relay.mark_dirty(upstream);
    flush(&mut relay, upstream);
    assert!(!is_open(&mut relay, upstream));
}

/// Opens a connection to an endpoint that speaks HTTP/2. Returns the connection, and the endpoint's HTTP/2 engine.
fn connect_http2_endpoint(relay: &mut Relay) -> (UpstreamId, Connection) {
    let upstream = begin_to_connect(relay);
    (upstream, establish_http2(relay, upstream))
}

/// Returns a relay with an HTTP/2 client that has made a call.
fn calling_over_http2() -> (Relay, LinkId) {
    let (mut relay, client) = client(Speaks::Http2);
    let (mut caller, stream) = http2_caller(relay.now, &TO_CART);
    caller.send_data(stream, b"0123456789", true);
    relay.receive(LinkId::Client(client), caller.output());
    relay.dispatch();
    (relay, LinkId::Client(client))
}

#[test]
fn the_process_does_not_end_before_a_socket_has_the_end_of_an_answered_request_of_http2() {
    const LEFT: usize = 3;
    let (mut relay, client) = calling_over_http2();
    let (upstream, mut server) = connect_http2_endpoint(&mut relay);
    let endpoint = LinkId::Endpoint(upstream);
    // The request waits for the socket. The socket accepts most of it, and the server answers.
    flush(&mut relay, client);
    let now = relay.now;
    let link = relay.link(endpoint).expect("it is open");
    let written = link.output().len() - LEFT;
    let asked = read(&mut server, now, &link.output()[..written]).expect("a request");
    link.note_written(written);
    server.send_headers(asked, Section::Response, &fields(&[(":status", "200")]), true);
    relay.receive(endpoint, server.output());
    flush(&mut relay, client);
    assert_eq!(relay.calls.len(), 0);
    relay.close(client, "it has its answer");
    assert!(relay.has_no_clients() && relay.has_work(), "the socket lacks the last bytes of the request");
    relay.mark_dirty(endpoint);
    flush(&mut relay, endpoint);
    assert!(!relay.has_work());
}

#[test]
fn a_connection_with_our_former_certificate_is_replaced_even_if_the_first_attempt_fails() {
    let (mut relay, client) = calling_over_http2();
    let (old, _server) = connect_http2_endpoint(&mut relay);
    flush(&mut relay, client);
    relay.pools.upstream_mut(old).expect("it is open").is_outdated = true;
    sweep(&mut relay, Duration::from_secs(1));
    let failed = begin_to_connect(&mut relay);
    relay.close_upstream(failed, "refused");
    let mut waited = Duration::ZERO;
    while !relay.effects.iter().any(|effect| matches!(effect, Effect::Connect { .. })) {
        sweep(&mut relay, Duration::from_secs(1));
        waited += Duration::from_secs(1);
        assert!(waited < Duration::from_secs(60), "it is not tried again");
    }
    let (new, _server) = connect_http2_endpoint(&mut relay);
    sweep(&mut relay, Duration::from_secs(1));
    assert!(!relay.pools.upstream(old).expect("its stream is open").is_outdated);
    assert!(is_open(&mut relay, LinkId::Endpoint(new)) && relay.calls.len() == 1);
}

#[test]
fn a_server_whose_endpoint_has_left_sees_our_new_certificate_on_a_connection_of_its_own() {
    let (mut relay, client) = calling_over_http2();
    let (old, _server) = connect_http2_endpoint(&mut relay);
    flush(&mut relay, client);
    let id: SpiffeId = "spiffe://example.org/ns/shop/sa/cart".parse().expect("a SPIFFE id");
    relay.pools.upstream_mut(old).expect("it is open").expected = Some(Arc::new(id));
    relay.set_mesh(&Arc::new(mesh_of(service("cart", &["10.0.0.8"]))));
    relay.show_new_certificate();
    relay.take_effects();

    sweep(&mut relay, Duration::from_secs(1));
    let failed = begin_to_connect(&mut relay);
    relay.end_upstream(failed, &ConnectionFailure::NoSocket { error: "no file descriptor is left".to_owned() });
    let count = |why| relay.metrics.failed_connection_count(Direction::Outbound, why);
    assert_eq!((count("no-socket"), count("connect-failed")), (1, 0), "the server is not the cause");
    sweep(&mut relay, Duration::from_secs(1));
    assert!(relay.pools.upstream(old).expect("its stream is open").is_outdated);
    let (shown, _server) = connect_http2_endpoint(&mut relay);
    assert!(!relay.pools.upstream(old).expect("its stream is open").is_outdated);

    flush(&mut relay, LinkId::Endpoint(shown));
    sweep(&mut relay, Duration::from_secs(2));
    assert!(!is_open(&mut relay, LinkId::Endpoint(shown)), "no call may use it");
    assert!(!relay.effects.iter().any(|effect| matches!(effect, Effect::Connect { .. })));
    assert!(is_open(&mut relay, LinkId::Endpoint(old)) && relay.calls.len() == 1);
}

#[test]
fn a_server_that_reads_nothing_more_of_a_request_after_its_answer_is_given_up() {
    let (mut relay, client, upstream) = answered_with_bytes_left();
    sweep(&mut relay, Duration::from_secs(11));
    flush(&mut relay, client);
    assert!(!is_open(&mut relay, upstream));
}

#[test]
fn an_opaque_client_is_reset_if_its_connection_is_closed_in_the_middle() {
    let (mut relay, client) = client(Speaks::Opaque(Contents::Unknown));
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    assert!(relay.begin_read(upstream).is_some());
    relay.receive(upstream, b"some");
    assert!(!relay.yield_place(client, true));
    assert!(matches!(relay.take_effects()[..], [Effect::Abort(_), Effect::Close(_)]));
}

#[test]
fn connections_that_are_cut_at_the_end_of_the_process_are_reset() {
    let (mut relay, opaque) = client(Speaks::Opaque(Contents::Unknown));
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    let origin = outbound();
    let http1 = connect(&mut relay, 2, origin, None, (Speaks::Http1, REQUEST.to_vec()));
    relay.cut_off();
    assert!(!is_open(&mut relay, LinkId::Client(opaque)) && !is_open(&mut relay, upstream));
    assert!(is_open(&mut relay, LinkId::Client(http1)), "HTTP/1 shows that a response is not complete");
    let effects = relay.take_effects();
    let aborted = effects.iter().filter(|effect| matches!(effect, Effect::Abort(_))).count();
    assert_eq!(aborted, 2, "{effects:?}");
}

#[test]
fn the_call_of_an_opaque_client_that_was_refused_ends_with_its_connection() {
    let (mut relay, client) = client(Speaks::Opaque(Contents::Unknown));
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    let mut refusal = FieldSection::new();
    refusal.push(b":status", b"403");
    relay.link(LinkId::Client(client)).expect("it is open").codec.send_headers(
        leno_http2::StreamKey::numbered(1),
        leno_http2::Section::Response,
        &refusal,
        false,
        &mut Default::default(),
    );
    relay.mark_dirty(LinkId::Client(client));
    flush(&mut relay, upstream);
    assert!(!is_open(&mut relay, LinkId::Client(client)) && relay.calls.len() == 0);
}

#[test]
fn a_closing_connection_is_read_in_large_parts_although_much_was_not_forwarded() {
    let (mut relay, client) = client(Speaks::Opaque(Contents::Unknown));
    let id = LinkId::Client(client);
    relay.receive(id, &[b'x'; MAX_UNRELEASED_BYTES]);
    assert!(relay.link(id).expect("it is open").codec.is_paused());
    relay.begin_closing(id);
    assert!(flush(&mut relay, id), "its end must be noticed");
    assert_eq!(relay.begin_read(id), Some(usize::MAX));
}

#[test]
fn a_client_whose_socket_has_not_taken_the_output_finishes_before_another_has_its_place() {
    let (mut relay, client) = client(Speaks::Http1);
    let now = relay.now;
    // The socket is blocked although the codec has no output left, as if TLS records were waiting.
    relay.link(LinkId::Client(client)).expect("it is open").note_flushed(now, true);
    assert!(relay.yield_place(client, true));
    assert!(is_open(&mut relay, LinkId::Client(client)));
}

/// Returns a relay with an HTTP/2 client for which 5 MiB wait, and whose socket accepts no bytes since now.
fn much_for_a_blocked_client() -> (Relay, LinkId) {
    let (mut relay, client) = calling_over_http2();
    let now = relay.now;
    let link = relay.link(client).expect("it is open");
    let stream = StreamKey::numbered(1);
    link.codec.send_headers(stream, Section::Response, &fields(&[(":status", "200")]), false, &mut Default::default());
    link.codec.send_data(stream, &vec![0; 5 << 20], false);
    link.note_flushed(now, true);
    (relay, client)
}

/// Lets the socket of a client accept some bytes, and no more.
fn accept_some(relay: &mut Relay, client: LinkId) {
    let now = relay.now;
    let link = relay.link(client).expect("it is open");
    link.note_written(10);
    link.note_flushed(now, true);
    relay.flushed(client);
}

#[test]
fn a_client_is_read_while_it_reads_at_the_speed_of_its_network() {
    let (mut relay, client) = much_for_a_blocked_client();
    for _ in 0..5 {
        relay.set_now(relay.now + Duration::from_millis(400));
        assert!(relay.begin_read(client).is_some(), "its socket accepted bytes 400 ms ago");
        accept_some(&mut relay, client);
    }
    relay.set_now(relay.now + Duration::from_millis(500));
    relay.take_effects();
    assert!(relay.begin_read(client).is_none(), "it has not read for 500 ms");
    accept_some(&mut relay, client);
    assert!(relay.take_effects().iter().any(|effect| matches!(effect, Effect::ReadOn(_))));
    assert!(relay.begin_read(client).is_some(), "it reads again");
}

#[test]
fn a_server_that_ends_its_connection_with_an_answer_gets_no_further_call() {
    let (mut relay, first) = client(Speaks::Http1);
    let first = LinkId::Client(first);
    relay.receive(first, REQUEST);
    relay.dispatch();
    let upstream = connect_endpoint(&mut relay);
    let endpoint = LinkId::Endpoint(upstream);
    // The second call waits for a connection of its own.
    call(&mut relay, 1, outbound(), None, REQUEST.to_vec());
    let own = begin_to_connect(&mut relay);
    // One event reports the answer and the end of the connection.
    relay.end_follows(endpoint);
    relay.receive(endpoint, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    flush(&mut relay, first);
    assert_eq!(relay.pools.upstream(upstream).expect("its end was not read yet").calls, 1);
    relay.receive_end(endpoint);
    assert!(!is_open(&mut relay, endpoint));

    relay.connected(own);
    flush(&mut relay, LinkId::Endpoint(own));
    assert_eq!(relay.pools.upstream(own).expect("it is open").calls, 1);
}

/// Lets a server that has sent everything reset its connection, as the event loop reports it: after an error of the
/// socket, a read returns the end again.
fn reset_after_end(relay: &mut Relay, upstream: LinkId) {
    relay.receive_end(upstream);
    relay.socket_failed(upstream);
    relay.receive_end(upstream);
    assert!(!is_open(relay, upstream) && relay.calls.len() == 0);
}

#[test]
fn an_opaque_client_gets_the_last_bytes_and_a_reset_if_the_server_resets_after_its_end() {
    for has_client_ended in [false, true] {
        let (mut relay, id) = client(Speaks::Opaque(Contents::Unknown));
        let client = LinkId::Client(id);
        let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
        assert!(relay.begin_read(upstream).is_some());
        relay.receive(upstream, b"bye");
        relay.receive(client, b"more");
        reset_after_end(&mut relay, upstream);
        assert_eq!(relay.link(client).expect("its output waits").output(), b"bye");
        flush(&mut relay, client);
        assert!(relay.link(client).expect("it gets the last bytes first").is_closing());
        if has_client_ended {
            relay.receive_end(client);
            assert!(!aborts(&mut relay), "the kernel may still hold the last bytes");
        }
        assert!(is_open(&mut relay, client));
        sweep(&mut relay, Duration::from_secs(3));
        assert!(!is_open(&mut relay, client));
        assert!(aborts(&mut relay), "{has_client_ended}");
    }
}

#[test]
fn a_tunnel_is_reset_after_the_last_bytes_if_the_server_resets_after_its_end() {
    let (mut relay, id) = client(Speaks::Http2);
    let client = LinkId::Client(id);
    let tunnel = [(":method", "CONNECT"), (":authority", "cart.shop:80")];
    let (mut caller, _stream) = http2_caller(relay.now, &tunnel);
    relay.receive(client, caller.output());
    relay.dispatch();
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    assert!(relay.begin_read(upstream).is_some());
    relay.receive(upstream, b"bye");
    reset_after_end(&mut relay, upstream);
    let now = relay.now;
    let mut answer = relay.link(client).expect("it is open").output();
    let (mut fields, mut content, mut reset) = (FieldSection::new(), Vec::new(), None);
    while let Some(event) = caller.receive(now, &mut answer, &mut fields).expect("valid frames") {
        match event {
            Event::Data { bytes, .. } => content.extend_from_slice(bytes),
            Event::Reset { code, .. } => reset = Some(code),
            _ => {}
        }
    }
    assert_eq!((content, reset), (b"bye".to_vec(), Some(ErrorCode::CONNECT_ERROR)));
}

/// Returns how many connections to the only endpoint have failed in a row.
fn failures_in_a_row(relay: &Relay) -> u32 {
    relay.explain().remove(0).endpoints.remove(0).connect_failures
}

/// Lets the relay send its calls. Returns whether it opens a connection for them.
fn opens_connection(relay: &mut Relay) -> bool {
    relay.dispatch();
    relay.serve_waiting();
    relay.take_effects().iter().any(|effect| matches!(effect, Effect::Connect { .. }))
}

#[test]
fn a_server_that_closes_right_after_its_settings_gets_the_next_connection_only_after_a_pause() {
    let (mut relay, id) = client(Speaks::Http2);
    let client = LinkId::Client(id);
    let mut caller = Connection::new(Role::Client, Arc::new(leno_http2::Limits::client()), relay.now);
    for failures in 1..=2 {
        caller.open(relay.now, 0, &fields(&TO_CART), true).expect("a stream");
        let asked = caller.output().to_vec();
        caller.advance_output(asked.len());
        relay.receive(client, &asked);
        relay.dispatch();
        let upstream = begin_to_connect(&mut relay);
        // One event reports the SETTINGS and the end of the connection.
        relay.end_follows(LinkId::Endpoint(upstream));
        establish_http2(&mut relay, upstream);
        assert!(!opens_connection(&mut relay), "the end of the first connection was not read yet");
        relay.receive_end(LinkId::Endpoint(upstream));
        assert!(!opens_connection(&mut relay));
        assert_eq!((relay.calls.len(), failures_in_a_row(&relay)), (0, failures), "no other endpoint takes the call");
        relay.set_now(relay.now + ms(relay.limits.relay.max_backoff_ms));
    }
}

#[test]
fn a_goaway_before_the_first_call_and_the_end_of_the_connection_are_one_failure() {
    let (mut relay, _) = calling_over_http2();
    let upstream = begin_to_connect(&mut relay);
    let endpoint = LinkId::Endpoint(upstream);
    relay.end_follows(endpoint);
    let mut server = establish_http2(&mut relay, upstream);
    server.go_away(ErrorCode::NO_ERROR, "");
    relay.receive(endpoint, server.output());
    assert!(!opens_connection(&mut relay));
    assert_eq!((relay.calls.len(), failures_in_a_row(&relay)), (0, 1));
    // Even if the end follows much later, it is no second failure.
    relay.set_now(relay.now + ms(relay.limits.relay.max_backoff_ms));
    relay.receive_end(endpoint);
    assert!(!is_open(&mut relay, endpoint));
    assert_eq!(failures_in_a_row(&relay), 1);
}

#[test]
fn a_client_may_send_on_after_the_server_has_ended_its_side_of_an_upgraded_connection() {
    let (mut relay, client, upstream) = upgraded();
    relay.end_follows(upstream);
    relay.receive_end(upstream);
    sweep(&mut relay, Duration::from_secs(2));
    relay.receive(client, b"more");
    assert!(relay.link(upstream).expect("it is open").output().ends_with(b"more"));
    relay.receive_end(client);
    flush(&mut relay, upstream);
    assert!(!is_open(&mut relay, upstream) && relay.calls.len() == 0);
}

#[test]
fn a_reset_of_one_side_of_an_upgraded_connection_resets_the_other_side() {
    for is_server in [true, false] {
        let (mut relay, client, upstream) = upgraded();
        let (failed, other) = if is_server { (upstream, client) } else { (client, upstream) };
        relay.socket_failed(failed);
        relay.close(failed, "connection reset by peer");
        relay.take_effects();
        let link = relay.link(other).expect("its reset follows");
        assert!(link.is_aborted() && !link.is_finished(), "an orderly end would hide the reset");
        assert!(aborts(&mut relay) && !is_open(&mut relay, other));
    }
}

#[test]
fn bytes_of_a_client_whose_content_was_not_asked_for_reach_no_server() {
    let (mut relay, id) = client(Speaks::Http1);
    let client = LinkId::Client(id);
    let fields = "host: cart.shop:80\r\nexpect: 100-continue\r\ncontent-length: 40\r\n";
    relay.receive(client, format!("POST / HTTP/1.1\r\n{fields}\r\n").as_bytes());
    relay.dispatch();
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    relay.receive(upstream, b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n");
    let answer = String::from_utf8_lossy(relay.link(client).expect("it is open").output()).into_owned();
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    flush(&mut relay, client);
    assert!(!is_open(&mut relay, upstream), "no other call may use it");
    assert!(relay.link(client).expect("it gets its answer").is_closing());
    relay.receive(client, REQUEST);
    assert_eq!(relay.calls.len(), 0);
}

#[test]
fn a_client_need_not_complete_a_frame_while_the_relay_does_not_read() {
    let (mut relay, client) = much_for_a_blocked_client();
    relay.receive(client, &[0, 0, 8, 6]);
    let limit = ms(relay.limits.relay.frame_timeout_ms);
    relay.set_now(relay.now + Duration::from_millis(500));
    assert!(relay.begin_read(client).is_none());
    sweep(&mut relay, limit + Duration::from_secs(1));
    accept_some(&mut relay, client);
    sweep(&mut relay, limit - Duration::from_secs(1));
    assert!(!relay.link(client).expect("it is open").is_closing(), "the relay could have had the rest for 9 s only");
    sweep(&mut relay, Duration::from_secs(2));
    assert!(relay.link(client).is_none_or(|link| link.is_closing()));
}

#[test]
fn a_client_that_leaves_too_much_output_unread_is_read_again_once_it_reads() {
    let (mut relay, client) = calling_over_http2();
    let most = relay.limits.client.max_unread_output_bytes as usize;
    let now = relay.now;
    let link = relay.link(client).expect("it is open");
    let large = "x".repeat(most);
    let head = fields(&[(":status", "200"), ("x", &large)]);
    link.codec.send_headers(StreamKey::numbered(1), Section::Response, &head, false, &mut Default::default());
    link.note_flushed(now, true);
    assert!(relay.begin_read(client).is_none(), "its socket accepts no bytes");
    // The relay keeps bytes that it has read before.
    relay.receive(client, &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(relay.link(client).expect("it is open").pending_input.len(), 13);
    relay.take_effects();
    assert!(flush(&mut relay, client), "it is read again");
    assert!(relay.begin_read(client).is_some());
    assert!(relay.link(client).expect("it is open").pending_input.is_empty());
}
