//! Bytes that break HTTP/2 or strain its receiver.

use fastrand::Rng;
use leno_http2::Role;
use leno_http2::frame::{FrameHeader, MAX_31_BITS, flag, kind};

/// The attacker's knowledge of its connection.
pub(crate) struct Position<'a> {
    /// The attacker's own role.
    pub(crate) role: Role,
    pub(crate) open: &'a [u32],
    /// The next stream that a client may open.
    pub(crate) next: u32,
}

/// Returns the bytes of an attack. The bytes begin at the start of a frame, and may end in the middle of a frame.
pub(crate) fn attack(random: &mut Rng, at: &Position<'_>) -> Vec<u8> {
    match random.u8(..20) {
        0 => random_bytes(random, 300),
        1 => frame(kind::DATA, random.u8(..), any_stream(random, at), &random_bytes(random, 100)),
        2 => frame(kind::RST_STREAM, 0, any_stream(random, at), &random.u32(..20).to_be_bytes()),
        3 => {
            let by = if random.bool() { MAX_31_BITS } else { random.u32(..2) };
            frame(kind::WINDOW_UPDATE, 0, any_stream(random, at), &by.to_be_bytes()).repeat(random.usize(1..3))
        }
        4 => oversized_block(random, at),
        5 => broken_block(random, at),
        6 => flood(random, at),
        7 => rapid_resets(random, at),
        8 => truncated(random, at),
        9 => {
            let last = random.choice([0, 1, 2, at.next, at.next + 100, MAX_31_BITS]).unwrap_or(0);
            let payload = [last.to_be_bytes(), random.u32(..20).to_be_bytes()].concat();
            frame(kind::GOAWAY, 0, random.u32(..2), &payload).repeat(random.usize(1..3))
        }
        10 | 11 => beyond_window(random, at),
        12 => strange_settings(random),
        13 => frame(kind::PUSH_PROMISE, flag::END_HEADERS, any_stream(random, at), &[0, 0, 0, 2, 0x82]),
        14 => {
            let stream = any_stream(random, at);
            frame(kind::PRIORITY, 0, stream, &[stream.to_be_bytes().as_slice(), &[1]].concat())
        }
        15 => frame(kind::HEADERS, flag::END_HEADERS, new_stream(at), &random_bytes(random, 60)),
        16 => frame(random.u8(10..), random.u8(..), any_stream(random, at), &random_bytes(random, 50)),
        17 => {
            // The padding is longer than the payload.
            frame(kind::DATA, flag::PADDED, any_stream(random, at), &[200, 1, 2])
        }
        _ => malformed_message(random, at),
    }
}

/// Returns the HEADERS frame of a request to the simulated servers' Service. The frame does not change the HPACK table,
/// so no later header block depends on this frame.
pub(crate) fn request_head(stream: u32, more: &[(&str, &str)], flags: u8) -> Vec<u8> {
    let usual = [(":method", "POST"), (":scheme", "http"), (":path", "/sim.Hostile/x"), (":authority", "echo")];
    frame(kind::HEADERS, flags, stream, &[block(&usual), block(more)].concat())
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { length: payload.len() as u32, kind, flags, stream };
    [header.encode().as_slice(), payload].concat()
}

/// Returns a header block of literals that are not indexed (RFC 7541 section 6.2.2).
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            match text.len() {
                length @ ..127 => bytes.push(length as u8),
                length => {
                    bytes.push(127);
                    let mut rest = length - 127;
                    while rest >= 128 {
                        bytes.push(rest as u8 | 128);
                        rest >>= 7;
                    }
                    bytes.push(rest as u8);
                }
            }
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}

fn random_bytes(random: &mut Rng, most: usize) -> Vec<u8> {
    (0..random.usize(1..most)).map(|_| random.u8(..)).collect()
}

/// Returns a stream on which an attacker may send a header section: a request, or a response.
fn new_stream(at: &Position<'_>) -> u32 {
    if at.role == Role::Client { at.next } else { at.open.first().copied().unwrap_or(1) }
}

fn any_stream(random: &mut Rng, at: &Position<'_>) -> u32 {
    match random.u8(..6) {
        0 => 0,
        // A random stream number: the stream may be closed, or may never have been opened.
        1 => random.u32(1..at.next + 4),
        2 => at.next + 2 * random.u32(..1_000),
        _ => random.choice(at.open.iter().copied()).unwrap_or(1),
    }
}

fn oversized_block(random: &mut Rng, at: &Position<'_>) -> Vec<u8> {
    let value = "x".repeat(random.usize(5_000..150_000));
    let head = match at.role {
        Role::Client => request_head(at.next, &[("x-hostile", "1"), ("x-large", &value)], 0),
        Role::Server => frame(kind::HEADERS, 0, new_stream(at), &block(&[(":status", "200"), ("x-large", &value)])),
    };
    let payload = &head[9..];
    let mut bytes = Vec::new();
    for (index, piece) in payload.chunks(random.usize(100..16_384)).enumerate() {
        let kind = if index == 0 { kind::HEADERS } else { kind::CONTINUATION };
        bytes.extend(frame(kind, 0, new_stream(at), piece));
    }
    bytes.extend(frame(kind::CONTINUATION, flag::END_HEADERS, new_stream(at), &[]));
    bytes
}

fn broken_block(random: &mut Rng, at: &Position<'_>) -> Vec<u8> {
    match random.u8(..3) {
        0 => frame(kind::CONTINUATION, flag::END_HEADERS, any_stream(random, at), &[]),
        1 => [frame(kind::HEADERS, 0, new_stream(at), &[0x82]), frame(kind::PING, 0, 0, &[0; 8])].concat(),
        // The block sets an HPACK table size that is larger than allowed.
        _ => frame(kind::HEADERS, flag::END_HEADERS, new_stream(at), &[0x3f, 0xe1, 0xff, 0x03, 0x82]),
    }
}

