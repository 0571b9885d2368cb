//! Windows in both directions (RFC 9113 sections 5.2 and 6.9).

use leno_http2::limits::FLOOD_WINDOW;
use leno_http2::{ErrorCode, Limits};

use crate::endpoint::{Endpoint, Happening, data, request, reset, response, section};
use crate::frames::{self, Frame, flag, kind};
use crate::pair::{Pair, seeds};

fn window_updates(endpoint: &mut Endpoint, stream: u32) -> Vec<u32> {
    let updates =
        endpoint.sent().into_iter().filter(|frame| frame.kind == kind::WINDOW_UPDATE && frame.stream == stream);
    updates.map(|frame| frame.value()).collect()
}

fn sent_data(endpoint: &mut Endpoint) -> Vec<u8> {
    endpoint.sent().into_iter().filter(|frame| frame.kind == kind::DATA).flat_map(|frame| frame.payload).collect()
}

fn server_with_request(limits: Limits) -> Endpoint {
    let mut server = Endpoint::server(limits);
    server.feed(&frames::request(1));
    server
}

#[test]
fn a_stream_that_is_not_released_gets_no_more_than_its_window() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.server.releases = false;
        pair.client.open(&request(), false);
        assert_eq!(pair.client.send(1, &[7; 200_000], true), 65_535);
        pair.run();
        assert_eq!(pair.server.take()[1], data(1, &[7; 65_535], false));
        let key = pair.server.key(1);
        pair.server.http2.release(key, 65_535);
        pair.run();
        let Some(Happening::Data { bytes, .. }) = pair.server.take().pop() else {
            panic!("content follows its window")
        };
        assert_eq!(bytes.len(), 2 * 65_535, "the window has grown to twice its size");
    }
}

#[test]
fn a_stalled_stream_does_not_hold_up_its_neighbours() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.server.releases = false;
        for stream in [1, 3, 5, 7] {
            pair.client.open(&request(), false);
            pair.client.send(stream, &[7; 65_535], false);
        }
        for _ in 0..100 {
            pair.run();
            let key = pair.server.key(7);
            pair.server.http2.release(key, 65_535);
            pair.client.send(7, &[8; 65_535], false);
        }
        pair.run();
        assert_eq!(pair.client.http2.queued_bytes(), 0);
    }
}

#[test]
fn the_connection_gets_its_room_back_at_once_and_the_stream_when_released() {
    let limits = Limits { connection_window_bytes: 65_535, ..Limits::server() };
    let mut server = server_with_request(limits);
    server.releases = false;
    server.written();
    server.feed(&frames::data(1, &[0; 16_384], false));
    server.feed(&frames::data(1, &[0; 16_384], false));
    let sent = server.sent();
    assert_eq!(
        sent,
        [Frame { kind: kind::WINDOW_UPDATE, flags: 0, stream: 0, payload: 32_768u32.to_be_bytes().into() }]
    );
    server.http2.release(server.key(1), 16_384);
    assert_eq!(window_updates(&mut server, 1), [], "small credits are merged");
    server.http2.release(server.key(1), 16_383);
    assert_eq!(window_updates(&mut server, 1), [32_767]);
}

#[test]
fn no_more_is_given_back_than_was_received() {
    let mut server = server_with_request(Limits::server());
    server.releases = false;
    server.feed(&frames::data(1, &[0; 1_000], false));
    server.written();
    server.http2.release(server.key(1), usize::MAX);
    assert_eq!(server.sent(), []);
    for _ in 0..2 {
        server.feed(&frames::data(1, &[0; 16_384], false));
    }
    server.http2.release(server.key(1), usize::MAX);
    let total = 1_000 + 2 * 16_384;
    assert_eq!(window_updates(&mut server, 1), [total + 65_535], "the credit and the growth");
}

/// Feeds content to a stream whose window still has its initial size. The endpoint releases all content. Returns the
/// largest window that the peer had.
fn grown_window(endpoint: &mut Endpoint, stream: u32) -> i64 {
    let mut granted = window_updates(endpoint, stream).iter().fold(65_535, |sum, n| sum + i64::from(*n));
    let mut most = granted;
    for _ in 0..200 {
        endpoint.feed(&frames::data(stream, &[0; 10_000], false));
        granted += window_updates(endpoint, stream).iter().map(|n| i64::from(*n)).sum::<i64>() - 10_000;
        most = most.max(granted);
    }
    most
}

