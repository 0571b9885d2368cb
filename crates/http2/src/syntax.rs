//! The syntax of methods, values and request targets. A request that arrives over HTTP/1 may leave over HTTP/2, so both
//! engines use these rules.
//!
//! Many clients share a connection to an HTTP/2 server. Some servers close the connection when they receive a value
//! that these rules reject; others reset the stream, and close the connection after about a thousand such streams. So
//! one client could end the calls of all clients. To prevent this, the rules accept no more than the crates h2 and http
//! accept. For paths and authorities, only [`is_uri_path`] and [`is_authority`] are that strict. Clients also send
//! other values, which some servers accept. The engines accept these values and mark them in
//! [`Defects`](crate::fields::Defects).

use std::net::Ipv6Addr;

/// Whether this is a token (RFC 9110 section 5.6.2), as a method is.
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_token_byte(byte))
}

/// Whether a byte may be in a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+')
        || matches!(byte, b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

/// Whether a byte is a control character other than a tab. Neither a value nor a reason phrase may contain one (RFC
/// 9110 section 5.5).
#[inline]
pub fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

/// Whether this is a field value (RFC 9110 section 5.5): it contains no control character.
#[inline]
pub fn is_value(text: &[u8]) -> bool {
    // No early exit, so that the compiler vectorizes the loop.
    !text.iter().fold(false, |found, &byte| found | is_control(byte))
}

/// Whether this is a path, possibly with a query, or `*` (RFC 9112 section 3.2). Clients send some characters that URIs
/// may not contain (RFC 3986 section 3.3), such as `"`, `|` and bytes beyond ASCII.
pub fn is_path(path: &[u8]) -> bool {
    path == b"*" || (path.starts_with(b"/") && has_path_characters(path))
}

/// Whether this contains only characters that a path and its query may contain ([`is_path`]).
pub fn has_path_characters(text: &[u8]) -> bool {
    is_visible(text) && !text.contains(&b'#')
}

/// Whether this contains neither white space nor a control character. It may be empty.
pub(crate) fn is_visible(text: &[u8]) -> bool {
    text.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

/// Whether the crate http accepts this path ([`is_path`]). It accepts most characters that URIs may not contain, except
/// `<` and `>`. It accepts `"` only before the query, and `` ` `` only in the query.
pub fn is_uri_path(path: &[u8]) -> bool {
    let query_start = path.iter().position(|&byte| byte == b'?').unwrap_or(path.len());
    let (before, query) = path.split_at_checked(query_start).unwrap_or((path, b""));
    is_path(path)
        && before.iter().all(|&byte| is_uri_byte(byte) || byte == b'"')
        && query.iter().all(|&byte| is_uri_byte(byte) || matches!(byte, b'?' | b'`'))
        && std::str::from_utf8(path).is_ok()
}

/// Whether a byte may be in a path and in a query.
fn is_uri_byte(byte: u8) -> bool {
    matches!(byte, b'!' | b'$'..=b';' | b'=' | b'@'..=b'_' | b'a'..=b'~' | 0x80..)
}

/// Whether this is a host, possibly with a port (RFC 3986 section 3.2, RFC 9110 section 7.2). Rejects user information,
/// lists and other forms that have been used to name two hosts at once.
pub fn is_authority(value: &[u8]) -> bool {
    let Ok(value) = std::str::from_utf8(value) else { return false };
    let in_brackets = value.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = match in_brackets.filter(|(address, _)| address.parse::<Ipv6Addr>().is_ok()) {
        Some((_, "")) => ("", ""),
        Some((_, rest)) => ("", rest.strip_prefix(':').unwrap_or("[")),
        None => value.split_once(':').unwrap_or((value, "")),
    };
    !value.is_empty() && host.bytes().chain(port.bytes()).all(is_authority_byte)
}

/// Whether a byte may be in the name of a host. Excludes `%`, which the crate http rejects there.
fn is_authority_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'')
        || matches!(byte, b'(' | b')' | b'*' | b'+' | b';' | b'=')
}

#[cfg(test)]
#[path = "syntax_tests.rs"]
mod tests;
