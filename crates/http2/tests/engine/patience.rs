//! Slow peers: the age of incomplete frames and header blocks, and waiting for windows.

use std::time::Duration;

use leno_http2::Limits;

use crate::endpoint::{Endpoint, request};
use crate::frames::{self, flag, kind};

#[test]
fn an_incomplete_frame_shows_its_age() {
    let mut server = Endpoint::server(Limits::server());
    let frame = frames::request(1);
    let (header, payload) = frame.split_at(9);
    server.feed(&header[..4]);
    let header_began = server.now;
    server.wait(Duration::from_secs(1));
    server.feed(&header[4..8]);
    assert_eq!(server.http2.incomplete_since(), Some(header_began));
    server.wait(Duration::from_secs(1));
    server.feed(&header[8..]);
    let payload_began = server.now;
    for byte in payload {
        assert_eq!(server.http2.incomplete_since(), Some(payload_began));
        server.wait(Duration::from_secs(1));
        server.feed(&[*byte]);
    }
    assert_eq!((server.http2.incomplete_since(), server.take().len()), (None, 1));
}

#[test]
fn a_frame_that_arrives_in_two_parts_is_complete() {
    let mut server = Endpoint::server(Limits::server());
    let frame = frames::request(1);
    let (header, payload) = frame.split_at(9);
    server.feed(header);
    assert_eq!(server.http2.incomplete_since(), Some(server.now));
    server.wait(Duration::from_secs(1));
    server.feed(payload);
    assert_eq!((server.http2.incomplete_since(), server.take().len()), (None, 1));
}

#[test]
fn a_header_block_that_does_not_end_shows_its_age() {
    let mut server = Endpoint::server(Limits::server());
    let block = frames::block(&frames::REQUEST);
    server.feed(&frames::frame(kind::HEADERS, 0, 1, &block[..5]));
    let began = server.now;
    for part in [&block[5..10], &block[10..20]] {
        server.wait(Duration::from_secs(1));
        server.feed(&frames::frame(kind::CONTINUATION, 0, 1, part));
        assert_eq!(server.http2.incomplete_since(), Some(began));
    }
    server.feed(&frames::frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block[20..]));
    assert_eq!((server.http2.incomplete_since(), server.take().len()), (None, 1));
}

#[test]
fn waiting_for_windows_is_no_work() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), false);
    client.send(1, &[0; 100_000], true);
    client.written();
    assert!(!client.http2.wants_write() && client.http2.queued_bytes() > 0);
}