#[test]
fn a_window_grows_to_its_limit_while_everything_is_taken() {
    let of = |limits: Limits| Limits {
        initial_window_bytes: 65_535,
        max_stream_window_bytes: 200_000,
        max_tunnel_window_bytes: 800_000,
        ..limits
    };
    let call = 150_000..=200_000;
    let tunnel = 600_000..=800_000;
    let connect = [(":method", "CONNECT"), (":authority", "b.a:1")];
    for (fields, wanted) in [(&frames::REQUEST[..], &call), (&connect[..], &tunnel)] {
        let mut server = Endpoint::server(of(Limits::server()));
        server.feed(&frames::headers(1, fields, false));
        let grown = grown_window(&mut server, 1);
        assert!(wanted.contains(&grown), "{fields:?}: {grown}");
    }
    for (fields, wanted) in [(request(), &call), (section(&connect), &tunnel)] {
        let mut client = Endpoint::client(of(Limits::client()));
        client.open(&fields, false);
        client.feed(&frames::headers(1, &[(":status", "200")], false));
        let grown = grown_window(&mut client, 1);
        assert!(wanted.contains(&grown), "{fields:?}: {grown}");
    }
}

#[test]
fn a_window_grows_no_further_than_the_caller_allows() {
    let mut server = server_with_request(Limits::server());
    server.releases = false;
    let key = server.key(1);
    let mut granted = window_updates(&mut server, 1).iter().fold(65_535, |sum, n| sum + i64::from(*n));
    let mut most = granted;
    for _ in 0..200 {
        server.feed(&frames::data(1, &[0; 10_000], false));
        server.http2.release_within(key, 10_000, |_| 100_000);
        granted += window_updates(&mut server, 1).iter().map(|n| i64::from(*n)).sum::<i64>() - 10_000;
        most = most.max(granted);
    }
    assert!((65_536..=100_000).contains(&most), "{most}");
    assert_eq!(server.error, None);
}

#[test]
fn a_window_above_the_callers_limit_shrinks_to_it_and_the_stream_goes_on() {
    let mut server = server_with_request(Limits::server());
    server.releases = false;
    let key = server.key(1);
    let (mut window, mut grown) = (65_535_i64, 0_i64);
    // Sends what the window allows, and releases it in parts. Returns the largest amount that the window allowed.
    let mut send = |server: &mut Endpoint, limit: u32| {
        let mut most = 0_i64;
        for _ in 0..20 {
            window += window_updates(server, 1).iter().map(|n| i64::from(*n)).sum::<i64>();
            most = most.max(window);
            assert!(window > 0, "the stream goes on");
            while window > 0 {
                let bytes = window.min(16_384);
                server.feed(&frames::data(1, &vec![0; bytes as usize], false));
                window -= bytes;
                grown += server.http2.release_within(key, bytes as usize, |_| limit);
            }
        }
        (most, grown)
    };
    let (most, grown) = send(&mut server, u32::MAX);
    assert!(most >= 131_072, "{most}");
    assert_eq!(grown, (256 << 10) - 65_535);
    send(&mut server, 100_000);
    let (most, grown) = send(&mut server, 100_000);
    assert!(most <= 100_000, "{most}");
    assert_eq!(grown, 100_000 - 65_535);
    send(&mut server, 1);
    let (most, grown) = send(&mut server, 1);
    assert!(most <= 65_535, "{most}");
    assert_eq!(grown, 0, "no window is smaller than the initial window");
    assert_eq!(send(&mut server, u32::MAX).1, (256 << 10) - 65_535, "it may grow again");
    assert_eq!(server.error, None);
}

#[test]
fn a_window_that_the_caller_limits_does_not_grow_by_padding() {
    let mut server = server_with_request(Limits::server());
    server.releases = false;
    let key = server.key(1);
    let mut granted = window_updates(&mut server, 1).iter().fold(65_535, |sum, n| sum + i64::from(*n));
    // 250 bytes of content, and as many of padding.
    let mut payload = vec![0; 501];
    payload[0] = 250;
    let mut most = granted;
    for _ in 0..2_000 {
        server.feed(&frames::frame(kind::DATA, flag::PADDED, 1, &payload));
        server.http2.release_within(key, usize::MAX, |_| 1);
        granted += window_updates(&mut server, 1).iter().map(|n| i64::from(*n)).sum::<i64>() - 501;
        most = most.max(granted);
    }
    assert_eq!(most, 65_535);
    assert_eq!(server.error, None);
}

