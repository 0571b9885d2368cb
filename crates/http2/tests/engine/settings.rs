//! SETTINGS at any time (RFC 9113 section 6.5).

use std::sync::Arc;

use leno_http2::{Connection, Limits, OpenError, PeerSettings, Role};

use crate::endpoint::{Endpoint, Happening, data, headers, request, reset, response, section};
use crate::frames::{self, flag, kind};
use crate::pair::{Pair, seeds};

const HEADER_TABLE_SIZE: u16 = 1;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const MAX_FRAME_SIZE: u16 = 5;

#[test]
fn each_side_learns_what_the_other_announces() {
    for seed in seeds() {
        let server = Limits {
            max_concurrent_streams: 7,
            initial_window_bytes: 100_000,
            max_frame_bytes: 20_000,
            max_header_list_bytes: 5_000,
            header_table_bytes: 1_000,
            ..Limits::server()
        };
        let pair = Pair::with_limits(seed, Limits::client(), server);
        let learned = PeerSettings {
            header_table_bytes: 1_000,
            max_concurrent_streams: 7,
            initial_window_bytes: 100_000,
            max_frame_bytes: 20_000,
            max_header_list_bytes: 5_000,
        };
        assert_eq!(*pair.client.http2.peer_settings(), learned);
        assert_eq!(pair.server.http2.peer_settings().max_header_list_bytes, Limits::client().max_header_list_bytes);
        assert_eq!(pair.server.http2.send_window_bytes(), Limits::client().connection_window_bytes as usize);
    }
}

#[test]
fn settings_are_acknowledged_and_told_to_the_owner() {
    let mut client = Endpoint::client(Limits::client());
    client.feed(&frames::settings(&[(MAX_CONCURRENT_STREAMS, 3), (0xff00, 9)]));
    assert_eq!(client.take(), [Happening::Settings]);
    let sent = client.sent();
    assert_eq!((sent.len(), sent[0].kind, sent[0].flags), (1, kind::SETTINGS, flag::ACK));
}

#[test]
fn a_connection_is_established_by_the_peers_settings() {
    let mut client = Connection::new(Role::Client, Arc::new(Limits::client()), std::time::Instant::now());
    assert!(!client.is_established());
    let bytes = frames::settings(&[]);
    let mut input = &bytes[..];
    client.receive(std::time::Instant::now(), &mut input, &mut request()).expect("settings are fine");
    assert!(client.is_established());
}

#[test]
fn requests_before_the_servers_settings_are_answered() {
    for seed in seeds() {
        let server = Limits { header_table_bytes: 0, initial_window_bytes: 500_000, ..Limits::server() };
        let mut pair = Pair::unacquainted(seed, Limits::client(), server);
        for stream in [1, 3, 5, 7] {
            pair.client.open(&request(), false);
            pair.client.send(stream, &[stream as u8; 10_000], true);
        }
        pair.run();
        for stream in [1, 3, 5, 7] {
            pair.server.respond(stream, &response(), true);
        }
        pair.run();
        assert_eq!(pair.client.take().len(), 1 + 4);
    }
}

#[test]
fn a_table_that_is_smaller_than_the_default_works_from_the_first_request() {
    for seed in seeds() {
        for header_table_bytes in [0, 100, 1_000] {
            let server = Limits { header_table_bytes, ..Limits::server() };
            let mut pair = Pair::unacquainted(seed, Limits::client(), server);
            let mut fields = request();
            fields.push(b"x-first", &[b'x'; 900]);
            for i in 0..20 {
                fields.set(leno_http2::fields::Known::UserAgent, format!("agent {}", i / 4).as_bytes());
                pair.client.open(&fields, true);
                pair.step();
            }
            pair.run();
            assert_eq!((pair.server.error, pair.client.error), (None, None));
            assert_eq!(pair.server.http2.stream_count(), 20);
        }
    }
}

#[test]
fn a_window_that_is_smaller_than_the_default_holds_once_it_is_acknowledged() {
    for seed in seeds() {
        let server = Limits { initial_window_bytes: 1_000, max_stream_window_bytes: 1_000, ..Limits::server() };
        let mut pair = Pair::unacquainted(seed, Limits::client(), server);
        pair.client.open(&request(), false);
        assert_eq!(pair.client.send(1, &[1; 45_000], false), 45_000, "the server's settings have not come");
        pair.run();
        assert_eq!(pair.server.take().last(), Some(&data(1, &[1; 45_000], false)));
        pair.server.releases = false;
        assert!((501..=1_000).contains(&pair.client.send(1, &[2; 45_000], true)));
        pair.run();
        let key = pair.server.key(1);
        while pair.client.http2.queued_bytes() > 0 {
            pair.server.http2.release(key, 500);
            pair.run();
        }
        assert_eq!(pair.server.take(), [data(1, &[2; 45_000], true)]);
    }
}

