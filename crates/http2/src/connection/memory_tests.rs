//! The memory of a burst is freed, and repeated actions of peers do not accumulate memory.

use std::sync::Arc;
use std::time::Instant;

use super::*;
use crate::frame::{flag, kind, write, write_rst_stream, write_window_update};

/// A server that has used up its client's connection window, but not the windows of the streams.
fn server_without_connection_window() -> (Connection, Instant) {
    let now = Instant::now();
    let mut server = Connection::new(Role::Server, Arc::new(Limits::server()), now);
    let mut greeting = PREFACE.to_vec();
    write(&mut greeting, kind::SETTINGS, 0, 0, &[]);
    feed(&mut server, now, &greeting);
    let key = ask(&mut server, now, 1);
    server.send_data(key, &[0; 65_535], true);
    (server, now)
}

fn feed(connection: &mut Connection, now: Instant, bytes: &[u8]) -> Vec<StreamKey> {
    let (mut input, mut fields, mut requests) = (bytes, FieldSection::new(), Vec::new());
    while let Some(event) = connection.receive(now, &mut input, &mut fields).expect("the client is honest") {
        if let Event::Headers { stream, .. } = event {
            requests.push(stream);
        }
    }
    let written = connection.output().len();
    connection.advance_output(written);
    requests
}

/// Opens a stream with a request, and answers the request with a header section.
fn ask(server: &mut Connection, now: Instant, id: u32) -> StreamKey {
    let mut request = Vec::new();
    // Method GET, scheme http, path /.
    write(&mut request, kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, &[0x82, 0x86, 0x84]);
    let key = *feed(server, now, &request).first().expect("a request");
    let mut response = FieldSection::new();
    response.push(b":status", b"200");
    server.send_headers(key, Section::Response, &response, false);
    key
}

fn write_all(connection: &mut Connection) {
    while !connection.output().is_empty() {
        let n = connection.pending_output();
        connection.advance_output(n);
    }
}

#[test]
fn streams_that_end_while_they_wait_leave_no_places_behind() {
    let (mut server, mut now) = server_without_connection_window();
    for i in 1..10_000 {
        let key = ask(&mut server, now, 1 + 2 * i);
        assert_eq!(server.send_data(key, b"never wanted", true), 0);
        now += crate::limits::RAPID_RESET_AGE;
        let mut cancel = Vec::new();
        write_rst_stream(&mut cancel, key.id, ErrorCode::CANCEL);
        feed(&mut server, now, &cancel);
        assert!(server.ready.len() <= 20);
    }
    assert_eq!((server.queued_bytes(), server.queue_memory_bytes(), server.stream_count()), (0, 0, 0));
}

#[test]
fn streams_that_are_held_back_and_reset_leave_few_places_behind() {
    let now = Instant::now();
    let mut client = Connection::new(Role::Client, Arc::new(Limits::client()), now);
    let mut greeting = Vec::new();
    write(&mut greeting, kind::SETTINGS, 0, 0, &[0, 4, 0x40, 0, 0, 0]);
    write_window_update(&mut greeting, 0, 10_000_000);
    feed(&mut client, now, &greeting);
    let open = |client: &mut Connection, bytes| {
        let key = client.open(now, 0, &FieldSection::new(), false).expect("a stream");
        client.send_data(key, &vec![0; bytes], false);
        write_all(client);
        key
    };
    // Each of these streams has sent so much that it may not use the reserve of the connection's window.
    let streams: Vec<_> = (0..2_000).map(|_| open(&mut client, 2_000)).collect();
    open(&mut client, 8_000_000);
    for key in streams {
        client.send_data(key, &[0; 5_000], true);
        write_all(&mut client);
        client.reset(key, ErrorCode::CANCEL);
        let most = 2 * client.stream_count() + 20;
        assert!(client.held_back.len() <= most, "{} places", client.held_back.len());
    }
    assert!(client.send_window_bytes() > 0, "the reserve is not used up: the streams were held back");
}

#[test]
fn an_idle_connection_holds_no_buffers() {
    let (mut server, now) = server_without_connection_window();
    for i in 1..300 {
        let key = ask(&mut server, now, 1 + 2 * i);
        server.send_data(key, &[0; 1_000], true);
    }
    let mut window = Vec::new();
    write_window_update(&mut window, 0, 1_000_000);
    feed(&mut server, now, &window);
    write_all(&mut server);
    while server.next_drained().is_some() {}
    assert_eq!(server.stream_count(), 0);
    let held =
        [server.out.bytes.capacity(), server.drained.capacity(), server.ready.capacity(), server.partial.capacity()];
    assert_eq!(held, [0; 4]);
}

