//! Complete messages between two engines: sections, content, trailers (RFC 9113 section 8.1), and their framing.

use leno_http2::fields::Known;
use leno_http2::{FieldSection, Limits, Section};

use crate::endpoint::{Endpoint, Happening, data, headers, request, response, section, trailers};
use crate::frames::{self, flag, kind};
use crate::pair::{Pair, seeds};

#[test]
fn a_call_goes_through_with_its_trailers() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.client.open(&request(), false);
        pair.client.send(1, b"question", true);
        pair.run();
        let arrived = [headers(1, Section::Request, &request(), false), data(1, b"question", true)];
        assert_eq!(pair.server.take(), arrived);

        pair.server.respond(1, &response(), false);
        pair.server.send(1, b"answer", false);
        pair.server.trail(1, &trailers());
        pair.run();
        let answered = [
            headers(1, Section::Response, &response(), false),
            data(1, b"answer", false),
            headers(1, Section::Trailers, &trailers(), true),
        ];
        assert_eq!(pair.client.take(), answered);
        assert_eq!((pair.client.http2.stream_count(), pair.server.http2.stream_count()), (0, 0));
    }
}

#[test]
fn interim_responses_precede_the_final_one() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.client.open(&request(), true);
        pair.run();
        let (early, go_on) = (section(&[(":status", "103"), ("link", "</a.css>")]), section(&[(":status", "100")]));
        let key = pair.server.key(1);
        pair.server.http2.send_headers(key, Section::Interim, &early, false);
        pair.server.http2.send_headers(key, Section::Interim, &go_on, false);
        pair.server.respond(1, &response(), true);
        pair.run();
        let answered = [
            headers(1, Section::Interim, &early, false),
            headers(1, Section::Interim, &go_on, false),
            headers(1, Section::Response, &response(), true),
        ];
        assert_eq!(pair.client.take(), answered);
    }
}

#[test]
fn a_client_distinguishes_answers_with_content_from_answers_of_one_header_section() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        let keys = [(); 2].map(|()| pair.client.open(&request(), true));
        pair.run();
        pair.server.respond(3, &response(), true);
        pair.run();
        assert!(pair.client.http2.is_taken_up(keys[1]));
        assert_eq!(pair.client.http2.highest_with_content(), 0);
        pair.server.respond(1, &response(), false);
        pair.run();
        assert_eq!(pair.client.http2.highest_with_content(), 1);
    }
}

#[test]
fn an_answer_may_come_before_the_request_is_complete() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.client.open(&request(), false);
        pair.run();
        pair.server.respond(1, &response(), false);
        pair.server.trail(1, &trailers());
        pair.run();
        pair.client.send(1, b"late", true);
        pair.run();
        assert_eq!(pair.server.take().last(), Some(&data(1, b"late", true)));
        assert_eq!((pair.client.http2.stream_count(), pair.server.http2.stream_count()), (0, 0));
    }
}

#[test]
fn stop_receiving_ends_the_request_with_no_error_after_the_answer() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.client.open(&request(), false);
        pair.run();
        let key = pair.server.key(1);
        pair.server.http2.stop_receiving(key);
        pair.server.respond(1, &response(), false);
        pair.server.trail(1, &trailers());
        pair.run();
        let happened = pair.client.take();
        assert_eq!(happened[1], headers(1, Section::Trailers, &trailers(), true));
        assert_eq!(happened[2], crate::endpoint::reset(1, leno_http2::ErrorCode::NO_ERROR, true));
        assert_eq!(pair.server.http2.stream_count(), 0);
    }
}

#[test]
fn header_lists_of_several_frames_arrive_whole_in_both_directions() {
    let values: Vec<String> = (0..14).map(|i| format!("{i}").repeat(1_000 / format!("{i}").len())).collect();
    let mut large_request = request();
    values.iter().for_each(|value| large_request.push(b"x-large", value.as_bytes()));
    let mut large_response = response();
    (0..4).for_each(|_| values.iter().for_each(|value| large_response.push(b"x-large", value.as_bytes())));
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        pair.client.open(&large_request, true);
        pair.run();
        assert_eq!(pair.server.take(), [headers(1, Section::Request, &large_request, true)]);
        pair.server.respond(1, &large_response, true);
        pair.run();
        assert_eq!(pair.client.take(), [headers(1, Section::Response, &large_response, true)]);
    }
}