#[test]
fn windows_together_grow_to_their_limit_and_a_stream_that_ends_leaves_its_part() {
    let mut server = Endpoint::server(Limits { max_grown_window_bytes: 100_000, ..Limits::server() });
    for stream in [1, 3] {
        server.feed(&frames::request(stream));
    }
    assert!((150_000..=165_535).contains(&grown_window(&mut server, 1)));
    assert_eq!(grown_window(&mut server, 3), 65_535);
    server.http2.reset(server.key(1), ErrorCode::CANCEL);
    assert!(grown_window(&mut server, 3) >= 150_000);
    assert_eq!(server.error, None);
}

#[test]
fn a_window_does_not_grow_while_the_far_side_is_slow() {
    let mut server = server_with_request(Limits::server());
    server.releases = false;
    server.written();
    for _ in 0..4 {
        server.feed(&frames::data(1, &[0; 16_000], false));
    }
    server.http2.release(server.key(1), 40_000);
    assert_eq!(window_updates(&mut server, 1), [40_000]);
}

#[test]
fn padding_is_given_back_by_the_engine() {
    let limits = Limits { initial_window_bytes: 2_000, max_stream_window_bytes: 2_000, ..Limits::server() };
    let mut server = server_with_request(limits);
    server.releases = false;
    let mut payload = vec![255; 256];
    payload[1..].fill(0);
    let mut granted = 0;
    for _ in 0..100 {
        server.feed(&frames::frame(kind::DATA, flag::PADDED, 1, &payload));
        granted += window_updates(&mut server, 1).iter().sum::<u32>();
    }
    assert_eq!(server.error, None);
    assert!((100 * 256 - 1_000..=100 * 256).contains(&granted), "{granted}");
}

#[test]
fn data_beyond_the_streams_window_resets_the_stream() {
    let mut server = server_with_request(Limits::server());
    server.releases = false;
    for _ in 0..5 {
        server.feed(&frames::data(1, &[0; 16_000], false));
    }
    assert_eq!(server.take().last(), Some(&reset(1, ErrorCode::FLOW_CONTROL_ERROR, false)));
    assert_eq!(server.error, None);
}

#[test]
fn data_for_streams_that_are_gone_does_not_eat_the_connections_window() {
    let limits = Limits { connection_window_bytes: 65_535, ..Limits::server() };
    let mut server = server_with_request(limits);
    server.http2.reset(server.key(1), ErrorCode::CANCEL);
    for _ in 0..50 {
        server.feed(&frames::data(1, &[0; 16_000], false));
    }
    assert_eq!(server.error, None);
    let returned: u32 = window_updates(&mut server, 0).iter().sum();
    assert!(returned > 50 * 16_000 - 32_768);
}

#[test]
fn a_smaller_initial_window_makes_windows_negative_until_enough_comes_back() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::settings(&[(4, 100)]));
    server.feed(&frames::whole_request(1));
    server.respond(1, &response(), false);
    assert_eq!(server.send(1, &[7; 300], false), 100);
    server.feed(&frames::settings(&[(4, 20)]));
    server.written();
    server.feed(&frames::window_update(1, 80));
    assert_eq!(server.sent(), [], "the window is 0");
    server.feed(&frames::window_update(1, 30));
    assert_eq!(server.sent()[0].payload.len(), 30);
    server.feed(&frames::settings(&[(4, 50)]));
    assert_eq!(server.sent()[1].payload.len(), 30, "a larger initial window wakes the stream");
}

#[test]
fn initial_windows_that_change_all_the_time_lose_nothing() {
    for seed in seeds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut server = Endpoint::server(Limits::server());
        server.feed(&frames::whole_request(1));
        server.respond(1, &response(), false);
        let body: Vec<u8> = (0..200_000).map(|i| (i % 251) as u8).collect();
        server.send(1, &body, true);
        server.feed(&frames::window_update(0, 1 << 20));
        let mut received = sent_data(&mut server);
        let (mut window, mut initial) = (0, 65_535);
        while received.len() < body.len() {
            let (next, increment) = (rng.i64(0..100_000), rng.i64(1..20_000));
            server.feed(&frames::settings(&[(4, next as u32)]));
            server.feed(&frames::window_update(1, increment as u32));
            server.wait(FLOOD_WINDOW);
            window += next - initial + increment;
            initial = next;
            let sent = sent_data(&mut server);
            let allowed = usize::try_from(window).unwrap_or(0).min(body.len() - received.len());
            assert_eq!(sent.len(), allowed, "seed {seed}");
            window -= sent.len() as i64;
            received.extend_from_slice(&sent);
        }
        assert_eq!(received, body);
    }
}

