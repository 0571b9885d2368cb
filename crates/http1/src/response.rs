//! A response's header section: its line and fields (RFC 9112 section 4).

use std::mem::MaybeUninit;

use leno_http2::FieldSection;
use leno_http2::fields::Known;

use crate::error::ConnectionError;
use crate::limits::{Limits, MAX_FIELDS};
use crate::list;
use crate::message::{Content, Control, is_named};
use crate::reason;

/// The request to which a response belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    /// Method was HEAD.
    pub(crate) head: bool,
    /// Method was CONNECT.
    pub(crate) connect: bool,
    /// The protocols to which the client offered to switch.
    pub(crate) upgrade: Option<&'a [u8]>,
}

/// The properties of a response that the connection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    /// Whether this is an interim response, which is followed by another response.
    pub(crate) interim: bool,
    pub(crate) content: Content,
    /// Whether the connection can be reused.
    pub(crate) persistent: bool,
    /// How long the server keeps the connection open without a request, in seconds, if the response announces this.
    pub(crate) keep_alive_s: Option<u16>,
}

/// Parses a header section up to its empty line, and overwrites `fields`.
pub(crate) fn parse(
    bytes: &[u8],
    asked: Asked<'_>,
    limits: &Limits,
    fields: &mut FieldSection,
) -> Result<ResponseHead, ConnectionError> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut response, bytes, &mut headers).map_err(explain)?;
    let (httparse::Status::Complete(length), Some(minor), Some(status @ 100..)) =
        (parsed, response.version, response.code)
    else {
        return Err(NOT_A_RESPONSE);
    };
    if length != bytes.len() {
        return Err(NOT_A_RESPONSE);
    }
    let control = Control::read(response.headers, minor)?;
    let interim = status < 200 && status != 101;
    let upgrade = if status == 101 { Some(switched(&control, response.headers, asked)?) } else { None };
    let content = match control.content_length {
        _ if status == 101 || (asked.connect && (200..300).contains(&status)) => Content::Tunnel,
        _ if asked.head || interim || matches!(status, 204 | 304) => Content::None,
        _ if control.chunked => Content::Chunked,
        Some(0) => Content::None,
        Some(length) => Content::Length(length),
        None => Content::UntilClose,
    };

    fields.clear();
    let shown_status = if upgrade.is_some() { 200 } else { status };
    let phrase = response.reason.filter(|phrase| *phrase != reason::phrase(status)).unwrap_or_default();
    fields.push_with_note(b":status", shown_status.to_string().as_bytes(), phrase.as_bytes());
    // An interim response ends with its header section, whatever its fields announce (RFC 9112 section 6.3). Some
    // servers send `content-length: 0` in it. Drop the length, because HTTP forbids it there (RFC 9110 section 8.6).
    let lengthless = content == Content::Tunnel || interim || status == 204;
    // `te` is valid in requests only (RFC 9110 section 10.1.4).
    let dropped = |known| known == Known::Te || (lengthless && known == Known::ContentLength);
    control.push_fields(response.headers, fields, dropped)?;
    if let Some(protocol) = upgrade {
        fields.set(Known::LenoUpgrade, &protocol);
    }
    if fields.list_size() > limits.max_header_list_bytes as usize {
        return Err(ConnectionError::new(502, "the response's header fields are too large"));
    }
    // Send only one request on a connection to an HTTP/1.0 server. The next request might have content of unknown
    // length, which needs chunked coding, and HTTP/1.0 has no chunked coding.
    let persistent = minor == 1 && control.is_persistent(minor) && content != Content::UntilClose;
    let keep_alive_s = keep_alive_s(response.headers);
    Ok(ResponseHead { interim, content, persistent, keep_alive_s })
}

/// Returns the time in `Keep-Alive: timeout=5`. RFC 9112 does not define the parameters of this field, but Node.js,
/// Apache httpd and nginx send them in the form of RFC 2068 section 19.7.1.1.
fn keep_alive_s(headers: &[httparse::Header<'_>]) -> Option<u16> {
    let values = headers.iter().filter(|header| is_named(header, "keep-alive"));
    let seconds = values.flat_map(|header| list::members(header.value)).filter_map(|parameter| {
        let (name, value) = std::str::from_utf8(parameter).ok()?.split_once('=')?;
        let seconds = value.trim().parse::<u64>().ok().filter(|_| name.trim().eq_ignore_ascii_case("timeout"))?;
        Some(u16::try_from(seconds).unwrap_or(u16::MAX))
    });
    seconds.min()
}

const NOT_A_RESPONSE: ConnectionError = ConnectionError { status: 502, why: "the bytes are not an HTTP/1 response" };

/// The protocol to which a 101 response switches; it must have been offered (RFC 9110 section 15.2.2).
fn switched(
    control: &Control<'_>,
    headers: &[httparse::Header<'_>],
    asked: Asked<'_>,
) -> Result<Vec<u8>, ConnectionError> {
    let protocol = control.upgrade(headers).ok_or(ConnectionError::bad("a 101 response names no protocol"))?;
    let was_offered = |protocol| asked.upgrade.is_some_and(|offered| list::contains(offered, protocol));
    if !list::members(&protocol).all(was_offered) {
        return Err(ConnectionError::bad("a 101 response switches to a protocol that was not offered"));
    }
    Ok(protocol)
}

fn explain(error: httparse::Error) -> ConnectionError {
    use httparse::Error;
    match error {
        Error::TooManyHeaders => ConnectionError::new(502, "the response has too many header fields"),
        Error::HeaderName => ConnectionError::new(502, "a field name is not valid, or is followed by white space"),
        Error::HeaderValue => ConnectionError::new(502, "a field value has a character that is not allowed"),
        _ => NOT_A_RESPONSE,
    }
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
