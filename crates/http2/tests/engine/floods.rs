//! Each flood closes the connection at its limit and not before. Correct peers do not come near a limit.

use std::time::Duration;

use leno_http2::limits::{FLOOD_WINDOW, RAPID_RESET_AGE};
use leno_http2::{ConnectionError, ErrorCode, Event, FieldSection, Flood, Limits, Section, Violation};

use crate::endpoint::{Endpoint, request, response, trailers};
use crate::frames::{self, flag, frame, kind};
use crate::pair::Pair;

fn closed_for(flood: Flood) -> Option<ConnectionError> {
    Some(ConnectionError { code: ErrorCode::ENHANCE_YOUR_CALM, why: Violation::Flood(flood) })
}

/// Checks that `event` may happen `allowed` times in a period, and again in the next period, but not more often.
#[track_caller]
fn assert_limit(mut server: Endpoint, flood: Flood, allowed: u32, mut event: impl FnMut(&mut Endpoint, u32)) {
    for i in 0..2 * allowed {
        if i == allowed {
            server.wait(FLOOD_WINDOW);
        }
        event(&mut server, i);
        server.written();
        assert_eq!(server.error, None, "event {i} of {allowed}");
    }
    event(&mut server, 2 * allowed);
    assert_eq!(server.error, closed_for(flood));
}

/// Small and distinct limits, so that each test exceeds only its own limit.
fn strict() -> Limits {
    Limits {
        max_rapid_resets: 11,
        max_stream_errors: 12,
        max_pings: 13,
        max_settings: 14,
        max_empty_frames: 16,
        max_priority_frames: 15,
        max_window_updates: 17,
        max_dribbled_frames: 18,
        max_oversize_sections: 19,
        max_goaways: 20,
        max_continuation_frames: 4,
        ..Limits::server()
    }
}

fn server() -> Endpoint {
    Endpoint::server(strict())
}

fn server_with_stream() -> Endpoint {
    let mut server = server();
    server.feed(&frames::request(1));
    server
}

#[test]
fn rapid_resets() {
    assert_limit(server(), Flood::RapidReset, 11, |server, i| {
        server.feed(&[frames::request(1 + 2 * i), frames::rst_stream(1 + 2 * i, 8)].concat());
    });
}

#[test]
fn stream_errors_of_the_peers_making() {
    assert_limit(server(), Flood::MadeYouReset, 12, |server, i| {
        server.feed(&[frames::request(1 + 2 * i), frames::window_update(1 + 2 * i, 0)].concat());
    });
    assert_limit(server(), Flood::MadeYouReset, 12, |server, i| {
        server.feed(&frames::headers(1 + 2 * i, &[(":path", "/")], true));
    });
}

#[test]
fn refused_streams() {
    let mut server = Endpoint::server(Limits { max_concurrent_streams: 1, ..strict() });
    server.feed(&frames::request(1));
    assert_limit(server, Flood::MadeYouReset, 12, |server, i| server.feed(&frames::request(3 + 2 * i)));
}

#[test]
fn continuations_by_number() {
    let block = frames::block(&frames::REQUEST);
    let start = frame(kind::HEADERS, 0, 1, &block);
    let mut bytes = start.clone();
    (0..4).for_each(|_| bytes.extend_from_slice(&frame(kind::CONTINUATION, 0, 1, b"\0\x01a\x01b")));
    let mut server = server();
    server.feed(&bytes);
    assert_eq!(server.error, None);
    server.feed(&frame(kind::CONTINUATION, flag::END_HEADERS, 1, b"\0\x01a\x01b"));
    assert_eq!(server.error, closed_for(Flood::Continuation));
}

#[test]
fn continuations_by_bytes() {
    let mut server = Endpoint::server(Limits { max_header_block_bytes: 20_000, ..strict() });
    let mut block = frames::block(&frames::REQUEST);
    block.extend_from_slice(&frames::block(&[("x", &"y".repeat(16_000))]));
    server.feed(&frame(kind::HEADERS, 0, 1, &block));
    let more = frames::block(&[("z", &"z".repeat(20_000 - block.len() - 6))]);
    server.feed(&frame(kind::CONTINUATION, 0, 1, &more));
    assert_eq!(server.error, None);
    server.feed(&frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[0; 8]));
    assert_eq!(server.error, closed_for(Flood::Continuation));
}

