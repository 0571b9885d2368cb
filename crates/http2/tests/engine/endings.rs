//! The ends of streams and connections: RST_STREAM (section 6.4), GOAWAY (section 6.8).

use leno_http2::frame::MAX_31_BITS;
use leno_http2::limits::RAPID_RESET_AGE;
use leno_http2::{ErrorCode, Limits, OpenError, Section};

use crate::endpoint::{Endpoint, Happening, data, headers, request, reset, response, section, trailers};
use crate::frames::{self, flag, kind};
use crate::pair::{Pair, seeds};

#[test]
fn a_client_cancels_a_call() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        let key = pair.client.open(&request(), false);
        pair.run();
        pair.client.http2.reset(key, ErrorCode::CANCEL);
        pair.run();
        assert_eq!(pair.server.take()[1], reset(1, ErrorCode::CANCEL, true));
        assert_eq!((pair.client.http2.stream_count(), pair.server.http2.stream_count()), (0, 0));
    }
}

#[test]
fn a_server_breaks_off_an_answer() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.client.open(&request(), false);
        pair.run();
        pair.server.respond(1, &response(), false);
        pair.server.send(1, b"half an", false);
        let key = pair.server.key(1);
        pair.server.http2.reset(key, ErrorCode::INTERNAL_ERROR);
        pair.run();
        assert_eq!(pair.client.take().last(), Some(&reset(1, ErrorCode::INTERNAL_ERROR, true)));
    }
}

#[test]
fn frames_that_cross_a_reset_are_ignored() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        let key = pair.client.open(&request(), false);
        pair.run();
        let server_key = pair.server.key(1);
        pair.server.http2.reset(server_key, ErrorCode::CANCEL);
        pair.client.send(1, b"under way", false);
        pair.client.trail(1, &section(&[("x-checksum", "1")]));
        pair.run();
        assert_eq!(pair.server.take().len(), 1, "only the request");

        let other = pair.client.open(&request(), true);
        pair.run();
        pair.server.respond(3, &response(), false);
        pair.server.send(3, b"under way", false);
        pair.server.trail(3, &trailers());
        pair.client.http2.reset(other, ErrorCode::CANCEL);
        pair.run();
        assert_eq!(pair.client.take(), [reset(key.id, ErrorCode::CANCEL, true)]);
        assert_eq!((pair.client.error, pair.server.error), (None, None));
    }
}

#[test]
fn content_after_the_peers_own_reset_ends_that_stream_only() {
    let mut server = Endpoint::server(Limits::server());
    // grpc-java sends content after its own RST_STREAM if a call is cancelled before its content was sent. This may
    // happen to thousands of calls.
    for id in (1..10_000).step_by(2) {
        server.feed(&frames::request(id));
        server.feed(&frames::rst_stream(id, ErrorCode::CANCEL.0));
        server.written();
        server.feed(&frames::data(id, b"late", false));
        let answer = frames::rst_stream(id, ErrorCode::STREAM_CLOSED.0);
        assert!(server.written().windows(answer.len()).any(|bytes| bytes == answer), "stream {id}");
        server.feed(&frames::data(id, b"later", true));
        assert_eq!(server.error, None, "stream {id}");
        server.wait(RAPID_RESET_AGE);
    }
}

#[test]
fn late_header_blocks_keep_the_tables_of_both_sides_equal() {
    let mut pair = Pair::new(1);
    let fields = |i: u32| section(&[(":status", "200"), ("x-table", &i.to_string())]);
    for i in 0..100 {
        let key = pair.client.open(&request(), true);
        pair.run();
        pair.server.respond(key.id, &fields(i / 5), false);
        if i % 3 == 0 {
            pair.client.http2.reset(key, ErrorCode::CANCEL);
        }
        pair.run();
        let arrived = pair.client.take();
        let expected = headers(key.id, Section::Response, &fields(i / 5), false);
        assert_eq!(arrived, if i % 3 == 0 { vec![] } else { vec![expected] });
    }
}

#[test]
fn a_server_ends_in_two_steps_and_loses_no_request() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.client.open(&request(), true);
        pair.run();
        pair.server.http2.shut_down();
        pair.client.open(&request(), true);
        pair.run();
        assert!(!pair.server.http2.is_drained());
        let goaways = [
            Happening::GoAway { last_stream: MAX_31_BITS, code: ErrorCode::NO_ERROR },
            Happening::GoAway { last_stream: 3, code: ErrorCode::NO_ERROR },
        ];
        assert_eq!(pair.client.take(), goaways);
        assert_eq!(pair.client.http2.open(pair.client.now, 0, &request(), true), Err(OpenError::Closed));
        pair.server.respond(1, &response(), true);
        pair.server.respond(3, &response(), true);
        assert!(pair.server.http2.is_drained());
        pair.run();
        assert_eq!(pair.client.take().len(), 2);
    }
}

