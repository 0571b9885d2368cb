//! One HTTP/2 engine. The script decides what its peer sends, and which functions of the engine its owner calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::frame::PREFACE;
use leno_http2::limits::OUTPUT_HIGH_WATER_BYTES;
use leno_http2::{Connection, ErrorCode, Event, FieldSection, Limits, Role, Section, StreamKey};

use crate::script::{REQUEST, RESPONSE, Script};

/// Maximum number of bytes by which one action may raise the output above the high-water mark. These bytes are answers
/// to at most 255 bytes from the peer. Field sections that the script sends are counted separately (`section_bytes`).
const MAX_ACT_BYTES: usize = 1_250;
/// Maximum number of bytes that HPACK adds to a field, or that a frame header adds to a section.
const OVERHEAD_BYTES: usize = 16;
/// Maximum number of concurrent streams: small, so that few bytes of input reach the limit.
const MAX_STREAMS: u32 = 4;

struct Play {
    http2: Connection,
    now: Instant,
    streams: Vec<StreamKey>,
    /// Number of bytes of DATA that each stream has queued but not yet sent.
    queued: HashMap<StreamKey, usize>,
    failed: bool,
    acts: usize,
    /// Upper bound for the bytes of the field sections that the script has sent. The engine does not limit this number.
    section_bytes: usize,
}

pub fn play(role: Role, mut script: Script<'_>) {
    let mut play = Play::new(role);
    while !script.is_over() {
        play.act(role, &mut script);
        play.acts += 1;
        play.check();
    }
}

impl Play {
    fn new(role: Role) -> Self {
        let now = Instant::now();
        let limits = Limits {
            max_concurrent_streams: MAX_STREAMS,
            initial_window_bytes: 2_000,
            max_stream_window_bytes: 5_000,
            connection_window_bytes: 65_535,
            header_table_bytes: 300,
            max_header_list_bytes: 1_000,
            ..Limits::server()
        };
        let mut play = Self {
            http2: Connection::new(role, Arc::new(limits), now),
            now,
            streams: Vec::new(),
            queued: HashMap::new(),
            failed: false,
            acts: 0,
            section_bytes: 0,
        };
        if role == Role::Server {
            play.feed(PREFACE);
        }
        play.feed(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        play
    }

    fn act(&mut self, role: Role, script: &mut Script<'_>) {
        let choice = script.byte();
        let stream = script.choose(&self.streams);
        match (choice % 16, stream) {
            (0..4, _) => self.feed(&frame(script)),
            (4, _) => {
                let n = usize::from(script.byte());
                self.feed(script.bytes(n));
            }
            (5, _) => {
                let frame = frame(script);
                let (front, back) = frame.split_at(script.size() % (frame.len() + 1));
                self.feed(front);
                self.feed(back);
            }
            (6, _) if role == Role::Client => {
                let fields = script.fields(REQUEST);
                if let Ok(key) = self.http2.open(self.now, 7, &fields, choice & 0x80 != 0) {
                    self.section_bytes += length(&fields);
                    self.streams.push(key);
                }
            }
            (7, Some(key)) => {
                let section = if choice & 0x40 == 0 { Section::Response } else { Section::Trailers };
                let fields = script.fields(RESPONSE);
                self.section_bytes += length(&fields);
                self.http2.send_headers(key, section, &fields, choice & 0x80 != 0);
            }
            (8, Some(key)) => {
                let bytes = vec![choice; script.size()];
                let taken = self.http2.send_data(key, &bytes, choice & 0x80 != 0);
                assert!(taken <= bytes.len());
                *self.queued.entry(key).or_default() += bytes.len() - taken;
            }
            (9, Some(key)) => self.http2.release(key, script.size()),
            (10, Some(key)) => self.http2.reset(key, ErrorCode(u32::from(choice))),
            (11, Some(key)) => self.http2.stop_receiving(key),
            (12, _) => {
                let n = script.size().min(self.http2.output().len());
                self.http2.advance_output(n);
            }
            (13, _) => self.now += Duration::from_millis(script.size() as u64),
            (14, _) => match script.byte() % 4 {
                0 => self.http2.shut_down(),
                1 => self.http2.go_away(ErrorCode::NO_ERROR, "the script says so"),
                _ => self.http2.ping(),
            },
            (15, Some(key)) if role == Role::Client => self.http2.abandon(key),
            _ => {}
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let (mut input, mut fields) = (bytes, FieldSection::new());
        loop {
            match self.http2.receive(self.now, &mut input, &mut fields) {
                Ok(Some(event)) => {
                    assert!(!self.failed, "after an error nothing happens: {event:?}");
                    if let Event::Headers { stream, section: Section::Request, .. } = event {
                        self.streams.push(stream);
                    }
                }
                Ok(None) => return assert!(input.is_empty() || self.http2.is_paused()),
                Err(_) => {
                    assert!(!self.failed, "an error is reported once");
                    self.failed = true;
                }
            }
        }
    }

    fn check(&mut self) {
        while let Some(drained) = self.http2.next_drained() {
            let queued = self.queued.get_mut(&drained.stream).expect("what drains was queued");
            *queued = queued.checked_sub(drained.bytes as usize).expect("no more drains than was queued");
        }
        self.queued.retain(|key, _| self.http2.is_open(*key));
        assert_eq!(self.http2.queued_bytes(), self.queued.values().sum::<usize>());
        let most = 2 * OUTPUT_HIGH_WATER_BYTES + self.acts * MAX_ACT_BYTES + self.section_bytes;
        assert!(self.http2.pending_output() <= most);
        self.streams.retain(|key| self.http2.is_open(*key));
    }
}

/// Returns an upper bound for the bytes of a field section on the wire.
fn length(fields: &FieldSection) -> usize {
    let each = fields.iter().map(|line| line.name.len() + line.value.len() + OVERHEAD_BYTES);
    OVERHEAD_BYTES + each.sum::<usize>()
}

/// Returns a frame that may be valid: its type, flags and stream are close to meaningful values.
fn frame(script: &mut Script<'_>) -> Vec<u8> {
    let (mut kind, mut flags, stream) = (script.byte() % 12, script.byte(), script.byte() % 16);
    let length = usize::from(script.byte());
    let mut payload = script.bytes(length).to_vec();
    match kind {
        // A payload that is 50 times as long as its part of the script.
        0 if flags & 0x80 != 0 => payload.resize(length * 50, 0),
        // A valid header block from the static table: a request or a response.
        11 => {
            payload = if flags & 0x80 == 0 { vec![0x82, 0x86, 0x84] } else { vec![0x88] };
            (kind, flags) = (1, flags & 1 | 4);
        }
        _ => {}
    }
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags, 0, 0, 0, stream]);
    frame.extend_from_slice(&payload);
    frame
}