#[test]
fn pings() {
    assert_limit(server(), Flood::Ping, 13, |server, _| server.feed(&frames::ping()));
}

#[test]
fn settings() {
    // Wait for the next period, since the SETTINGS of the handshake also count in the current period.
    let mut server = server();
    server.wait(FLOOD_WINDOW);
    assert_limit(server, Flood::Settings, 14, |server, i| server.feed(&frames::settings(&[(4, i)])));
}

#[test]
fn acknowledgements_of_nothing() {
    assert_limit(server(), Flood::Ping, 13, |server, _| server.feed(&frame(kind::PING, flag::ACK, 0, b"12345678")));
    // The SETTINGS of the handshake also count in the current period. Their acknowledgement does not count.
    let mut server = server();
    server.wait(FLOOD_WINDOW);
    assert_limit(server, Flood::Settings, 14, |server, _| server.feed(&frame(kind::SETTINGS, flag::ACK, 0, &[])));
}

#[test]
fn goaways() {
    assert_limit(server(), Flood::GoAway, 20, |server, _| server.feed(&frames::goaway(0, 0)));
}

#[test]
fn resets_of_a_stream_that_has_ended() {
    let mut server = server();
    server.feed(&frames::whole_request(1));
    server.respond(1, &response(), true);
    server.written();
    server.wait(FLOOD_WINDOW);
    // The client may have sent one RST_STREAM before it received the response, and another to answer the response.
    server.feed(&frames::rst_stream(1, 8).repeat(2));
    assert_limit(server, Flood::EmptyFrames, 16, |server, _| server.feed(&frames::rst_stream(1, 8)));
}

#[test]
fn empty_frames() {
    let events: [fn() -> Vec<u8>; 4] = [
        || frames::data(1, b"", false),
        || frame(0xee, 0, 0, b""),
        // A section for stream 3, which was reset, counts as an empty frame.
        || frames::request(3),
        || [frame(kind::HEADERS, 0, 3, b""), frame(kind::CONTINUATION, flag::END_HEADERS, 3, &[])].concat(),
    ];
    for (event, empty_frames) in events.into_iter().zip([1, 1, 1, 3]) {
        let mut server = server_with_stream();
        server.feed(&frames::request(3));
        server.http2.reset(server.key(3), ErrorCode::CANCEL);
        server.wait(FLOOD_WINDOW);
        assert_limit(server, Flood::EmptyFrames, 16 / empty_frames, |server, _| server.feed(&event()));
    }
}

#[test]
fn responses_to_a_request_that_the_client_has_cancelled() {
    let mut client = Endpoint::client(Limits { max_empty_frames: 16, ..Limits::client() });
    let key = client.open(&request(), true);
    client.written();
    client.http2.reset(key, ErrorCode::CANCEL);
    client.wait(FLOOD_WINDOW);
    assert_limit(client, Flood::EmptyFrames, 16, |client, _| {
        client.feed(&frames::headers(1, &[(":status", "200")], false));
    });
}

#[test]
fn priorities() {
    assert_limit(server(), Flood::Priority, 15, |server, _| server.feed(&frame(kind::PRIORITY, 0, 9, &[0; 5])));
}

#[test]
fn window_updates_without_anything_sent() {
    assert_limit(server_with_stream(), Flood::WindowUpdate, 17, |server, i| {
        server.feed(&frames::window_update(i % 2, 1));
    });
}

#[test]
fn dribbled_data() {
    // An opened stream allows eight more frames in its period. Wait for the next period, so that only the limit
    // applies.
    let mut server = server_with_stream();
    server.wait(FLOOD_WINDOW);
    assert_limit(server, Flood::DataDribble, 18, |server, _| server.feed(&frames::data(1, b"x", false)));
}

