//! Frames on the wire (RFC 9113 sections 4 and 6): the header of nine bytes, and small payloads that we send.

use crate::error::ErrorCode;

/// The client's connection preface (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame header.
pub const HEADER_BYTES: usize = 9;
/// The largest stream identifier, window and window increment: 2^31-1.
pub const MAX_31_BITS: u32 = (1 << 31) - 1;

/// Frame types (RFC 9113 section 6).
pub mod kind {
    #![allow(missing_docs)]
    pub const DATA: u8 = 0x0;
    pub const HEADERS: u8 = 0x1;
    pub const PRIORITY: u8 = 0x2;
    pub const RST_STREAM: u8 = 0x3;
    pub const SETTINGS: u8 = 0x4;
    pub const PUSH_PROMISE: u8 = 0x5;
    pub const PING: u8 = 0x6;
    pub const GOAWAY: u8 = 0x7;
    pub const WINDOW_UPDATE: u8 = 0x8;
    pub const CONTINUATION: u8 = 0x9;
}

/// Frame flags (RFC 9113 section 6).
pub mod flag {
    #![allow(missing_docs)]
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// The nine bytes before every payload (RFC 9113 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of payload, 0 to 2^24-1.
    pub length: u32,
    /// Frame type; see [`kind`].
    pub kind: u8,
    /// Flags; see [`flag`].
    pub flags: u8,
    /// Stream identifier, 0 for the connection. The reserved bit is dropped.
    pub stream: u32,
}

impl FrameHeader {
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [l2, l1, l0, kind, flags, s3, s2, s1, s0] = *bytes;
        Self {
            length: u32::from_be_bytes([0, l2, l1, l0]),
            kind,
            flags,
            stream: u32::from_be_bytes([s3, s2, s1, s0]) & MAX_31_BITS,
        }
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let [_, l2, l1, l0] = self.length.to_be_bytes();
        let [s3, s2, s1, s0] = self.stream.to_be_bytes();
        [l2, l1, l0, self.kind, self.flags, s3, s2, s1, s0]
    }

    /// Whether `flag` is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame with a small payload.
pub(crate) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let header = FrameHeader { length: payload.len() as u32, kind, flags, stream };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(payload);
}

pub(crate) fn write_rst_stream(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write(out, kind::RST_STREAM, 0, stream, &code.0.to_be_bytes());
}

pub(crate) fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write(out, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

pub(crate) fn write_goaway(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode, debug: &str) {
    let mut payload = Vec::with_capacity(8 + debug.len());
    payload.extend_from_slice(&last_stream.to_be_bytes());
    payload.extend_from_slice(&code.0.to_be_bytes());
    payload.extend_from_slice(debug.as_bytes());
    write(out, kind::GOAWAY, 0, 0, &payload);
}

/// Removes padding from a payload (RFC 9113 section 6.1). `None` if the padding is longer than the rest of the payload.
pub(crate) fn unpad(header: FrameHeader, payload: &[u8]) -> Option<&[u8]> {
    if !header.has(flag::PADDED) {
        return Some(payload);
    }
    let (&pad, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(pad))?)
}

/// Reads four bytes, big-endian, at the front of `bytes`.
pub(crate) fn read_u32(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<4>().map(|four| u32::from_be_bytes(*four))
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