#[test]
fn a_frame_that_came_in_pieces_leaves_no_buffer_behind() {
    let (mut server, now) = server_without_connection_window();
    let mut frame = Vec::new();
    write(&mut frame, 0xee, 0, 0, &[0; 16_000]);
    for part in frame.chunks(1_000) {
        feed(&mut server, now, part);
    }
    assert!(server.partial.capacity() <= 16);
}

#[test]
fn resets_are_remembered_to_a_limit() {
    let (mut server, now) = server_without_connection_window();
    for i in 1..11_000 {
        let key = ask(&mut server, now, 1 + 2 * i);
        server.reset(key, ErrorCode::CANCEL);
    }
    assert_eq!(server.reset_by_us.len(), 10_000);
}

#[test]
fn places_of_streams_that_ended_count_until_the_last_has() {
    let (mut server, now) = server_without_connection_window();
    let before = server.memory_bytes();
    let last = ask(&mut server, now, 3);
    let keys: Vec<StreamKey> = (2..5_000).map(|i| ask(&mut server, now, 1 + 2 * i)).collect();
    for key in keys {
        server.reset(key, ErrorCode::CANCEL);
    }
    write_all(&mut server);
    assert!(server.memory_bytes() - before >= 5_000 * size_of::<Stream>(), "{}", server.memory_bytes());
    server.reset(last, ErrorCode::CANCEL);
    write_all(&mut server);
    assert!(server.memory_bytes() < 100_000, "{}: only the resets are remembered", server.memory_bytes());
}

#[test]
fn a_queue_counts_what_is_allocated_and_not_what_waits() {
    let (mut server, now) = server_without_connection_window();
    let key = ask(&mut server, now, 3);
    server.send_data(key, &[0; 60_000], false);
    assert!(server.queue_memory_bytes() >= 60_000);
    let mut window = Vec::new();
    write_window_update(&mut window, 0, 40_000);
    feed(&mut server, now, &window);
    write_all(&mut server);
    assert_eq!(server.queued_bytes(), 20_000);
    assert!(server.queue_memory_bytes() >= 60_000, "most of it is still allocated");
    window.clear();
    write_window_update(&mut window, 0, 19_999);
    feed(&mut server, now, &window);
    write_all(&mut server);
    assert_eq!((server.queued_bytes(), server.queue_memory_bytes()), (1, 1));
    server.reset(key, ErrorCode::CANCEL);
    assert_eq!(server.queue_memory_bytes(), 0);
}

#[test]
fn trailers_that_wait_for_content_count() {
    let (mut server, now) = server_without_connection_window();
    let key = ask(&mut server, now, 3);
    server.send_data(key, b"x", false);
    let mut trailers = FieldSection::new();
    trailers.push(b"grpc-status", &[b'0'; 10_000]);
    server.send_headers(key, Section::Trailers, &trailers, true);
    assert!(server.queue_memory_bytes() >= 10_000);
    let mut window = Vec::new();
    write_window_update(&mut window, 0, 1_000);
    feed(&mut server, now, &window);
    write_all(&mut server);
    assert_eq!((server.queue_memory_bytes(), server.stream_count()), (0, 0));
}

#[test]
fn a_connection_with_open_streams_keeps_no_empty_output_buffer_while_memory_is_short() {
    let (mut server, now) = server_without_connection_window();
    let output_bytes = |server: &Connection| server.out.bytes.capacity();
    let key = ask(&mut server, now, 3);
    write_all(&mut server);
    assert!(output_bytes(&server) > 0, "a busy one does");
    server.save_memory(true);
    assert_eq!(output_bytes(&server), 0);

    server.send_headers(key, Section::Trailers, &FieldSection::new(), true);
    server.save_memory(true);
    assert!(server.pending_output() > 0, "output that waits is not lost");
    write_all(&mut server);
    assert_eq!(output_bytes(&server), 0);
}

#[test]
fn dropped_content_and_trailers_free_their_memory_and_are_never_sent() {
    let (mut server, now) = server_without_connection_window();
    let key = ask(&mut server, now, 3);
    server.send_data(key, &[7; 5_000], false);
    let mut trailers = FieldSection::new();
    trailers.push(b"grpc-status", b"0");
    server.send_headers(key, Section::Trailers, &trailers, true);
    let ended = ask(&mut server, now, 5);
    server.send_data(ended, &[7; 5_000], true);
    for key in [key, ended] {
        server.drop_queued(key);
    }
    assert_eq!((server.queued_bytes(), server.queue_memory_bytes()), (0, 0));
    write_all(&mut server);
    let mut credit = Vec::new();
    write_window_update(&mut credit, 0, 65_535);
    let (mut input, mut fields) = (&credit[..], FieldSection::new());
    assert!(server.receive(now, &mut input, &mut fields).expect("the client is honest").is_none());
    assert!(server.output().is_empty() && server.is_open(key) && server.is_open(ended));
    server.reset(key, ErrorCode::CANCEL);
    assert!(!server.is_open(key));
}