#[test]
fn a_large_header_list_leaves_in_frames_that_the_peer_takes() {
    let mut client = Endpoint::client(Limits::client());
    let mut fields = request();
    fields.push(b"x-large", &[b'x'; 40_000]);
    client.open(&fields, true);
    let sent = client.sent();
    let kinds: Vec<_> = sent.iter().map(|frame| (frame.kind, frame.flags)).collect();
    let expected =
        [(kind::HEADERS, flag::END_STREAM), (kind::CONTINUATION, 0), (kind::CONTINUATION, flag::END_HEADERS)];
    assert_eq!(kinds, expected);
    assert!(sent.iter().all(|frame| frame.payload.len() <= 16_384));
}

#[test]
fn header_lists_over_the_limit_are_cut_short_and_told() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        let mut fields = request();
        fields.push(b"x-large", &[b'x'; 17_000]);
        pair.client.open(&fields, true);
        pair.client.open(&request(), true);
        pair.run();
        let arrived = [
            Happening::Oversize { stream: 1, section: Section::Request },
            headers(3, Section::Request, &request(), true),
        ];
        assert_eq!(pair.server.take(), arrived);
    }
}

#[test]
fn repeated_calls_shrink_to_a_few_bytes() {
    let mut pair = Pair::new(0);
    for _ in 0..3 {
        pair.client.open(&request(), true);
        pair.run();
    }
    pair.client.open(&request(), true);
    assert_eq!(pair.client.sent()[0].payload.len(), request().len());
}

#[test]
fn never_indexed_fields_stay_so_across_the_wire() {
    let mut fields = request();
    fields.push_never_indexed(b"x-token", b"secret");
    let mut client = Endpoint::client(Limits::client());
    let mut server =
        leno_http2::Connection::new(leno_http2::Role::Server, std::sync::Arc::new(Limits::server()), client.now);
    let mut received = FieldSection::new();
    for _ in 0..3 {
        client.open(&fields, true);
        let bytes = [frames::PREFACE, &frames::settings(&[]), &client.written()].concat();
        let mut input = if server.is_established() { &bytes[24 + 9..] } else { &bytes[..] };
        while server.receive(client.now, &mut input, &mut received).expect("valid frames").is_some() {}
        let token = received.iter().find(|field| field.name == b"x-token").expect("the field arrived");
        assert!(token.never_indexed);
    }
}

#[test]
fn padding_and_priority_fields_are_taken_off() {
    let mut server = Endpoint::server(Limits::server());
    let block = frames::block(&frames::REQUEST);
    let priority = [0x80, 0, 0, 0, 9];
    let payload = [&[3], &priority[..], &block, &[0; 3]].concat();
    server.feed(&frames::frame(kind::HEADERS, flag::PADDED | flag::PRIORITY | flag::END_HEADERS, 1, &payload));
    server.feed(&frames::frame(kind::DATA, flag::PADDED, 1, b"\x02body\0\0"));
    server.feed(&frames::frame(kind::DATA, flag::PADDED, 1, b"\x02\0\0"));
    server.feed(&frames::frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\0!"));
    let expected = [headers(1, Section::Request, &section(&frames::REQUEST), false), data(1, b"body!", true)];
    assert_eq!(server.take(), expected);
}

#[test]
fn padding_that_comes_byte_by_byte_delays_the_end() {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&frames::request(1));
    server.take();
    let frame = frames::frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\x03ab\0\0\0");
    let (last, before) = frame.split_last().expect("a frame");
    before.iter().for_each(|byte| server.feed(&[*byte]));
    assert_eq!(server.take(), [data(1, b"ab", false)]);
    server.feed(&[*last]);
    assert_eq!(server.take(), [data(1, b"", true)]);
}

#[test]
fn a_block_of_many_small_continuations_is_one_section() {
    let mut server = Endpoint::server(Limits::server());
    let block = frames::block(&frames::REQUEST);
    let parts: Vec<&[u8]> = block.chunks(block.len() / 7).collect();
    for (i, part) in parts.iter().enumerate() {
        let kind = if i == 0 { kind::HEADERS } else { kind::CONTINUATION };
        let end = if i == parts.len() - 1 { flag::END_HEADERS } else { 0 };
        server.feed(&frames::frame(kind, end, 1, part));
    }
    assert_eq!(server.take(), [headers(1, Section::Request, &section(&frames::REQUEST), false)]);
}

