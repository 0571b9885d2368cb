//! Two HTTP/2 engines whose owners keep to the protocol: neither engine may report an error of the other, and no
//! content is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::{Connection, ErrorCode, Event, FieldSection, Limits, Role, Section, StreamKey};

use crate::script::{INTERIM, REQUEST, RESPONSE, Script};

struct Side {
    http2: Connection,
    wire: Vec<u8>,
    streams: HashMap<u32, Stream>,
    queued_bytes: usize,
    drained_bytes: usize,
    resets: bool,
}

/// The state of a stream at one side.
struct Stream {
    key: StreamKey,
    /// The header section has been sent; content may follow.
    sending: bool,
    sent_bytes: usize,
    ended: bool,
    received_bytes: usize,
    received_end: bool,
    unreleased_bytes: usize,
}

pub fn play(mut script: Script<'_>) {
    let mut now = Instant::now();
    let mut client = Side::new(Role::Client, Limits::client(), &mut script, now);
    let mut server = Side::new(Role::Server, Limits::server(), &mut script, now);
    while !script.is_over() {
        let choice = script.byte();
        match choice % 8 {
            0 => {
                let (from, to) = if choice & 8 == 0 { (&mut client, &mut server) } else { (&mut server, &mut client) };
                let n = script.size();
                from.write(n);
                let n = script.size();
                to.read(now, &mut from.wire, n);
            }
            1 => client.open(now, &mut script),
            2 => now += Duration::from_millis(script.size() as u64),
            3..6 => client.act(&mut script),
            _ => server.act(&mut script),
        }
    }
    settle(now, &mut client, &mut server);
    compare(&client, &server);
    compare(&server, &client);
}

/// Transfers all output in both directions until neither side has output left.
fn settle(now: Instant, client: &mut Side, server: &mut Side) {
    loop {
        for side in [&mut *client, &mut *server] {
            side.release_all();
            side.write(usize::MAX);
        }
        if client.wire.is_empty() && server.wire.is_empty() {
            return;
        }
        server.read(now, &mut client.wire, usize::MAX);
        client.read(now, &mut server.wire, usize::MAX);
    }
}

fn compare(from: &Side, to: &Side) {
    assert_eq!(from.http2.queued_bytes(), 0);
    if from.resets || to.resets {
        return;
    }
    assert_eq!(from.queued_bytes, from.drained_bytes);
    for (id, sent) in &from.streams {
        let Some(received) = to.streams.get(id) else { panic!("stream {id} did not arrive") };
        assert_eq!((received.received_bytes, received.received_end), (sent.sent_bytes, sent.ended), "stream {id}");
        if sent.ended && sent.received_end {
            assert!(!from.http2.is_open(sent.key) && !to.http2.is_open(received.key));
        }
    }
}

impl Side {
    fn new(role: Role, limits: Limits, script: &mut Script<'_>, now: Instant) -> Self {
        let window = 50 + script.size() as u32;
        let limits = Limits {
            max_concurrent_streams: u32::MAX,
            initial_window_bytes: window,
            max_stream_window_bytes: window + script.size() as u32,
            connection_window_bytes: 65_535 + script.size() as u32,
            max_frame_bytes: 16_384 + script.size() as u32,
            header_table_bytes: u32::from(script.byte()) * 32,
            max_header_list_bytes: 65_536,
            max_rapid_resets: u32::MAX,
            max_pings: u32::MAX,
            max_window_updates: u32::MAX,
            max_dribbled_frames: u32::MAX,
            max_unread_output_bytes: u32::MAX,
            ..limits
        };
        Self {
            http2: Connection::new(role, Arc::new(limits), now),
            wire: Vec::new(),
            streams: HashMap::new(),
            queued_bytes: 0,
            drained_bytes: 0,
            resets: false,
        }
    }

    fn open(&mut self, now: Instant, script: &mut Script<'_>) {
        let end_stream = script.byte() & 1 == 0;
        if let Ok(key) = self.http2.open(now, 0, &script.fields(REQUEST), end_stream) {
            self.streams.insert(key.id, Stream { sending: true, ended: end_stream, ..Stream::new(key) });
        }
    }