#[test]
fn pieces_of_a_few_bytes_in_a_tunnel_are_fine() {
    let mut server = server();
    let connect = frames::block(&[(":method", "CONNECT"), (":authority", "b.a:1")]);
    server.feed(&frame(kind::HEADERS, flag::END_HEADERS, 1, &connect));
    server.wait(FLOOD_WINDOW);
    for _ in 0..1_000 {
        server.feed(&frames::data(1, b"x", false));
    }
    assert_eq!(server.error, None);
}

#[test]
fn windows_that_let_data_out_byte_by_byte() {
    let mut server = server();
    server.feed(&frames::settings(&[(4, 0)]));
    server.feed(&frames::whole_request(1));
    server.respond(1, &response(), false);
    server.send(1, &[0; 1_000], true);
    server.wait(FLOOD_WINDOW);
    assert_limit(server, Flood::DataDribble, 18, |server, _| {
        server.feed(&frames::window_update(1, 1));
        server.written();
        server.feed(b"");
    });
}

#[test]
fn field_sections_over_the_limit() {
    let large = frames::block(&[&frames::REQUEST[..], &[("a", "b"); 500]].concat());
    assert_limit(server(), Flood::HeaderList, 19, |server, i| {
        server.feed(&frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1 + 2 * i, &large));
    });
}

#[test]
fn output_that_a_server_does_not_read() {
    let mut client = Endpoint::client(Limits { max_unread_output_bytes: 500, ..Limits::client() });
    for _ in 0..30 {
        client.feed(&frames::ping());
    }
    assert!(client.error.is_none() && client.http2.pending_output() > 500 && !client.http2.is_paused());
    client.feed(&frames::ping());
    assert_eq!(client.error, closed_for(Flood::UnreadOutput));
}

#[test]
fn a_client_that_does_not_read_is_not_read() {
    let mut server = Endpoint::server(Limits { max_unread_output_bytes: 500, ..Limits::server() });
    let requests: Vec<u8> = (0..100).flat_map(|i| frames::whole_request(1 + 2 * i)).collect();
    let mut input = &requests[..];
    let mut fields = FieldSection::new();
    while let Some(Event::Headers { stream, .. }) =
        server.http2.receive(server.now, &mut input, &mut fields).expect("the client is honest")
    {
        server.http2.send_headers(stream, Section::Response, &response(), true);
    }
    assert!(server.http2.is_paused() && !input.is_empty() && server.http2.stream_count() == 0);
    let pending = server.http2.pending_output();
    assert!(pending < 600, "{pending}");
    server.feed(input);
    assert_eq!((server.take(), server.http2.pending_output()), (vec![], pending));

    server.written();
    assert!(!server.http2.is_paused());
    server.feed(input);
    assert_eq!((server.take().is_empty(), server.error), (false, None));
}

#[test]
fn a_limit_of_zero_forbids() {
    let mut server = Endpoint::server(Limits { max_pings: 0, ..Limits::server() });
    server.feed(&frames::ping());
    assert_eq!(server.error, closed_for(Flood::Ping));
}

#[test]
fn every_flood_has_a_label_of_its_own() {
    use Flood::*;
    let all = [
        RapidReset,
        MadeYouReset,
        Continuation,
        Ping,
        Settings,
        EmptyFrames,
        Priority,
        WindowUpdate,
        DataDribble,
        UnreadOutput,
        HeaderList,
        GoAway,
    ];
    let labels: std::collections::HashSet<_> = all.iter().map(|flood| flood.label()).collect();
    assert_eq!((all.len(), labels.len()), (Flood::COUNT, Flood::COUNT));
}

// --- correct peers ---

#[test]
fn a_hundred_thousand_calls_in_a_few_seconds_are_fine() {
    let mut pair = Pair::new(0);
    for round in 0..1_000 {
        let streams: Vec<u32> = (0..100)
            .map(|_| {
                let key = pair.client.open(&request(), false);
                pair.client.send(key.id, &[0; 20], true);
                key.id
            })
            .collect();
        while pair.server.http2.stream_count() < 100 {
            pair.step();
        }
        pair.run();
        for stream in streams {
            pair.server.respond(stream, &response(), false);
            pair.server.send(stream, &[0; 20], false);
            pair.server.trail(stream, &trailers());
        }
        pair.run();
        assert_eq!((pair.client.error, pair.server.error), (None, None), "round {round}");
        assert_eq!(pair.client.http2.stream_count(), 0);
        assert_eq!((pair.client.take().len(), pair.server.take().len()), (300, 200));
    }
}