fn flood(random: &mut Rng, at: &Position<'_>) -> Vec<u8> {
    let stream = any_stream(random, at);
    let one = match random.u8(..11) {
        0 => frame(kind::SETTINGS, 0, 0, &[]),
        1 => frame(kind::PING, 0, 0, &[7; 8]),
        2 => frame(kind::DATA, 0, stream, &[]),
        3 => frame(kind::DATA, 0, stream, b"x"),
        4 => frame(kind::WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1]),
        5 => frame(kind::PRIORITY, 0, at.next, &[0, 0, 0, 0, 1]),
        6 => frame(kind::GOAWAY, 0, 0, &[MAX_31_BITS.to_be_bytes(), [0; 4]].concat()),
        7 => frame(kind::SETTINGS, flag::ACK, 0, &[]),
        8 => frame(kind::PING, flag::ACK, 0, &[7; 8]),
        9 => frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]),
        _ => frame(77, 0, 0, &[]),
    };
    one.repeat(random.usize(50..3_000))
}

/// Opens streams and resets them, or resets the open streams.
fn rapid_resets(random: &mut Rng, at: &Position<'_>) -> Vec<u8> {
    let code = random.u32(..14).to_be_bytes();
    let streams: Vec<u32> = match at.role {
        Role::Client => (0..random.u32(5..300)).map(|index| at.next + 2 * index).collect(),
        Role::Server => at.open.to_vec(),
    };
    let mut bytes = Vec::new();
    for stream in streams {
        if at.role == Role::Client {
            let is_whole = random.bool();
            let flags = if is_whole { flag::END_HEADERS | flag::END_STREAM } else { flag::END_HEADERS };
            bytes.extend(request_head(stream, &[("x-hostile", "1"), ("content-type", "application/grpc")], flags));
        }
        bytes.extend(frame(kind::RST_STREAM, 0, stream, &code));
    }
    bytes
}

/// Returns a part of a frame, or of a header block.
pub(crate) fn truncated(random: &mut Rng, at: &Position<'_>) -> Vec<u8> {
    let mut bytes = match random.u8(..3) {
        0 => request_head(at.next, &[("x-hostile", "1")], flag::END_HEADERS),
        1 => frame(kind::DATA, 0, any_stream(random, at), &random_bytes(random, 100)),
        // A header block without END_HEADERS.
        _ => return request_head(at.next, &[("x-hostile", "1")], 0),
    };
    bytes.truncate(random.usize(1..bytes.len()));
    bytes
}

fn beyond_window(random: &mut Rng, at: &Position<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut stream = any_stream(random, at);
    if at.role == Role::Client && random.bool() {
        stream = at.next;
        bytes.extend(request_head(stream, &[("x-hostile", "1")], flag::END_HEADERS));
    }
    let one = frame(kind::DATA, 0, stream, &[5; 16_384]);
    (0..random.usize(1..20)).for_each(|_| bytes.extend(&one));
    bytes
}

fn strange_settings(random: &mut Rng) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..random.usize(1..4) {
        let value = random.choice([0, 1, 2, 100, 16_384, MAX_31_BITS, u32::MAX]).unwrap_or(0);
        payload.extend(random.u16(..8).to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    payload.truncate(payload.len() - usize::from(random.u8(..8) == 0));
    frame(kind::SETTINGS, u8::from(random.u8(..8) == 0), u32::from(random.u8(..8) == 0), &payload)
}

/// Returns a malformed request or response.
fn malformed_message(random: &mut Rng, at: &Position<'_>) -> Vec<u8> {
    let flags = if random.bool() { flag::END_HEADERS | flag::END_STREAM } else { flag::END_HEADERS };
    let stream = new_stream(at);
    let data = frame(kind::DATA, random.u8(..2), stream, &random_bytes(random, 20));
    if at.role == Role::Client {
        let more: &[(&str, &str)] = match random.u8(..8) {
            0 => &[("X-Upper", "1")],
            1 => &[(":late", "1")],
            2 => &[("connection", "close")],
            3 => &[("content-length", "5")],
            4 => &[("content-length", "5"), ("content-length", "7")],
            5 => &[("transfer-encoding", "chunked")],
            6 => &[(":authority", "echo")],
            _ => &[("x-line", "a\r\nb: c")],
        };
        return [request_head(stream, more, flags), data].concat();
    }
    let fields: &[(&str, &str)] = match random.u8(..9) {
        0 => &[(":status", "abc")],
        1 => &[("x", "no status")],
        2 => &[(":status", "101")],
        3 => &[(":status", "200"), ("content-length", "5")],
        4 => &[(":status", "200"), ("content-length", "5"), ("content-length", "6")],
        5 => &[(":status", "200"), (":path", "/")],
        6 => &[(":status", "200"), ("Upper", "1")],
        7 => &[(":status", "200"), ("connection", "close")],
        _ => &[(":status", "200")],
    };
    let head = frame(kind::HEADERS, flags, stream, &block(fields));
    match random.u8(..5) {
        // Content before the response, and after its end.
        0 => [data.clone(), head, data].concat(),
        1 => frame(kind::HEADERS, flag::END_HEADERS, stream, &block(&[(":status", "100")])).repeat(random.usize(1..60)),
        2 => [head.clone(), head].concat(),
        _ => [head, data].concat(),
    }
}