#[test]
fn small_pieces_of_content_leave_as_one_frame_that_ends_the_stream() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), false);
    for byte in 0..200 {
        assert_eq!(client.send(1, &[byte], byte == 199), 1);
    }
    let sent = client.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!((sent[1].kind, sent[1].flags, sent[1].payload.len()), (kind::DATA, flag::END_STREAM, 200));
}

#[test]
fn the_end_of_a_stream_rides_on_the_data_that_is_not_yet_written() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), false);
    client.send(1, b"body", false);
    client.send(1, b"", true);
    let sent = client.sent();
    assert_eq!((sent.len(), sent[1].flags), (2, flag::END_STREAM));
}

#[test]
fn content_whose_frame_is_partly_written_is_not_added_to_it() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), false);
    client.send(1, b"first", false);
    let first = client.http2.output()[..12].to_vec();
    client.http2.advance_output(12);
    client.send(1, b"second", true);
    let sent = frames::parse(&[first, client.written()].concat());
    assert_eq!(sent[1].payload, b"first");
    assert_eq!((sent[2].payload.as_slice(), sent[2].flags), (&b"second"[..], flag::END_STREAM));
}

#[test]
fn content_of_two_streams_is_not_joined() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), false);
    client.open(&request(), false);
    for _ in 0..2 {
        client.send(1, b"one", false);
        client.send(3, b"three", false);
    }
    let data: Vec<_> = client.sent().into_iter().filter(|frame| frame.kind == kind::DATA).collect();
    assert_eq!(data.iter().map(|frame| frame.stream).collect::<Vec<_>>(), [1, 3, 1, 3]);
}

#[test]
fn content_larger_than_a_frame_is_cut() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), false);
    client.send(1, &[b'x'; 40_000], true);
    let sizes: Vec<_> = client.sent()[1..].iter().map(|frame| (frame.payload.len(), frame.flags)).collect();
    assert_eq!(sizes, [(16_384, 0), (16_384, 0), (7_232, flag::END_STREAM)]);
}

#[test]
fn a_connect_request_makes_a_tunnel() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        let connect = section(&[(":method", "CONNECT"), (":authority", "b.a:1")]);
        let accepted = section(&[(":status", "200")]);
        pair.client.open(&connect, false);
        pair.run();
        pair.server.respond(1, &accepted, false);
        pair.server.send(1, b"server speaks first", false);
        pair.run();
        pair.client.send(1, b"then the client", true);
        pair.run();
        let tunnel = [headers(1, Section::Request, &connect, false), data(1, b"then the client", true)];
        assert_eq!(pair.server.take(), tunnel);
        let answer = [headers(1, Section::Response, &accepted, false), data(1, b"server speaks first", false)];
        assert_eq!(pair.client.take(), answer);
    }
}

#[test]
fn a_response_to_head_has_a_length_and_no_content() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        let mut head = request();
        head.set(Known::Method, b"HEAD");
        pair.client.open(&head, true);
        pair.run();
        let answer = section(&[(":status", "200"), ("content-length", "1000")]);
        pair.server.respond(1, &answer, true);
        pair.run();
        assert_eq!(pair.client.take(), [headers(1, Section::Response, &answer, true)]);
    }
}

#[test]
fn what_is_sent_on_a_stream_that_is_gone_goes_nowhere() {
    let mut pair = Pair::new(0);
    pair.client.open(&request(), false);
    pair.run();
    let key = pair.server.key(1);
    pair.client.http2.reset(pair.client.key(1), leno_http2::ErrorCode::CANCEL);
    pair.run();
    assert!(!pair.server.http2.is_open(key) && !pair.server.http2.can_send(key));
    pair.server.respond(1, &response(), false);
    assert_eq!(pair.server.send(1, b"answer", true), 6);
    pair.server.http2.reset(key, leno_http2::ErrorCode::CANCEL);
    assert_eq!(pair.server.written(), b"");
}
