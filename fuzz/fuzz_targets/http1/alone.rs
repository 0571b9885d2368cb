//! One HTTP/1 engine. The script decides what its peer sends, and which functions of the engine its owner calls.

use std::time::Instant;

use leno_http1::limits::OUTPUT_HIGH_WATER_BYTES;
use leno_http1::{ErrorCode, FieldSection, Limits, Role, Section};

use crate::script::{INTERIM, REQUEST, RESPONSE, Script};
use crate::side::{Seen, Side};

/// Maximum number of bytes that one action may add to the output beyond the high-water mark: a field section or a
/// chunk's framing.
const MAX_ACT_BYTES: usize = 20_000;

/// Pieces of input that a script selects by a number, so that a short script reaches many states of an engine.
const PIECES: [&str; 16] = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n",
    "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "7d0\r\n",
    "\r\n",
    "0\r\n\r\n",
    "0\r\na: b\r\n\r\n",
];

pub fn play(role: Role, mut script: Script<'_>) {
    let limits = Limits {
        max_header_list_bytes: 1_000,
        max_target_bytes: 200,
        max_chunk_line_bytes: 40,
        max_chunk_extension_bytes: 100,
        max_trailer_bytes: 300,
        max_interim_responses: 3,
        content_window_bytes: 1_500,
    };
    let mut side = Side::new(role, limits);
    let mut queued = 0;
    let mut acts = 0;
    while !script.is_over() {
        act(role, &mut side, &mut script, &mut queued);
        acts += 1;
        while let Some(drained) = side.http1.next_drained() {
            queued -= usize::min(queued, drained.bytes as usize);
        }
        let (open, bytes) = (side.http1.stream_count() > 0, side.http1.queued_bytes());
        assert!(if open { bytes <= queued } else { bytes == 0 }, "{bytes} wait, {queued} were given");
        queued = bytes;
        assert!(side.http1.pending_output() <= 2 * OUTPUT_HIGH_WATER_BYTES + acts * MAX_ACT_BYTES);
        assert!(!side.http1.is_drained() || side.http1.stream_count() == 0);
    }
}

fn act(role: Role, side: &mut Side, script: &mut Script<'_>, queued: &mut usize) {
    let choice = script.byte();
    let (key, end) = (side.key, choice & 0x80 != 0);
    match choice % 16 {
        0..3 => {
            let piece = script.choose(&PIECES).unwrap_or_default();
            feed(side, piece.as_bytes());
        }
        3 => feed(side, &vec![choice; script.size()]),
        4 => {
            let n = usize::from(script.byte());
            feed(side, script.bytes(n));
        }
        5 if role == Role::Client => {
            let pseudo = [REQUEST, &[(":authority", "a")], &framing(script)].concat();
            if let Ok(key) = side.http1.open(Instant::now(), 7, &script.fields(&pseudo), end, &mut side.heads) {
                (side.key, side.received_all, side.unreleased) = (key, false, 0);
            }
        }
        5 | 6 => {
            let pseudo = [RESPONSE, &framing(script)].concat();
            let fields = script.fields(&pseudo);
            side.http1.send_headers(key, Section::Response, &fields, end, &mut side.heads);
        }
        7 => side.http1.send_headers(key, Section::Interim, &script.fields(INTERIM), false, &mut side.heads),
        8 => side.http1.send_headers(key, Section::Trailers, &script.fields(&[]), true, &mut side.heads),
        9 => {
            let bytes = vec![choice; script.size()];
            let taken = side.http1.send_data(key, &bytes, end);
            *queued += bytes.len().checked_sub(taken).expect("no more is taken than was given");
        }
        10 => side.release(script.size()),
        11 => drop(side.write(script.size())),
        12 => drop(side.end()),
        13 => side.http1.stop_receiving(key),
        14 if end => side.http1.reset(key, ErrorCode::CANCEL),
        15 if end => side.http1.shut_down(),
        _ => feed(side, b""),
    }
}

fn framing(script: &mut Script<'_>) -> Vec<(&'static str, &'static str)> {
    match script.byte() % 4 {
        0 => vec![("content-length", "9")],
        1 => vec![("content-length", "0")],
        2 => vec![("leno-upgrade", "foo")],
        _ => Vec::new(),
    }
}

fn feed(side: &mut Side, bytes: &[u8]) {
    let mut fields = FieldSection::new();
    let mut seen = side.next(bytes, &mut fields);
    while let Some(event) = seen {
        assert!(event != Seen::Reset || side.ended, "bytes reset nothing");
        seen = side.next(b"", &mut fields);
    }
}