#[test]
fn ten_thousand_calls_that_are_cancelled_later_are_fine() {
    let mut server = Endpoint::server(Limits::server());
    for i in 0..10_000 {
        server.feed(&frames::request(1 + 2 * i));
        if let Some(old) = i.checked_sub(100) {
            server.feed(&frames::rst_stream(1 + 2 * old, 8));
        }
        server.wait(RAPID_RESET_AGE / 100);
    }
    assert_eq!(server.error, None);
}

/// If a deadline passes for all calls at once, the client resets its streams before our responses arrive.
#[test]
fn a_reset_of_each_of_ten_thousand_streams_that_have_just_ended_is_fine() {
    let mut server = Endpoint::server(Limits::server());
    let streams = (0..10_000).map(|i| 1 + 2 * i);
    for stream in streams.clone() {
        server.feed(&frames::whole_request(stream));
    }
    // The resets may arrive in a later period than the requests and the responses.
    server.wait(2 * FLOOD_WINDOW);
    server.feed(&frames::ping());
    for stream in streams.clone() {
        server.respond(stream, &response(), true);
    }
    server.written();
    server.wait(FLOOD_WINDOW);
    for stream in streams {
        server.feed(&frames::rst_stream(stream, 8));
    }
    assert_eq!(server.error, None);
}

/// Go's `net/http` answers each DATA frame on a stream that it has ended with RST_STREAM.
#[test]
fn a_reset_for_each_frame_that_arrives_on_a_closed_stream_is_fine() {
    for periods in [0_u32, 1] {
        let mut client = Endpoint::client(Limits { max_empty_frames: 0, ..Limits::client() });
        client.open(&request(), false);
        for _ in 0..40 {
            client.send(1, &[0; 1_000], false);
            client.written();
        }
        client.feed(&frames::rst_stream(1, 0));
        // One for the stream, and one for each of its 41 frames.
        client.feed(&frames::rst_stream(1, 5).repeat(10));
        client.wait(periods * FLOOD_WINDOW);
        client.feed(&frames::rst_stream(1, 5).repeat(32));
        assert_eq!(client.error, None);
        client.feed(&frames::rst_stream(1, 5));
        assert_eq!(client.error, closed_for(Flood::EmptyFrames));
    }
}

#[test]
fn an_answer_to_each_of_our_pings_is_fine() {
    let mut client = Endpoint::client(Limits { max_pings: 0, ..Limits::client() });
    let answer = frame(kind::PING, flag::ACK, 0, b"lenolive");
    for _ in 0..1_000 {
        client.http2.ping();
        client.written();
        client.feed(&answer);
    }
    assert_eq!(client.error, None);
    client.feed(&answer);
    assert_eq!(client.error, closed_for(Flood::Ping));
}

#[test]
fn a_client_that_hedges_half_of_its_calls_is_fine() {
    let mut server = Endpoint::server(Limits::server());
    for i in 0..10_000 {
        server.feed(&frames::whole_request(1 + 4 * i));
        server.feed(&[frames::request(3 + 4 * i), frames::rst_stream(3 + 4 * i, 8)].concat());
        server.respond(1 + 4 * i, &response(), true);
        server.written();
        server.wait(Duration::from_millis(1));
    }
    assert_eq!(server.error, None);
}

/// Returns a server that has begun to answer on stream 1. The stream has a window of `window_bytes`.
fn answering_server(window_bytes: u32) -> Endpoint {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::settings(&[(4, window_bytes)]));
    server.feed(&[frames::window_update(0, 1 << 30), frames::whole_request(1)].concat());
    server.respond(1, &response(), false);
    server
}

/// grpc-go and gRPC's C core measure the bandwidth with a PING after each read that brought DATA.
#[test]
fn pings_that_measure_bandwidth_while_data_flows_are_fine() {
    let mut server = answering_server(1 << 30);
    for _ in 0..20_000 {
        server.send(1, &[0; 1_000], false);
        server.written();
        server.feed(&frames::ping());
        server.written();
        server.wait(Duration::from_micros(100));
    }
    assert_eq!(server.error, None);
}

