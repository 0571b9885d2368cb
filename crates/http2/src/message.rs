//! Well-formed messages (RFC 9113 section 8): the rules for requests, responses and trailers.

use crate::fields::{Defects, FieldSection, Known};
use crate::syntax;

/// The kind of a field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// A request's header section.
    Request,
    /// An interim response, 1xx (RFC 9110 section 15.2).
    Interim,
    /// A final response's header section.
    Response,
    /// Trailers of a request or a response.
    Trailers,
}

/// The rule that a malformed message violates. The message is a stream error of type PROTOCOL_ERROR (RFC 9113 section
/// 8.1.1).
pub(crate) type Malformed = &'static str;

/// The properties of a well-formed request or response that the connection needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Framing {
    /// Value of `content-length`.
    pub(crate) content_length: Option<u64>,
    /// `:status`, for responses.
    pub(crate) status: u16,
    /// Method is HEAD.
    pub(crate) head: bool,
    /// Method is CONNECT.
    pub(crate) connect: bool,
}

/// Checks a request's header section (RFC 9113 sections 8.2 and 8.3.1, CONNECT: 8.5).
pub(crate) fn check_request(fields: &FieldSection) -> Result<Framing, Malformed> {
    check_lines(fields)?;
    if fields.contains(Known::Status) {
        return Err("a request has :status");
    }
    if fields.contains(Known::Protocol) {
        return Err("extended CONNECT is not enabled");
    }
    let method = fields.get(Known::Method).ok_or("a request has no :method")?;
    let (scheme, path) = (fields.get(Known::Scheme), fields.get(Known::Path));
    let connect = method == b"CONNECT";
    if connect {
        if scheme.is_some() || path.is_some() || !fields.get(Known::Authority).is_some_and(syntax::is_authority) {
            return Err("a CONNECT request has :scheme or :path, or no valid :authority");
        }
    } else {
        if !scheme.is_some_and(is_scheme) {
            return Err("a request has no valid :scheme");
        }
        match path {
            None => return Err("a request has no :path"),
            Some(b"*") if method != b"OPTIONS" => return Err("the :path * is for OPTIONS only"),
            Some(_) => {}
        }
    }
    only_value(fields, Known::Host)?;
    Ok(Framing { content_length: content_length(fields)?, status: 0, head: method == b"HEAD", connect })
}

/// RFC 3986 section 3.1: a letter, then letters, digits, `+`, `-` and `.`. The crate http accepts up to 64 characters.
fn is_scheme(scheme: &[u8]) -> bool {
    matches!(scheme, b"http" | b"https")
        || scheme.first().is_some_and(u8::is_ascii_alphabetic)
            && scheme.len() <= 64
            && scheme.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'.'))
}

/// Checks the header section of a final or an interim response (RFC 9113 section 8.3.2).
pub(crate) fn check_response(fields: &FieldSection) -> Result<Framing, Malformed> {
    check_lines(fields)?;
    if [Known::Method, Known::Path, Known::Scheme, Known::Authority, Known::Protocol]
        .iter()
        .any(|&pseudo| fields.contains(pseudo))
    {
        return Err("a response has a request's pseudo-header field");
    }
    let status = match fields.get(Known::Status).ok_or("a response has no :status")? {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')
        }
        _ => return Err("a :status is not three digits"),
    };
    if status == 101 {
        return Err("HTTP/2 has no 101 response");
    }
    Ok(Framing { content_length: content_length(fields)?, status, ..Framing::default() })
}

/// Checks trailers (RFC 9113 section 8.1): no pseudo-header fields.
pub(crate) fn check_trailers(fields: &FieldSection) -> Result<(), Malformed> {
    check_lines(fields)?;
    // Checking the first field is enough: `check_lines` has already rejected pseudo-header fields after regular fields.
    if fields.iter().next().is_some_and(|line| line.name.starts_with(b":")) {
        return Err("trailers have a pseudo-header field");
    }
    Ok(())
}

fn check_lines(fields: &FieldSection) -> Result<(), Malformed> {
    let defects = fields.defects();
    if !defects.is_malformed() {
        return Ok(());
    }
    for (defect, why) in [
        (Defects::BAD_NAME, "a field name has a character that is not allowed"),
        (Defects::BAD_VALUE, "a field value is not valid"),
        (Defects::PSEUDO_AFTER_REGULAR, "a pseudo-header field follows a regular one"),
        (Defects::CONNECTION_SPECIFIC, "a connection-specific field is not allowed in HTTP/2"),
        (Defects::UNKNOWN_PSEUDO, "an unknown pseudo-header field"),
        (Defects::DUPLICATE_PSEUDO, "a pseudo-header field stands twice"),
    ] {
        if defects.contains(defect) {
            return Err(why);
        }
    }
    Ok(())
}

fn content_length(fields: &FieldSection) -> Result<Option<u64>, Malformed> {
    match only_value(fields, Known::ContentLength)? {
        Some(value) => parse_content_length(value).map(Some).ok_or("content-length is not a number"),
        None => Ok(None),
    }
}

/// Returns the value of a field that a message may contain only once. Equal `content-length` fields are allowed (RFC
/// 9110 section 8.6), but some servers reject them.
fn only_value(fields: &FieldSection, known: Known) -> Result<Option<&[u8]>, Malformed> {
    if !fields.contains(known) {
        return Ok(None);
    }
    let mut values = fields.iter().filter(|line| line.known == known).map(|line| line.value);
    let first = values.next();
    if values.next().is_none() { Ok(first) } else { Err("a host or content-length field stands twice") }
}

/// Largest number of digits in a `content-length`: the crate h2 accepts no more.
const MAX_LENGTH_DIGITS: usize = 19;

/// Parses a length that consists of decimal digits only (RFC 9110 section 8.6). Rejects lengths from 2^63 on, as other
/// implementations do.
pub fn parse_content_length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > MAX_LENGTH_DIGITS {
        return None;
    }
    let length = digits.iter().try_fold(0u64, |n, c| match c {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(u64::from(c - b'0')),
        _ => None,
    })?;
    (length <= i64::MAX as u64).then_some(length)
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
