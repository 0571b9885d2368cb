//! How a client that uses more than its share, or that delays other clients, affects its own calls and the calls of
//! other clients.

use std::time::Duration;

use leno_http2::frame::kind;

use crate::peer::{
    Peer, Server, answer, call, call_with, data, frame, headers, message, open_call, open_post, rst_stream, settings,
};
use crate::policies::traffic_policy;
use crate::proxy::{CallInFlight, Proxy, eventually, mesh_of, service};

const ENHANCE_YOUR_CALM: u32 = 0xb;

/// The client reads nothing of three responses, which are complete and larger than the limit together. It reads the
/// fourth response.
#[test]
fn a_call_that_its_client_reads_goes_on_while_too_much_waits_for_others() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let server = Server::start();
    let proxy = Proxy::start_with(&[server.address()], "", &[("max_buffered_bytes_per_client", "65536")]);
    let mut client = proxy.connect();
    client.send(&settings(&[(INITIAL_WINDOW_SIZE, 0)]));
    client.send(&[1, 3, 5, 7].map(call).concat());
    client.send(&frame(kind::WINDOW_UPDATE, 0, 7, &1_000_u32.to_be_bytes()));
    let mut endpoint = server.accept();
    let streams = [(); 4].map(|()| endpoint.expect(kind::HEADERS).stream);
    let answer = |stream, parts: &[usize]| {
        let last = parts.len() - 1;
        let content = parts.iter().enumerate().flat_map(move |(i, bytes)| data(stream, &vec![0; *bytes], i == last));
        [headers(stream, &[(":status", "200")], false), content.collect()].concat()
    };
    endpoint.send(&answer(streams[0], &[15_000, 15_000]));
    endpoint.send(&answer(streams[1], &[15_000, 15_000]));
    endpoint.send(&answer(streams[2], &[15_000]));
    let read = [
        headers(streams[3], &[(":status", "200"), ("content-type", "application/grpc")], false),
        data(streams[3], &message(5), false),
        headers(streams[3], &[("grpc-status", "0")], true),
    ];
    endpoint.send(&read.concat());
    assert_eq!(client.rest_of(7).last().expect("an answer").field("grpc-status"), "0");
}

/// The client reads nothing of ten responses that are not complete. It reads the last response slowly, so that more of
/// this response waits than of any other response.
#[test]
fn a_call_whose_client_reads_slowly_goes_on_and_calls_that_are_not_read_are_reset() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let server = Server::start();
    let proxy = Proxy::start_with(&[server.address()], "", &[("max_buffered_bytes_per_client", "65536")]);
    let mut client = proxy.connect();
    client.send(&settings(&[(INITIAL_WINDOW_SIZE, 0)]));
    client.send(&(1..=21).step_by(2).flat_map(call).collect::<Vec<u8>>());
    let mut endpoint = server.accept();
    let streams = [(); 11].map(|()| endpoint.expect(kind::HEADERS).stream);
    let begun = |stream, parts: &[usize]| {
        let content = parts.iter().flat_map(move |bytes| data(stream, &vec![0; *bytes], false));
        [headers(stream, &[(":status", "200")], false), content.collect()].concat()
    };
    // The content of the last response begins to wait first.
    for (stream, bytes) in streams.iter().rev().zip(std::iter::once(10_000).chain(std::iter::repeat(5_000))) {
        endpoint.send(&begun(*stream, &[bytes]));
        client.expect(kind::HEADERS);
    }
    std::thread::sleep(Duration::from_millis(50));
    // The client reads some of it, so it has waited for a shorter time than the other content.
    client.send(&frame(kind::WINDOW_UPDATE, 0, 21, &1_000_u32.to_be_bytes()));
    assert_eq!(client.expect(kind::DATA).payload.len(), 1_000);
    endpoint.send(&data(streams[10], &[0; 10_000], false));
    endpoint.send(&headers(streams[10], &[("grpc-status", "0")], true));

    let reset = client.expect(kind::RST_STREAM);
    assert_eq!(reset.payload, ENHANCE_YOUR_CALM.to_be_bytes());
    assert_ne!(reset.stream, 21);
    client.send(&frame(kind::WINDOW_UPDATE, 0, 21, &30_000_u32.to_be_bytes()));
    let frames = client.rest_of(21);
    let bytes: usize = frames.iter().filter(|frame| frame.kind == kind::DATA).map(|frame| frame.payload.len()).sum();
    assert_eq!((bytes, frames.last().expect("trailers").field("grpc-status")), (19_000, "0"));
    let calls = proxy.explain().calls;
    assert!((5..10).contains(&calls), "{calls} of the other ten calls go on");
}