/// grpc-go returns credit for the stream and the connection after each message.
#[test]
fn window_updates_for_each_message_are_fine() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::whole_request(1));
    server.respond(1, &response(), false);
    for _ in 0..100_000 {
        server.send(1, &[0; 100], false);
        server.written();
        server.feed(&[frames::window_update(1, 100), frames::window_update(0, 100)].concat());
        server.wait(Duration::from_micros(20));
    }
    assert_eq!((server.error, server.http2.queued_bytes()), (None, 0));
}

/// An application may read content long after it was sent.
#[test]
fn window_updates_for_content_of_earlier_periods_are_fine() {
    let mut server = answering_server(16 << 20);
    for _ in 0..1_000 {
        server.send(1, &[0; 16_384], false);
        server.written();
    }
    for _ in 0..3 {
        server.wait(FLOOD_WINDOW);
        server.feed(&frames::ping());
        server.written();
    }
    let credit = [frames::window_update(1, 4_096), frames::window_update(0, 4_096)].concat();
    server.feed(&credit.repeat(4_000));
    assert_eq!(server.error, None);
    server.feed(&credit.repeat(4_000));
    assert_eq!(server.error, closed_for(Flood::WindowUpdate));
}

/// Go returns credit for 4 KiB at a time to an application that reads in pieces of this size.
#[test]
fn window_updates_for_each_piece_that_a_go_client_reads_are_fine() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::whole_request(1));
    server.respond(1, &response(), false);
    for _ in 0..10_000 {
        server.send(1, &[0; 16_384], false);
        server.written();
        let credit = [frames::window_update(1, 4_096), frames::window_update(0, 4_096)].concat();
        server.feed(&credit.repeat(4));
        server.wait(Duration::from_micros(100));
    }
    assert_eq!((server.error, server.http2.queued_bytes()), (None, 0));
}

#[test]
fn a_stream_of_small_messages_is_fine() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::request(1));
    for _ in 0..100_000 {
        server.feed(&frames::data(1, &[0; 25], false));
        server.wait(Duration::from_micros(50));
    }
    assert_eq!(server.error, None);
}

/// Browsers send PRIORITY_UPDATE (RFC 9218) with each request.
#[test]
fn an_extension_frame_with_each_request_is_fine() {
    const PRIORITY_UPDATE: u8 = 0x10;
    let mut server = Endpoint::server(Limits::server());
    for i in 0..10_000 {
        server.feed(&[frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"), frames::whole_request(1 + 2 * i)].concat());
        server.respond(1 + 2 * i, &response(), true);
        server.written();
    }
    assert_eq!(server.error, None);
}

#[test]
fn hundreds_of_rapid_resets_a_second_are_use_and_thousands_are_a_flood() {
    let mut server = Endpoint::server(Limits::server());
    let mut streams = (1..).step_by(2);
    let mut reset_one = |server: &mut Endpoint| {
        let stream = streams.next().expect("there are more");
        server.feed(&[frames::request(stream), frames::rst_stream(stream, 8)].concat());
        server.written();
    };
    for _ in 0..60 * 200 {
        reset_one(&mut server);
        server.wait(Duration::from_millis(5));
    }
    assert_eq!(server.error, None);
    for _ in 0..1_000 {
        reset_one(&mut server);
        server.wait(Duration::from_micros(100));
    }
    assert_eq!(server.error, closed_for(Flood::RapidReset));
}

#[test]
fn a_client_may_reset_as_many_streams_at_birth_as_it_had_answered() {
    let mut server = Endpoint::server(Limits { rapid_resets_per_second: 0, ..Limits::server() });
    let mut streams = (1..).step_by(2);
    for _ in 0..2_000 {
        for answered in [true, false] {
            let stream = streams.next().expect("there are more");
            server.feed(&frames::request(stream));
            if answered {
                server.respond(stream, &response(), true);
            } else {
                server.feed(&frames::rst_stream(stream, 8));
            }
            server.written();
        }
    }
    assert_eq!(server.error, None);
}