#[test]
fn a_client_ends_in_two_steps_and_hears_its_answers() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.client.open(&request(), true);
        pair.client.http2.shut_down();
        assert!(!pair.client.http2.takes_streams());
        pair.run();
        pair.server.respond(1, &response(), true);
        pair.run();
        assert_eq!(pair.client.take(), [headers(1, Section::Response, &response(), true)]);
        assert!(pair.client.http2.is_drained());
    }
}

#[test]
fn shutting_down_twice_says_it_once() {
    let mut server = Endpoint::server(Limits::server());
    server.http2.shut_down();
    server.http2.shut_down();
    let kinds: Vec<_> = server.sent().iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, [kind::GOAWAY, kind::PING]);
    server.http2.go_away(ErrorCode::NO_ERROR, "grace is over");
    server.http2.go_away(ErrorCode::NO_ERROR, "grace is over");
    assert_eq!(server.sent().len(), 1);
    assert!(server.http2.is_drained());
}

#[test]
fn requests_after_the_final_goaway_are_ignored_and_may_go_elsewhere() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::request(1));
    server.http2.go_away(ErrorCode::NO_ERROR, "");
    server.written();
    server.feed(&frames::request(3));
    server.feed(&frames::data(3, b"unheard", true));
    server.feed(&frames::data(1, b"heard", true));
    assert_eq!(server.take().last(), Some(&data(1, b"heard", true)));
    assert_eq!(server.sent(), []);
}

#[test]
fn an_error_after_the_final_goaway_does_not_raise_the_last_stream() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::request(1));
    server.http2.go_away(ErrorCode::NO_ERROR, "");
    server.feed(&frames::request(3));
    server.feed(&frames::data(0, b"", true));
    let last_streams: Vec<_> =
        server.sent().iter().filter(|frame| frame.kind == kind::GOAWAY).map(frames::Frame::value).collect();
    assert_eq!(last_streams, [1, 1]);
}

#[test]
fn streams_above_a_goaway_are_known_and_can_be_abandoned() {
    let mut client = Endpoint::client(Limits::client());
    for token in 0..4 {
        client.http2.open(client.now, token, &request(), true).expect("the stream can be opened");
    }
    client.written();
    client.feed(&frames::goaway(3, 0));
    assert_eq!(client.take(), [Happening::GoAway { last_stream: 3, code: ErrorCode::NO_ERROR }]);
    assert_eq!(client.http2.goaway_received(), Some(3));
    let above = client.http2.streams_above(3);
    assert_eq!(above.iter().map(|(key, token)| (key.id, *token)).collect::<Vec<_>>(), [(5, 2), (7, 3)]);
    above.iter().for_each(|(key, _)| client.http2.abandon(*key));
    assert_eq!((client.http2.stream_count(), client.sent()), (2, vec![]));
    client.feed(&frames::headers(5, &[(":status", "200")], true));
    client.feed(&frames::headers(1, &[(":status", "200")], true));
    assert_eq!(client.take(), [headers(1, Section::Response, &section(&[(":status", "200")]), true)]);
}

#[test]
fn the_last_stream_of_several_goaways_only_falls() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), true);
    let mut falling = Vec::new();
    for last in [MAX_31_BITS, 9, 11, 5] {
        client.feed(&frames::goaway(last, 0));
        falling.push(client.http2.goaway_received());
    }
    assert_eq!(falling, [Some(MAX_31_BITS), Some(9), Some(9), Some(5)]);
    let goaways = [MAX_31_BITS, 9, 5].map(|last_stream| Happening::GoAway { last_stream, code: ErrorCode::NO_ERROR });
    assert_eq!(client.take(), goaways, "a GOAWAY that excludes no further stream is no event");
}

#[test]
fn a_goaway_with_another_error_code_is_reported_even_if_it_excludes_no_further_stream() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), true);
    for (last, code) in [(1, 0), (1, 2), (3, 2), (MAX_31_BITS, 11)] {
        client.feed(&frames::goaway(last, code));
    }
    let goaways = [0, 2, 11].map(|code| Happening::GoAway { last_stream: 1, code: ErrorCode(code) });
    assert_eq!(client.take(), goaways);
}

#[test]
fn a_reset_of_a_stream_that_has_ended_is_ignored() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), true);
    client.feed(&frames::headers(1, &[(":status", "200")], true));
    client.feed(&frames::rst_stream(1, 0));
    client.feed(&frames::window_update(1, 1));
    assert_eq!((client.take().len(), client.error), (1, None));
}

#[test]
fn pings_are_answered_and_ours_are_asked() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.client.http2.ping();
        pair.run();
        assert_eq!((pair.server.take(), pair.client.take()), (vec![], vec![]));
    }
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::ping());
    let sent = server.sent();
    assert_eq!((sent[0].kind, sent[0].flags, &sent[0].payload[..]), (kind::PING, flag::ACK, &b"12345678"[..]));
}
