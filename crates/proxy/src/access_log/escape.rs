//! What a peer sent, made harmless: printable ASCII of a bounded length, from which no line or field can break out.

use std::io::Write as _;

/// Longest method that is written, in bytes as sent.
pub(super) const METHOD_MAX_BYTES: usize = 32;
/// Longest authority that is written.
pub(super) const AUTHORITY_MAX_BYTES: usize = 256;
/// Longest path that is written.
pub(super) const PATH_MAX_BYTES: usize = 1_024;
/// Longest request id that is written.
pub(super) const REQUEST_ID_MAX_BYTES: usize = 128;
/// Longest user agent that is written.
pub(super) const USER_AGENT_MAX_BYTES: usize = 256;

/// Stands at the end of what was cut.
const CUT: &[u8] = b"...";

/// Appends the inside of a JSON string (RFC 8259 section 7); bytes that are no UTF-8 become U+FFFD.
pub(super) fn push_json(line: &mut Vec<u8>, bytes: &[u8], max_bytes: usize) {
    let (kept, is_cut) = cut(bytes, max_bytes);
    for chunk in kept.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => line.extend([b'\\', c as u8]),
                ' '..='~' => line.push(c as u8),
                // Also what JSON would allow: terminals and viewers obey some of it, such as a change of direction.
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

/// Appends the inside of a quoted string as Apache writes it: `\"`, `\\`, and `\xhh` for what is not printable.
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

/// Appends what the proxy itself has to say.
pub(super) fn push_fmt(line: &mut Vec<u8>, arguments: std::fmt::Arguments) {
    line.write_fmt(arguments).expect("writing to a Vec cannot fail");
}

/// As many of the bytes as are written, and whether there were more; a character of UTF-8 is not cut in two.
fn cut(bytes: &[u8], max_bytes: usize) -> (&[u8], bool) {
    if bytes.len() <= max_bytes {
        return (bytes, false);
    }
    let is_continuation = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    // A character has at most three continuation bytes; longer runs are no UTF-8.
    let end = (max_bytes.saturating_sub(3)..=max_bytes).rev().find(|at| !is_continuation(at)).unwrap_or(max_bytes);
    (bytes.get(..end).unwrap_or_default(), true)
}

#[cfg(test)]
#[path = "escape_tests.rs"]
mod tests;
