//! Frames written and parsed by hand, for misbehaving peers.

pub(crate) use leno_http2::frame::{PREFACE as PREFACE_BYTES, flag, kind};

pub(crate) const PREFACE: &[u8] = PREFACE_BYTES;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The number in the first four bytes of RST_STREAM or WINDOW_UPDATE.
    pub(crate) fn value(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().expect("four bytes"))
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Parses complete frames.
pub(crate) fn parse(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    bytes = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
    while !bytes.is_empty() {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let stream = u32::from_be_bytes(bytes[5..9].try_into().expect("four bytes"));
        frames.push(Frame { kind: bytes[3], flags: bytes[4], stream, payload: bytes[9..9 + length].to_vec() });
        bytes = &bytes[9 + length..];
    }
    frames
}

pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> =
        values.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    frame(kind::SETTINGS, 0, 0, &payload)
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(crate) fn rst_stream(stream: u32, code: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(crate) fn ping() -> Vec<u8> {
    frame(kind::PING, 0, 0, b"12345678")
}

pub(crate) fn goaway(last_stream: u32, code: u32) -> Vec<u8> {
    frame(kind::GOAWAY, 0, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat())
}

/// Encodes a header block of literals without indexing and without Huffman coding. Strings are shorter than 127 + 2^14
/// bytes.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for string in [name, value] {
            match string.len() {
                short @ 0..127 => block.push(short as u8),
                long => {
                    assert!(long < 127 + (1 << 14));
                    let rest = long - 127;
                    block.extend_from_slice(&[127, 0x80 | (rest & 0x7f) as u8, (rest >> 7) as u8]);
                }
            }
            block.extend_from_slice(string.as_bytes());
        }
    }
    block
}

/// A complete HEADERS frame.
pub(crate) fn headers(stream: u32, fields: &[(&str, &str)], end_stream: bool) -> Vec<u8> {
    let end = if end_stream { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flag::END_HEADERS | end, stream, &block(fields))
}

pub(crate) const REQUEST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":path", "/a.B/C"), (":authority", "b.a:1")];

/// A HEADERS frame with a request's header section, without END_STREAM.
pub(crate) fn request(stream: u32) -> Vec<u8> {
    headers(stream, &REQUEST, false)
}

/// A complete request without content.
pub(crate) fn whole_request(stream: u32) -> Vec<u8> {
    headers(stream, &REQUEST, true)
}

pub(crate) fn data(stream: u32, bytes: &[u8], end_stream: bool) -> Vec<u8> {
    frame(kind::DATA, if end_stream { flag::END_STREAM } else { 0 }, stream, bytes)
}
