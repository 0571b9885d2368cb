//! Escapes bytes from a peer. The result is printable ASCII of a limited length, which cannot end a line or a field of
//! the log.

use std::io::Write as _;

/// Longest logged method, in bytes before escaping.
pub(super) const METHOD_MAX_BYTES: usize = 32;
/// Longest logged authority, in bytes before escaping.
pub(super) const AUTHORITY_MAX_BYTES: usize = 256;
/// Longest logged path, in bytes before escaping.
pub(super) const PATH_MAX_BYTES: usize = 1_024;
/// Longest logged request id, in bytes before escaping.
pub(super) const REQUEST_ID_MAX_BYTES: usize = 128;
/// Longest logged user agent, in bytes before escaping.
pub(super) const USER_AGENT_MAX_BYTES: usize = 256;

/// Marks the end of truncated text.
const CUT: &[u8] = b"...";

/// Appends bytes, escaped for a JSON string (RFC 8259 section 7), without the quotes around them. Bytes that are not
/// UTF-8 become U+FFFD.
pub(crate) fn push_json(line: &mut Vec<u8>, bytes: &[u8], max_bytes: usize) {
    let (kept, is_cut) = cut(bytes, max_bytes);
    for chunk in kept.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => line.extend([b'\\', c as u8]),
                ' '..='~' => line.push(c as u8),
                // JSON allows these characters. Escape them nevertheless, because a terminal or a viewer may interpret
                // them: for example, they can change the direction of the text.
                _ => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        push_fmt(line, format_args!("\\u{unit:04x}"));
                    }
                }
            }
        }
        if !chunk.invalid().is_empty() {
            line.extend(b"\\ufffd");
        }
    }
    if is_cut {
        line.extend(CUT);
    }
}

/// Appends bytes, escaped for a quoted string in Apache's notation, without the quotes around them: `\"`, `\\`, and
/// `\xhh` for unprintable bytes.
pub(super) fn push_quoted(line: &mut Vec<u8>, bytes: &[u8], max_bytes: usize) {
    let (kept, is_cut) = cut(bytes, max_bytes);
    for &byte in kept {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', byte]),
            b' '..=b'~' => line.push(byte),
            _ => push_fmt(line, format_args!("\\x{byte:02x}")),
        }
    }
    if is_cut {
        line.extend(CUT);
    }
}

/// Appends text that the proxy itself has created; it needs no escaping.
pub(super) fn push_fmt(line: &mut Vec<u8>, arguments: std::fmt::Arguments) {
    line.write_fmt(arguments).expect("writing to a Vec cannot fail");
}

/// Returns the part of the bytes to log, and whether the rest was cut off. Never splits a UTF-8 character.
fn cut(bytes: &[u8], max_bytes: usize) -> (&[u8], bool) {
    if bytes.len() <= max_bytes {
        return (bytes, false);
    }
    let is_continuation = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    // A character has at most three continuation bytes. A longer run is not UTF-8, so it may be cut anywhere.
    let end = (max_bytes.saturating_sub(3)..=max_bytes).rev().find(|at| !is_continuation(at)).unwrap_or(max_bytes);
    (bytes.get(..end).unwrap_or_default(), true)
}

#[cfg(test)]
#[path = "escape_tests.rs"]
mod tests;