#[test]
fn the_connections_window_is_shared_and_never_overrun() {
    let mut server = Endpoint::server(Limits::server());
    for stream in [1, 3] {
        server.feed(&frames::whole_request(stream));
        server.respond(stream, &response(), false);
        server.send(stream, &[0; 60_000], true);
    }
    assert_eq!((server.http2.send_window_bytes(), sent_data(&mut server).len()), (0, 65_535));
    assert!(!server.http2.wants_write());
    server.feed(&frames::window_update(0, 1_000));
    assert!(server.http2.wants_write());
    assert_eq!(sent_data(&mut server).len(), 1_000);
}

/// A server that has received `each` bytes on each of three streams. The test does not release them, so the server
/// holds more than `max_held_bytes`.
fn server_that_holds_what_it_may(each: u32) -> Endpoint {
    let limits = Limits { connection_window_bytes: 65_535, max_held_bytes: 2 * each, ..Limits::server() };
    let mut server = Endpoint::server(limits);
    server.releases = false;
    for stream in [1, 3, 5] {
        server.feed(&frames::request(stream));
        (0..each / 16_000).for_each(|_| server.feed(&frames::data(stream, &[0; 16_000], false)));
    }
    assert_eq!(server.http2.held_bytes(), u64::from(3 * each));
    server
}

#[test]
fn a_connection_whose_streams_hold_too_much_together_gets_no_more_room_until_some_has_gone_on() {
    let mut server = server_that_holds_what_it_may(32_000);
    let granted: u32 = window_updates(&mut server, 0).iter().sum();
    assert!(granted <= 65_535, "{granted} bytes");
    server.feed(&frames::data(1, &[0; 16_000], false));
    assert_eq!(window_updates(&mut server, 0), []);
    let key = server.key(1);
    server.http2.release(key, 48_000);
    assert_eq!(window_updates(&mut server, 0).len(), 1);
    assert_eq!(server.error, None);
}

#[test]
fn a_connection_gets_its_room_back_when_the_streams_that_hold_too_much_end() {
    let mut server = server_that_holds_what_it_may(32_000);
    server.feed(&frames::data(1, &[0; 16_000], false));
    window_updates(&mut server, 0);
    server.feed(&[1, 3, 5].map(|stream| frames::rst_stream(stream, 8)).concat());
    assert_eq!((server.http2.held_bytes(), server.error), (0, None));
    assert_eq!(window_updates(&mut server, 0).len(), 1);
}

#[test]
fn collected_content_leaves_as_one_frame_when_it_is_enough_or_more_comes_or_its_turn_does() {
    let client = || {
        let mut client = Endpoint::client(Limits::client());
        let key = client.open(&request(), false);
        client.written();
        (client, key)
    };
    let payloads = |client: &mut Endpoint| -> Vec<usize> {
        client.sent().into_iter().filter(|frame| frame.kind == kind::DATA).map(|frame| frame.payload.len()).collect()
    };
    let (mut enough, key) = client();
    for _ in 0..255 {
        enough.http2.collect_data(key, b"x");
        assert_eq!(payloads(&mut enough), []);
    }
    enough.http2.collect_data(key, b"x");
    assert_eq!(payloads(&mut enough), [256]);

    let (mut more, key) = client();
    more.http2.collect_data(key, b"x");
    more.send(1, b"more of it", false);
    assert_eq!(payloads(&mut more), [11]);

    let (mut ended, key) = client();
    ended.http2.collect_data(key, b"x");
    ended.trail(1, &section(&[("a", "b")]));
    assert_eq!(payloads(&mut ended), [1]);

    let (mut turn, first) = client();
    let second = turn.open(&request(), false);
    turn.written();
    for key in [first, second, first, second] {
        turn.http2.collect_data(key, b"x");
    }
    assert!(turn.http2.release_collected(1));
    assert_eq!(payloads(&mut turn), [2]);
    assert!(!turn.http2.release_collected(1));
    assert_eq!(payloads(&mut turn), [2]);
}

#[test]
fn streams_that_end_while_their_content_is_collected_leave_no_places_behind() {
    let mut client = Endpoint::client(Limits::client());
    for _ in 0..1_000 {
        let key = client.open(&request(), false);
        client.http2.collect_data(key, b"x");
        client.http2.reset(key, ErrorCode::CANCEL);
        client.written();
    }
    assert_eq!(client.http2.queued_bytes(), 0);
    assert!(!client.http2.release_collected(17), "more than 17 places");
}
