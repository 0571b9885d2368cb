//! Detect: finds out the protocol of a connection from its first bytes.

use leno_http2::frame::{FrameHeader, PREFACE, kind};
use rustls::server::Acceptor;

/// Maximum number of bytes that are needed to detect a protocol. A TLS ClientHello has a few hundred to two thousand
/// bytes, and a request line has fewer.
pub const DETECT_BYTES: usize = 16 << 10;
/// The type of a ClientHello, the first handshake message (RFC 8446 section 4).
const CLIENT_HELLO: u8 = 1;
/// Largest content of a plaintext record (RFC 8446 section 5.1).
const RECORD_MAX_BYTES: usize = 1 << 14;
/// Length of one parameter in a SETTINGS frame (RFC 9113 section 6.5.1).
const SETTING_BYTES: u32 = 6;
/// Longest method that the proxy accepts in an HTTP/1 request line, in bytes.
const METHOD_MAX_BYTES: usize = 32;

/// The result of detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detected {
    /// More bytes are needed.
    Undecided,
    /// The client connection preface of HTTP/2 (RFC 9113 section 3.4).
    Http2,
    /// A request line of HTTP/1.x (RFC 9112 section 3).
    Http1,
    /// A TLS ClientHello (RFC 8446 section 4.1.2).
    Tls {
        /// The server name that the client sent, if any (RFC 6066 section 3).
        server_name: Option<String>,
    },
    /// Any other protocol.
    Opaque,
}

/// Detects the protocol of a connection from its first bytes. Never returns [`Detected::Undecided`] for
/// [`DETECT_BYTES`] or more bytes.
pub fn detect(first: &[u8]) -> Detected {
    if first.is_empty() || (first.len() < PREFACE.len() && PREFACE.starts_with(first)) {
        return Detected::Undecided;
    }
    if first.starts_with(PREFACE) {
        return Detected::Http2;
    }
    let detected = match first {
        [22] => Detected::Undecided,
        [22, 3, ..] => client_hello(first),
        _ => request_line(first),
    };
    match detected {
        Detected::Undecided if first.len() < DETECT_BYTES => Detected::Undecided,
        Detected::Undecided if begins_tls(first) => Detected::Tls { server_name: None },
        Detected::Undecided => Detected::Opaque,
        decided => decided,
    }
}

/// Returns whether the first bytes may be the beginning of a ClientHello. The rest of the ClientHello may arrive later.
/// Without any bytes, returns `false`.
pub fn begins_tls(first: &[u8]) -> bool {
    match first {
        [22] => true,
        [22, 3, rest @ ..] => rest.get(3).is_none_or(|kind| *kind == CLIENT_HELLO),
        _ => false,
    }
}

/// Returns whether a server's first bytes are HTTP/2: a SETTINGS frame, which the server may send before the client's
/// preface (RFC 9113 section 3.4).
pub(crate) fn is_server_preface(first: &[u8]) -> bool {
    first.first_chunk().map(FrameHeader::parse).is_some_and(|header| {
        header.kind == kind::SETTINGS
            && header.flags == 0
            && header.stream == 0
            && header.length.is_multiple_of(SETTING_BYTES)
    })
}

/// Parses a ClientHello, without answering it.
fn client_hello(first: &[u8]) -> Detected {
    match has_whole_message(first) {
        None => return Detected::Opaque,
        Some(false) => return Detected::Undecided,
        Some(true) => {}
    }
    let mut acceptor = Acceptor::default();
    let mut rest = first;
    while !rest.is_empty() {
        match acceptor.read_tls(&mut rest) {
            Ok(0) | Err(_) => return Detected::Opaque,
            Ok(_) => {}
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let server_name = accepted.client_hello().server_name().map(str::to_owned);
                return Detected::Tls { server_name };
            }
            Ok(None) => {}
            // The relay forwards a malformed ClientHello: the destination server decides what to do with it. Any other
            // bytes are not TLS.
            Err(_) if begins_tls(first) => return Detected::Tls { server_name: None },
            Err(_) => return Detected::Opaque,
        }
    }
    Detected::Undecided
}

/// Returns whether `first` can be parsed: the first handshake message (RFC 8446 sections 4 and 5.1) is complete, or the
/// records cannot belong to a handshake. Returns `None` if the first record has a length that TLS does not allow.
///
/// A ClientHello may arrive byte by byte, or in records of one byte. This check ensures that it is parsed only once,
/// when it is complete.
fn has_whole_message(first: &[u8]) -> Option<bool> {
    /// Size of the header of a handshake message: its type and its length.
    const HEAD_BYTES: usize = 4;
    let (mut rest, mut head, mut held) = (first, Vec::with_capacity(HEAD_BYTES), 0);
    while let [kind, _, _, high, low, body @ ..] = rest {
        let record_bytes = usize::from(u16::from_be_bytes([*high, *low]));
        // A handshake record is never empty.
        if !(1..=RECORD_MAX_BYTES).contains(&record_bytes) || *kind != 22 {
            return (held > 0).then_some(true);
        }
        let Some((record, next)) = body.split_at_checked(record_bytes) else { return Some(false) };
        head.extend(record.iter().take(HEAD_BYTES - head.len()));
        held += record_bytes;
        if let [kind, high, middle, low] = head[..] {
            if kind != CLIENT_HELLO {
                return Some(true);
            }
            let message_bytes = u32::from_be_bytes([0, high, middle, low]) as usize;
            if held >= HEAD_BYTES + message_bytes {
                return Some(true);
            }
        }
        rest = next;
    }
    Some(false)
}

/// Detects a request line: a method, a space, a target, a space and a version that begins with `HTTP/1.`
fn request_line(first: &[u8]) -> Detected {
    let is_method = |c: &u8| c.is_ascii_uppercase() || matches!(c, b'-' | b'_');
    let method = first.iter().take_while(|c| is_method(c)).count();
    match first.get(method) {
        None if method <= METHOD_MAX_BYTES => return Detected::Undecided,
        Some(b' ') if (1..=METHOD_MAX_BYTES).contains(&method) => {}
        _ => return Detected::Opaque,
    }
    match first.iter().position(|&c| c == b'\n') {
        None => Detected::Undecided,
        Some(end) => {
            let line = first.get(..end).unwrap_or_default();
            let has_version = line.windows(8).any(|window| window == b" HTTP/1.");
            if has_version { Detected::Http1 } else { Detected::Opaque }
        }
    }
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