#[test]
fn a_stream_may_end_while_its_window_is_negative() {
    for seed in seeds() {
        let server = Limits { initial_window_bytes: 1_000, max_stream_window_bytes: 1_000, ..Limits::server() };
        let mut pair = Pair::unacquainted(seed, Limits::client(), server);
        pair.server.releases = false;
        pair.client.open(&request(), false);
        pair.client.send(1, &[1; 45_000], false);
        pair.run();
        pair.client.send(1, b"", true);
        pair.run();
        assert_eq!(pair.server.take().last(), Some(&data(1, &[1; 45_000], true)));
    }
}

#[test]
fn the_encoder_follows_a_table_size_that_changes_between_requests() {
    for seed in seeds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut client = Endpoint::client(Limits::client());
        let mut decoder = leno_http2::hpack::Decoder::new(4_096);
        for stream in (1..200).step_by(2) {
            let mut fields = request();
            fields.push(format!("x-field-{}", rng.u8(0..20)).as_bytes(), &[b'v'; 300]);
            client.open(&fields, true);
            for frame in client.sent().into_iter().filter(|frame| frame.kind == kind::HEADERS) {
                let mut decoded = leno_http2::FieldSection::new();
                decoder.decode(&frame.payload, 1 << 20, &mut decoded).expect("the tables agree");
                let arrived = crate::endpoint::strings(&decoded);
                assert_eq!((arrived, frame.stream), (crate::endpoint::strings(&fields), stream));
            }
            if rng.u8(0..4) == 0 {
                for size in [rng.u32(0..5_000), rng.u32(0..5_000)] {
                    client.feed(&frames::settings(&[(HEADER_TABLE_SIZE, size)]));
                    decoder.set_max_table_size(size as usize);
                }
                client.wait(leno_http2::limits::FLOOD_WINDOW);
            }
        }
    }
}

#[test]
fn a_larger_frame_size_is_used_when_it_is_announced() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), false);
    client.feed(&frames::settings(&[(MAX_FRAME_SIZE, 30_000)]));
    client.written();
    client.send(1, &[0; 40_000], true);
    let sizes: Vec<_> = client.sent().iter().map(|frame| frame.payload.len()).collect();
    assert_eq!(sizes, [30_000, 10_000]);
}

#[test]
fn frames_as_large_as_we_announced_are_taken() {
    for seed in seeds() {
        let large = |limits: Limits| Limits { max_frame_bytes: 45_000, ..limits };
        let mut pair = Pair::with_limits(seed, large(Limits::client()), large(Limits::server()));
        pair.client.open(&request(), false);
        pair.client.send(1, &[5; 45_000], true);
        pair.run();
        let arrived = [headers(1, leno_http2::Section::Request, &request(), false), data(1, &[5; 45_000], true)];
        assert_eq!(pair.server.take(), arrived);
    }
}

#[test]
fn the_servers_stream_limit_stops_open_until_a_stream_ends() {
    for seed in seeds() {
        let mut pair =
            Pair::with_limits(seed, Limits::client(), Limits { max_concurrent_streams: 2, ..Limits::server() });
        pair.client.open(&request(), true);
        pair.client.open(&request(), true);
        let refused = pair.client.http2.open(pair.client.now, 0, &request(), true);
        assert_eq!(refused, Err(OpenError::StreamLimit));
        assert!(pair.client.http2.takes_streams());
        pair.run();
        pair.server.respond(1, &response(), true);
        pair.run();
        assert_eq!(pair.client.open(&request(), true).id, 5);
    }
}

#[test]
fn a_stream_limit_that_is_lowered_holds_for_new_streams_only() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), true);
    client.open(&request(), true);
    client.feed(&frames::settings(&[(MAX_CONCURRENT_STREAMS, 1)]));
    assert_eq!(client.http2.stream_count(), 2);
    client.feed(&frames::headers(1, &[(":status", "200")], true));
    assert_eq!(client.http2.open(client.now, 0, &request(), true), Err(OpenError::StreamLimit));
    client.feed(&frames::headers(3, &[(":status", "200")], true));
    client.open(&request(), true);
}

#[test]
fn streams_over_our_limit_are_refused_and_the_others_go_on() {
    let mut server = Endpoint::server(Limits { max_concurrent_streams: 2, ..Limits::server() });
    for stream in [1, 3, 5] {
        server.feed(&frames::request(stream));
    }
    server.feed(&frames::data(5, b"on its way already", true));
    server.feed(&frames::data(3, b"fine", true));
    assert_eq!(server.take().last(), Some(&data(3, b"fine", true)));
    let sent = server.sent();
    assert_eq!((sent.len(), sent[0].kind, sent[0].stream, sent[0].value()), (1, kind::RST_STREAM, 5, 7));
}

#[test]
fn a_refused_stream_is_told_to_the_client() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&section(&[(":method", "GET"), (":scheme", "http"), (":path", "/")]), true);
    client.feed(&frames::rst_stream(1, 7));
    assert_eq!(client.take(), [reset(1, leno_http2::ErrorCode::REFUSED_STREAM, true)]);
}

#[test]
fn a_server_opens_no_streams() {
    let mut server = Endpoint::server(Limits::server());
    assert_eq!(server.http2.open(server.now, 0, &request(), true), Err(OpenError::Closed));
}
