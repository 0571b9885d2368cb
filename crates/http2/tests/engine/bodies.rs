//! Content larger than windows and buffers: queues, turns, `Drained`, and trailers that wait.

use leno_http2::limits::OUTPUT_HIGH_WATER_BYTES;
use leno_http2::{Drained, ErrorCode, Limits, Section, Windows};

use crate::endpoint::{Endpoint, Happening, data, headers, request, reset, response, trailers};
use crate::frames::{self, flag, kind};
use crate::pair::{Pair, seeds};

fn random_bytes(rng: &mut fastrand::Rng, max: usize) -> Vec<u8> {
    let len = rng.usize(0..=max);
    std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
}

#[test]
fn bodies_larger_than_small_windows_stream_in_both_directions() {
    for seed in seeds() {
        let small = |limits: Limits| Limits { initial_window_bytes: 1_000, max_stream_window_bytes: 3_000, ..limits };
        let mut pair = Pair::with_limits(seed, small(Limits::client()), small(Limits::server()));
        let mut rng = fastrand::Rng::with_seed(seed);
        let (up, down) = (random_bytes(&mut rng, 50_000), random_bytes(&mut rng, 50_000));
        pair.client.open(&request(), false);
        pair.client.send(1, &up, true);
        pair.run();
        pair.server.respond(1, &response(), false);
        pair.server.send(1, &down, false);
        pair.server.trail(1, &trailers());
        pair.run();
        let ends_with_data = data(1, &up, true);
        assert_eq!(pair.server.take()[1..], [ends_with_data]);
        let answer: Vec<_> = pair.client.take().into_iter().skip(1).collect();
        let expected = [data(1, &down, false), headers(1, Section::Trailers, &trailers(), true)];
        assert!(answer == expected || (down.is_empty() && answer == expected[1..]));
        assert_eq!((pair.client.http2.queued_bytes(), pair.server.http2.queued_bytes()), (0, 0));
        let [client, server] = [&pair.client, &pair.server].map(|endpoint| endpoint.http2.windows());
        assert_eq!((client.send_bytes, server.send_bytes), (server.receive_bytes, client.receive_bytes));
        for Windows { receive_bytes, owed_bytes, whole_bytes, .. } in [client, server] {
            assert_eq!(receive_bytes + i64::from(owed_bytes), i64::from(whole_bytes));
        }
    }
}

#[test]
fn streams_with_large_bodies_take_turns_of_a_frame() {
    let mut client = Endpoint::client(Limits::client());
    client.feed(&frames::settings(&[(4, 1 << 20)]));
    for stream in [1, 3, 5] {
        client.open(&request(), false);
        client.send(stream, &[b'x'; 60_000], true);
    }
    let sent = client.sent();
    client.feed(&frames::window_update(0, 1 << 20));
    let turns: Vec<_> = client.sent().into_iter().filter(|frame| frame.kind == kind::DATA).collect();
    assert_eq!(
        sent.iter().filter(|frame| frame.kind == kind::DATA).map(|frame| frame.payload.len()).sum::<usize>(),
        WINDOW_FOR_LARGE + 2 * 1_024,
        "the first stream leaves the reserve alone, the others have sent little"
    );
    let order: Vec<_> = turns.iter().map(|frame| frame.stream).collect();
    assert_eq!(order, [1, 3, 5, 3, 5, 3, 5, 3, 5]);
}

/// The part of the initial connection window that large uploads may use: all but the reserve for small uploads.
const WINDOW_FOR_LARGE: usize = 65_535 - 65_535 / 4;

#[test]
fn the_last_part_of_a_servers_connection_window_is_for_small_uploads() {
    let mut client = Endpoint::client(Limits::client());
    client.feed(&frames::settings(&[(4, 1 << 20)]));
    client.open(&request(), false);
    assert_eq!(client.send(1, &[b'x'; 60_000], true), WINDOW_FOR_LARGE);
    for stream in [3, 5, 7] {
        client.open(&request(), false);
        assert_eq!(client.send(stream, &[b'y'; 1_000], true), 1_000, "a small upload passes the stalled one");
    }
    client.sent();
    client.feed(&frames::window_update(0, 8_000));
    let resumed: usize = client.sent().iter().filter(|frame| frame.stream == 1).map(|frame| frame.payload.len()).sum();
    assert_eq!(resumed, 8_000 - 3_000, "the large one goes on when the reserve is whole again");
}

/// A server with gRPC's C core enlarges its window to megabytes for large messages, and shrinks it afterwards. It then
/// returns no credit before the client has used most of the larger window.
#[test]
fn an_upload_goes_on_after_the_servers_window_has_shrunk() {
    let mut client = Endpoint::client(Limits::client());
    client.feed(&frames::settings(&[(4, 16 << 20)]));
    client.feed(&frames::window_update(0, (8 << 20) - 65_535));
    client.open(&request(), false);
    client.send(1, &vec![b'x'; 8 << 20], false);
    let sent: usize =
        client.sent().iter().filter(|frame| frame.kind == kind::DATA).map(|frame| frame.payload.len()).sum();
    assert_eq!(sent, (8 << 20) - 65_535 + WINDOW_FOR_LARGE);
}

#[test]
fn a_servers_answers_may_use_all_of_its_clients_window() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::settings(&[(4, 1 << 20)]));
    server.feed(&frames::whole_request(1));
    server.respond(1, &response(), false);
    assert_eq!(server.send(1, &[b'x'; 70_000], true), 65_535);
}

