//! HTTP/2 frames and HPACK blocks as bytes, written by hand so that they can be invalid.

use std::io::{self, Read};

/// The client's connection preface (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types (RFC 9113 section 6).
pub mod kind {
    #![allow(missing_docs)]
    pub const DATA: u8 = 0x0;
    pub const HEADERS: u8 = 0x1;
    pub const PRIORITY: u8 = 0x2;
    pub const RST_STREAM: u8 = 0x3;
    pub const SETTINGS: u8 = 0x4;
    pub const PING: u8 = 0x6;
    pub const GOAWAY: u8 = 0x7;
    pub const WINDOW_UPDATE: u8 = 0x8;
    pub const CONTINUATION: u8 = 0x9;
}

/// Frame flags (RFC 9113 section 6).
pub mod flag {
    #![allow(missing_docs)]
    pub const NONE: u8 = 0x0;
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
}

/// Error codes (RFC 9113 section 7).
pub mod code {
    #![allow(missing_docs)]
    pub const NO_ERROR: u32 = 0x0;
    pub const PROTOCOL_ERROR: u32 = 0x1;
    pub const FLOW_CONTROL_ERROR: u32 = 0x3;
    pub const STREAM_CLOSED: u32 = 0x5;
    pub const FRAME_SIZE_ERROR: u32 = 0x6;
    pub const REFUSED_STREAM: u32 = 0x7;
    pub const CANCEL: u32 = 0x8;
    pub const COMPRESSION_ERROR: u32 = 0x9;
    pub const ENHANCE_YOUR_CALM: u32 = 0xb;
}

/// One frame that a peer sent.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Frame type, see [`kind`].
    pub kind: u8,
    /// Flags, see [`flag`].
    pub flags: u8,
    /// Stream identifier; 0 is the connection.
    pub stream: u32,
    /// Everything after the 9 bytes of the frame header.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Reads one frame.
    ///
    /// # Errors
    /// Errors of `reader`; end of file in the middle of a frame is [`io::ErrorKind::UnexpectedEof`].
    pub fn read(reader: &mut impl Read) -> io::Result<Self> {
        let mut header = [0; 9];
        reader.read_exact(&mut header)?;
        let [a, b, c, kind, flags, stream @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        reader.read_exact(&mut payload)?;
        Ok(Self { kind, flags, stream: u32::from_be_bytes(stream) & 0x7fff_ffff, payload })
    }

    /// The error code of a RST_STREAM or GOAWAY frame.
    pub fn error_code(&self) -> Option<u32> {
        let at = match self.kind {
            kind::RST_STREAM => 0,
            kind::GOAWAY => 4,
            _ => return None,
        };
        let bytes = self.payload.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }

    /// Whether `flag` is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Returns the bytes of a frame with this payload, even if the payload is larger than a frame may be.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a payload's length fits").to_be_bytes();
    let mut bytes = Vec::with_capacity(9 + payload.len());
    bytes.extend_from_slice(&length[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A SETTINGS frame with these identifiers and values (RFC 9113 section 6.5.1).
pub fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> =
        values.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat()).collect();
    frame(kind::SETTINGS, flag::NONE, 0, &payload)
}

/// A HEADERS frame with the whole header block in it.
pub fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(kind::HEADERS, flags | flag::END_HEADERS, stream, block)
}

/// A RST_STREAM frame.
pub fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, flag::NONE, stream, &code.to_be_bytes())
}

/// A GOAWAY frame.
pub fn goaway(last_stream: u32, code: u32) -> Vec<u8> {
    frame(kind::GOAWAY, flag::NONE, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat())
}

/// A WINDOW_UPDATE frame.
pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, flag::NONE, stream, &increment.to_be_bytes())
}

/// An HPACK literal without indexing, name and value as plain strings (RFC 7541 section 6.2.2).
pub fn literal(name: &str, value: &str) -> Vec<u8> {
    [vec![0x00], string(name), string(value)].concat()
}

/// An HPACK literal with incremental indexing, which adds the field to the dynamic table (RFC 7541 section 6.2.1).
pub fn indexed_literal(name: &str, value: &str) -> Vec<u8> {
    [vec![0x40], string(name), string(value)].concat()
}

/// An HPACK string without Huffman coding (RFC 7541 section 5.2).
fn string(text: &str) -> Vec<u8> {
    [integer(text.len(), 7), text.as_bytes().to_vec()].concat()
}

/// An HPACK integer with a prefix of `prefix_bits`; the other bits of its first byte are zero (RFC 7541 section 5.1).
fn integer(value: usize, prefix_bits: u32) -> Vec<u8> {
    let low = |value: usize| u8::try_from(value).expect("fits a byte");
    let limit = (1 << prefix_bits) - 1;
    if value < limit {
        return vec![low(value)];
    }
    let mut bytes = vec![low(limit)];
    let mut rest = value - limit;
    while rest >= 128 {
        bytes.push(low(rest % 128) | 0x80);
        rest /= 128;
    }
    bytes.push(low(rest));
    bytes
}

/// The header block of a gRPC call to `authority`, with `extra` fields after the usual fields.
pub fn call_block(authority: &str, method: &str, extra: &[(&str, &str)]) -> Vec<u8> {
    let path = format!("/test.Test/{method}");
    let usual = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path.as_str()),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    usual.iter().chain(extra).flat_map(|(name, value)| literal(name, value)).collect()
}

/// The header block of a response: status 200 and `extra` fields.
pub fn answer_block(extra: &[(&str, &str)]) -> Vec<u8> {
    let usual = [(":status", "200"), ("content-type", "application/grpc")];
    usual.iter().chain(extra).flat_map(|(name, value)| literal(name, value)).collect()
}

/// The stream identifiers of a client, in order (RFC 9113 section 5.1.1).
pub fn client_streams() -> impl Iterator<Item = u32> {
    (1..0x7fff_ffff).step_by(2)
}