    fn act(&mut self, script: &mut Script<'_>) {
        let choice = script.byte();
        let mut ids: Vec<u32> = self.streams.keys().copied().collect();
        ids.sort_unstable();
        let Some(stream) = script.choose(&ids).and_then(|id| self.streams.get_mut(&id)) else { return };
        let (key, end) = (stream.key, choice & 0x80 != 0);
        let can_send = self.http2.can_send(key);
        match choice % 8 {
            0 if can_send && !stream.sending => {
                self.http2.send_headers(key, Section::Interim, &script.fields(INTERIM), false);
            }
            1 | 2 if can_send && !stream.sending => {
                self.http2.send_headers(key, Section::Response, &script.fields(RESPONSE), end);
                (stream.sending, stream.ended) = (true, end);
            }
            1..4 if can_send && stream.sending => {
                let size = script.size();
                let bytes: Vec<u8> = (stream.sent_bytes..).take(size).map(|at| content(key.id, at)).collect();
                let taken = self.http2.send_data(key, &bytes, end);
                self.queued_bytes += size - taken;
                stream.sent_bytes += size;
                stream.ended = end;
            }
            4 if can_send && stream.sending => {
                self.http2.send_headers(key, Section::Trailers, &script.fields(&[]), true);
                stream.ended = true;
            }
            5 | 6 => {
                let bytes = script.size().min(stream.unreleased_bytes);
                stream.unreleased_bytes -= bytes;
                self.http2.release(key, bytes);
            }
            7 => self.act_rarely(key, script),
            _ => {}
        }
    }

    fn act_rarely(&mut self, key: StreamKey, script: &mut Script<'_>) {
        match script.byte() {
            0..20 => {
                self.http2.reset(key, ErrorCode::CANCEL);
                self.resets = true;
            }
            20..30 => {
                self.http2.stop_receiving(key);
                self.resets = true;
            }
            30..40 => self.http2.ping(),
            40..44 => {
                self.http2.shut_down();
                self.resets = true;
            }
            _ => {}
        }
    }

    fn write(&mut self, max_bytes: usize) {
        loop {
            let output = self.http2.output();
            let n = output.len().min(max_bytes);
            self.wire.extend_from_slice(&output[..n]);
            self.http2.advance_output(n);
            if n == 0 || max_bytes != usize::MAX {
                break;
            }
        }
        while let Some(drained) = self.http2.next_drained() {
            self.drained_bytes += drained.bytes as usize;
        }
        if !self.resets {
            assert_eq!(self.http2.queued_bytes(), self.queued_bytes - self.drained_bytes);
        }
    }

    fn read(&mut self, now: Instant, wire: &mut Vec<u8>, max_bytes: usize) {
        let arrived: Vec<u8> = wire.drain(..max_bytes.min(wire.len())).collect();
        let (mut input, mut fields) = (&arrived[..], FieldSection::new());
        while let Some(event) = self.http2.receive(now, &mut input, &mut fields).expect("the peer is honest") {
            match event {
                Event::Headers { stream, section, end_stream, oversize, .. } => {
                    assert!(!oversize);
                    let known = self.streams.entry(stream.id).or_insert_with(|| Stream::new(stream));
                    assert!(section != Section::Request || known.received_bytes == 0);
                    known.received_end = end_stream;
                }
                Event::Data { stream, bytes, end_stream, .. } => {
                    let known = self.streams.get_mut(&stream.id).expect("content follows a header section");
                    for (at, byte) in (known.received_bytes..).zip(bytes) {
                        assert_eq!(*byte, content(stream.id, at));
                    }
                    known.received_bytes += bytes.len();
                    known.unreleased_bytes += bytes.len();
                    known.received_end = end_stream;
                }
                Event::Reset { stream, code, by_peer, .. } => {
                    assert!(by_peer, "the peer is honest on stream {}: {code}", stream.id);
                    self.resets = true;
                }
                Event::GoAway { .. } => self.resets = true,
                Event::Settings => {}
            }
        }
    }

    fn release_all(&mut self) {
        for stream in self.streams.values_mut() {
            self.http2.release(stream.key, std::mem::take(&mut stream.unreleased_bytes));
        }
    }
}

impl Stream {
    fn new(key: StreamKey) -> Self {
        Self {
            key,
            sending: false,
            sent_bytes: 0,
            ended: false,
            received_bytes: 0,
            received_end: false,
            unreleased_bytes: 0,
        }
    }
}

/// Returns the byte at this position of a stream's content. The byte depends on the position, so that the test notices
/// a misplaced byte.
fn content(stream: u32, at: usize) -> u8 {
    (at % 251) as u8 ^ stream as u8
}