#[test]
fn drained_adds_up_to_what_was_not_taken_at_once() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.server.releases = false;
        let mut rng = fastrand::Rng::with_seed(seed);
        pair.client.open(&request(), false);
        pair.client.open(&request(), false);
        let (mut owed, mut drained, mut received) = ([0; 2], [0; 2], [0; 2]);
        for _ in 0..60 {
            let stream = rng.usize(0..2);
            let bytes = random_bytes(&mut rng, 9_000);
            owed[stream] += bytes.len() - pair.client.send([1, 3][stream], &bytes, false);
            for _ in 0..rng.usize(0..4) {
                pair.step();
            }
            for happening in pair.server.take() {
                if let Happening::Data { stream, bytes, .. } = happening {
                    received[stream as usize / 2] += bytes.len();
                    let key = pair.server.key(stream);
                    pair.server.http2.release(key, bytes.len());
                }
            }
            count_drained(&mut pair.client, &mut drained);
            assert_eq!(pair.client.http2.queued_bytes(), owed.iter().sum::<usize>() - drained.iter().sum::<usize>());
        }
        loop {
            pair.run();
            let happened = pair.server.take();
            if happened.is_empty() {
                break;
            }
            for happening in happened {
                if let Happening::Data { stream, bytes, .. } = happening {
                    received[stream as usize / 2] += bytes.len();
                    let key = pair.server.key(stream);
                    pair.server.http2.release(key, bytes.len());
                }
            }
        }
        count_drained(&mut pair.client, &mut drained);
        assert_eq!((owed, pair.client.http2.queued_bytes()), (drained, 0));
        assert!(received[0] >= owed[0] && received[1] >= owed[1]);
    }
}

fn count_drained(client: &mut Endpoint, drained: &mut [usize; 2]) {
    while let Some(Drained { stream, bytes, .. }) = client.http2.next_drained() {
        drained[stream.id as usize / 2] += bytes as usize;
    }
}

#[test]
fn trailers_wait_for_queued_content() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::settings(&[(4, 10)]));
    server.feed(&frames::whole_request(1));
    server.respond(1, &response(), false);
    assert_eq!(server.send(1, b"0123456789abcdef", false), 10);
    server.trail(1, &trailers());
    assert!(!server.http2.can_send(server.key(1)));
    let kinds = |server: &mut Endpoint| server.sent().iter().map(|frame| (frame.kind, frame.flags)).collect::<Vec<_>>();
    assert_eq!(kinds(&mut server)[1..], [(kind::HEADERS, flag::END_HEADERS), (kind::DATA, 0)]);
    server.feed(&frames::window_update(1, 100));
    let rest = [(kind::DATA, 0), (kind::HEADERS, flag::END_HEADERS | flag::END_STREAM)];
    assert_eq!(kinds(&mut server), rest);
    assert_eq!(server.http2.stream_count(), 0);
}

#[test]
fn the_end_of_a_stream_waits_for_queued_content() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::settings(&[(4, 0)]));
    server.feed(&frames::whole_request(1));
    server.respond(1, &response(), false);
    assert_eq!(server.send(1, b"answer", false), 0);
    assert_eq!(server.send(1, b"", true), 0);
    server.written();
    server.feed(&frames::window_update(1, 6));
    let sent = server.sent();
    assert_eq!((sent.len(), sent[0].flags, sent[0].payload.as_slice()), (1, flag::END_STREAM, &b"answer"[..]));
}

#[test]
fn an_empty_body_needs_no_window() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::settings(&[(4, 0)]));
    server.feed(&frames::whole_request(1));
    server.respond(1, &response(), false);
    server.send(1, b"", true);
    let sent = server.sent();
    assert_eq!((sent[2].kind, sent[2].flags, sent[2].payload.len()), (kind::DATA, flag::END_STREAM, 0));
}

#[test]
fn a_reset_drops_what_was_queued() {
    let mut pair = Pair::new(0);
    pair.server.releases = false;
    let key = pair.client.open(&request(), false);
    pair.client.send(1, &[0; 100_000], false);
    pair.run();
    assert_eq!(pair.client.http2.queued_bytes(), 100_000 - 65_535);
    pair.client.http2.reset(key, ErrorCode::CANCEL);
    assert_eq!(pair.client.http2.queued_bytes(), 0);
}

#[test]
fn a_reset_after_the_queue_follows_all_content() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.client.releases = false;
        let key = pair.client.open(&request(), true);
        pair.run();
        pair.server.respond(1, &response(), false);
        pair.server.send(1, &[0; 100_000], false);
        let server_key = pair.server.key(1);
        pair.server.http2.reset_after_queue(server_key, ErrorCode::NO_ERROR);
        pair.server.send(1, b"more", true);
        pair.run();
        assert!(pair.server.http2.queued_bytes() > 0, "content waits for the window");
        assert!(pair.client.http2.is_open(key));
        pair.client.releases = true;
        pair.client.http2.release(key, 100_000);
        pair.run();
        let expected = [data(1, &[0; 100_000], false), reset(1, ErrorCode::NO_ERROR, true)];
        assert!(pair.client.take()[1..] == expected, "all content, and then the reset");
        assert_eq!((pair.server.http2.queued_bytes(), pair.server.http2.stream_count()), (0, 0));
    }
}

#[test]
fn the_output_buffer_stays_small_while_bodies_wait() {
    let mut client = Endpoint::client(Limits::client());
    client.feed(&frames::settings(&[(4, 1 << 30)]));
    client.feed(&frames::window_update(0, 1 << 30));
    for i in 0..16 {
        client.open(&request(), false);
        client.send(1 + 2 * i, &[0; 100_000], true);
    }
    assert!(client.http2.pending_output() < OUTPUT_HIGH_WATER_BYTES + 16_384 + 16 * 200);
    assert!(client.http2.wants_write());
    let data: usize =
        client.sent().iter().filter(|frame| frame.kind == kind::DATA).map(|frame| frame.payload.len()).sum();
    assert_eq!(data, 1_600_000);
    assert!(!client.http2.wants_write());
}