/// Makes three calls, and ends each call by `end`. The arguments of `end` are the client and the call's stream. Returns
/// whether the proxy charges the client for resetting the calls at the endpoint: if it does, the next call uses another
/// connection. A policy allows each call a second.
fn is_charged_for(request: impl Fn(u32) -> Vec<u8>, end: impl Fn(&mut Peer, u32)) -> bool {
    let server = Server::start();
    let policy = traffic_policy("timeouts: {request: 1s}");
    let mesh = mesh_of(&(service("echo", &[server.address()], "") + &policy));
    let proxy = Proxy::start_in(mesh, &[("max_shared_cancels_per_account", "2")]);
    let mut client = proxy.connect();
    // The first call opens the connection, so that the deadlines of the others do not include it.
    client.send(&call(1));
    let mut endpoint = server.accept();
    let opened = endpoint.expect(kind::HEADERS).stream;
    endpoint.send(&answer(opened, "me"));
    client.rest_of(1);
    for stream in [3, 5, 7] {
        client.send(&request(stream));
        endpoint.expect(kind::HEADERS);
        end(&mut client, stream);
    }
    client.send(&call(9));
    let mut uses_own = None;
    eventually("the next call arrives", || {
        if server.accept_now().is_some() {
            uses_own = Some(true);
        } else if endpoint.has_input() && endpoint.frame().is_some_and(|frame| frame.kind == kind::HEADERS) {
            uses_own = Some(false);
        }
        uses_own.is_some()
    });
    uses_own == Some(true)
}

#[test]
fn a_client_is_charged_for_the_calls_that_it_cancels_or_that_reach_its_own_deadline() {
    assert!(is_charged_for(call, |client, stream| client.send(&rst_stream(stream, 8))));
    let in_a_hurry = |stream| call_with(stream, "grpc-timeout", "500m");
    assert!(is_charged_for(in_a_hurry, |client, stream| {
        assert_eq!(client.rest_of(stream)[0].field("leno-proxy-error"), "deadline-exceeded");
    }));
}

#[test]
fn a_client_is_not_charged_for_the_time_limit_of_a_rule() {
    assert!(!is_charged_for(call, |client, stream| {
        assert_eq!(client.rest_of(stream)[0].field("leno-proxy-error"), "request-timeout");
    }));
}

/// The server rejects a call because of a response that waits for another client, as Node.js does above 10 MB.
#[test]
fn a_connection_gets_no_more_calls_after_its_server_has_rejected_one_because_of_others() {
    let mut unread = CallInFlight::start(&call(1));
    let begun = headers(unread.stream, &[(":status", "200"), ("content-type", "application/grpc")], false);
    unread.endpoint.send(&begun);
    unread.client.expect(kind::HEADERS);
    let mut modest = unread.proxy.connect();
    modest.send(&call(1));
    let rejected = unread.endpoint.expect(kind::HEADERS).stream;
    unread.endpoint.send(&rst_stream(rejected, ENHANCE_YOUR_CALM));
    modest.rest_of(1);

    modest.send(&call(3));
    let mut other = unread.server.accept();
    let request = other.expect(kind::HEADERS);
    other.send(&answer(request.stream, "me"));
    assert_eq!(modest.expect(kind::HEADERS).field("from"), "me");
    unread.endpoint.send(&headers(unread.stream, &[("grpc-status", "0")], true));
    assert_eq!(unread.client.expect(kind::HEADERS).field("grpc-status"), "0", "the first call goes on");
}

/// The server has sent no content on the connection that all clients use, so the connection stays in use.
#[test]
fn a_client_whose_calls_the_server_rejects_uses_connections_of_its_own() {
    let limits = [("max_shared_cancels_per_account", "0")];
    let mut rejected = CallInFlight::start_with(&call(1), "", &limits);
    rejected.endpoint.send(&rst_stream(rejected.stream, ENHANCE_YOUR_CALM));
    rejected.client.rest_of(1);
    rejected.client.send(&call(3));
    let mut own = rejected.server.accept();
    own.expect(kind::HEADERS);
    let mut modest = rejected.proxy.connect();
    modest.send(&call(1));
    rejected.endpoint.expect(kind::HEADERS);
}

#[test]
fn a_client_beyond_its_share_uses_connections_of_its_own() {
    let server = Server::start();
    let proxy = Proxy::start_with(&[server.address()], "", &[("max_shared_calls_per_account", "2")]);
    let mut greedy = proxy.connect();
    greedy.send(&[call(1), call(3)].concat());
    let mut shared = server.accept();
    for _ in 0..2 {
        shared.expect(kind::HEADERS);
    }
    greedy.send(&[call(5), call(7)].concat());
    let mut own = server.accept();
    for _ in 0..2 {
        own.expect(kind::HEADERS);
    }
    let mut modest = proxy.connect();
    modest.send(&call(1));
    let request = shared.expect(kind::HEADERS);
    shared.send(&answer(request.stream, "me"));
    assert_eq!(modest.expect(kind::HEADERS).field("from"), "me");
}

#[test]
fn a_client_whose_requests_do_not_end_uses_connections_of_its_own() {
    let limits = [("max_shared_open_calls_per_account", "1")];
    let mut first = CallInFlight::start_with(&open_call(1), "", &limits);
    first.client.send(&[open_call(3), call(5)].concat());
    let mut own = first.server.accept();
    own.expect(kind::HEADERS);
    // Call 5, whose request has ended, uses the shared connection.
    first.endpoint.expect(kind::HEADERS);
    first.client.send(&data(1, b"", true));
    first.endpoint.expect(kind::DATA);
    first.client.send(&open_call(7));
    first.endpoint.expect(kind::HEADERS);
}

#[test]
fn content_of_a_few_bytes_in_many_frames_leaves_in_few() {
    let limits = [("max_dribbles_per_account", "0")];
    let mut call = CallInFlight::start_with(&open_call(1), "", &limits);
    call.client.send(&open_call(3));
    call.endpoint.expect(kind::HEADERS);
    let round = [data(1, b"x", false), data(3, b"y", false)].concat();
    call.client.send(&[round.repeat(299), data(1, b"x", true), data(3, b"y", true)].concat());
    let (mut frames, mut bytes, mut ended) = (0, 0, 0);
    while ended < 2 {
        let frame = call.endpoint.expect(kind::DATA);
        (frames, bytes, ended) = (frames + 1, bytes + frame.payload.len(), ended + usize::from(frame.ends_stream()));
    }
    assert_eq!(bytes, 600);
    assert!(frames <= 20, "{frames} frames for 600 bytes on two streams");
}

#[test]
fn a_message_of_a_few_bytes_is_not_held_back() {
    // The proxy forwards the content of a client that sends little at once. It does not collect such content: collected
    // content would wait for the next sweep, up to a tenth of a second.
    let mut call = CallInFlight::start(&open_call(1));
    for _ in 0..10 {
        call.client.send(&data(1, b"x", false));
        assert_eq!(call.endpoint.expect(kind::DATA).payload, b"x");
    }
}

#[test]
fn a_request_whose_content_stays_away_is_answered() {
    let mut call = CallInFlight::start_with(&open_post(1), "", &[("content_timeout_ms", "300")]);
    let late = call.client.expect(kind::HEADERS);
    assert_eq!((late.field(":status"), late.field("leno-proxy-error")), ("408", "content-late"));
    assert_eq!(call.proxy.metrics.abuse_count("late_content"), 1);
}

#[test]
fn a_request_whose_content_comes_slowly_and_a_silent_grpc_stream_go_on() {
    // The parts arrive for longer than the limit, and a part may be late by more than 2 s.
    let limits = [("content_timeout_ms", "3000")];
    let mut slow = CallInFlight::start_with(&open_post(1), "", &limits);
    let mut silent = slow.proxy.connect();
    silent.send(&open_call(1));
    let grpc = slow.endpoint.expect(kind::HEADERS);
    for _ in 0..10 {
        slow.client.send(&data(1, b"part of it", false));
        slow.endpoint.expect(kind::DATA);
        std::thread::sleep(Duration::from_millis(400));
    }
    slow.endpoint.send(&[answer(slow.stream, "me"), answer(grpc.stream, "me")].concat());
    assert_eq!(slow.client.expect(kind::HEADERS).field("from"), "me");
    assert_eq!(silent.expect(kind::HEADERS).field("from"), "me");
}

#[test]
fn a_request_that_was_answered_ends_if_its_content_stays_away() {
    for request in [open_post(1), open_call(1)] {
        let mut call = CallInFlight::start_with(&request, "", &[("content_timeout_ms", "300")]);
        call.endpoint.send(&answer(call.stream, "me"));
        call.client.expect(kind::HEADERS);
        call.client.expect(kind::RST_STREAM);
        call.endpoint.expect(kind::RST_STREAM);
    }
}
