//! A request's header section: its line and fields (RFC 9112 section 3).

use std::mem::MaybeUninit;

use leno_http2::FieldSection;
use leno_http2::fields::Known;

use crate::error::ConnectionError;
use crate::limits::{Limits, MAX_FIELDS};
use crate::message::{Content, Control, is_named};
use crate::target::{self, Target};

/// The properties of a request that the connection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestHead {
    /// Whether the client speaks HTTP/1.0.
    pub(crate) is_1_0: bool,
    pub(crate) content: Content,
    /// Method is HEAD.
    pub(crate) head: bool,
    /// Method is CONNECT.
    pub(crate) connect: bool,
    /// The protocols to which the client offers to switch.
    pub(crate) upgrade: Option<Vec<u8>>,
    /// Whether the client may send another request.
    pub(crate) persistent: bool,
    /// Whether the client waits for a 100 response before it sends the content.
    pub(crate) expects_continue: bool,
    /// Whether the target is an absolute URI. The meaning of such a request depends on the connection.
    pub(crate) is_absolute: bool,
}

/// The note of `:scheme` in a request that keeps its absolute-form target.
pub(crate) const ABSOLUTE_FORM: &[u8] = b"absolute-form";

/// Parses a header section up to its empty line, and overwrites `fields`. For `keeps_absolute`, see
/// [`Connection::keep_absolute_form`](crate::Connection::keep_absolute_form).
pub(crate) fn parse(
    bytes: &[u8],
    limits: &Limits,
    keeps_absolute: bool,
    fields: &mut FieldSection,
) -> Result<RequestHead, ConnectionError> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut []);
    let parsed = request.parse_with_uninit_headers(bytes, &mut headers).map_err(|error| explain(error, bytes))?;
    let (httparse::Status::Complete(length), Some(method), Some(target), Some(minor)) =
        (parsed, request.method, request.path, request.version)
    else {
        return Err(NOT_A_REQUEST);
    };
    if length != bytes.len() {
        return Err(NOT_A_REQUEST);
    }
    if target.len() > limits.max_target_bytes as usize {
        return Err(ConnectionError::new(414, "the request target is too long"));
    }
    let target = target::parse(method, target.as_bytes())?;
    if !keeps_absolute && target.scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case(b"http")) {
        return Err(ConnectionError::bad("the request target is neither a path nor an http URI"));
    }
    let host = host(request.headers, minor)?;
    let control = Control::read(request.headers, minor)?;
    let connect = method == "CONNECT";
    let content = match control.content_length {
        _ if connect && (control.chunked || control.content_length.is_some()) => {
            return Err(ConnectionError::bad("CONNECT has no content"));
        }
        _ if connect => Content::Tunnel,
        _ if control.chunked => Content::Chunked,
        None | Some(0) => Content::None,
        Some(length) => Content::Length(length),
    };
    // Ignore the upgrade if the request has content: a server may answer every request without switching the protocol.
    let may_upgrade = content == Content::None && method != "HEAD" && minor == 1;
    let upgrade = if may_upgrade { control.upgrade(request.headers) } else { None };

    push_pseudo(fields, method, &target, host, keeps_absolute);
    let upgrades = upgrade.is_some();
    let dropped = |known| known == Known::Host || (upgrades && known == Known::ContentLength);
    control.push_fields(request.headers, fields, dropped)?;
    if let Some(protocols) = &upgrade {
        fields.set(Known::LenoUpgrade, protocols);
    }
    if fields.list_size() > limits.max_header_list_bytes as usize {
        return Err(ConnectionError::new(431, "the header fields are too large"));
    }
    Ok(RequestHead {
        is_1_0: minor == 0,
        content: if upgrades { Content::Tunnel } else { content },
        head: method == "HEAD",
        connect,
        upgrade,
        persistent: control.is_persistent(minor),
        // A server ignores the field in a request of HTTP/1.0, and `100-continue` is its only value (RFC 9110 section
        // 10.1.1).
        expects_continue: minor == 1 && content != Content::None && fields.contains(Known::Expect),
        is_absolute: target.scheme.is_some(),
    })
}

const NOT_A_REQUEST: ConnectionError = ConnectionError { status: 400, why: "the bytes are not an HTTP/1 request" };

fn push_pseudo(fields: &mut FieldSection, method: &str, target: &Target<'_>, host: &[u8], keeps_absolute: bool) {
    fields.clear();
    fields.push(b":method", method.as_bytes());
    match target.scheme.filter(|_| keeps_absolute) {
        Some(scheme) => fields.push_with_note(b":scheme", &scheme.to_ascii_lowercase(), ABSOLUTE_FORM),
        None if method != "CONNECT" => fields.push(b":scheme", b"http"),
        None => {}
    }
    let authority = target.authority.unwrap_or(host);
    if !authority.is_empty() {
        fields.push(b":authority", authority);
    }
    if target.lacks_slash {
        fields.push(b":path", &[b"/", target.path].concat());
    } else if !target.path.is_empty() {
        fields.push(b":path", target.path);
    }
}

/// Returns the value of the only `Host` field, which HTTP/1.1 requires (RFC 9112 section 3.2).
fn host<'a>(headers: &[httparse::Header<'a>], minor: u8) -> Result<&'a [u8], ConnectionError> {
    let mut hosts = headers.iter().filter(|header| is_named(header, "host")).map(|header| header.value);
    let host = match hosts.next() {
        Some(host) => host,
        None if minor == 0 => b"",
        None => return Err(ConnectionError::bad("the request has no host field")),
    };
    if hosts.next().is_some() {
        return Err(ConnectionError::bad("two host fields"));
    }
    if target::is_host(host) { Ok(host) } else { Err(ConnectionError::bad("the host field is not a host")) }
}

fn explain(error: httparse::Error, bytes: &[u8]) -> ConnectionError {
    use httparse::Error;
    match error {
        Error::TooManyHeaders => ConnectionError::new(431, "the request has too many header fields"),
        Error::Version if names_another_version(bytes) => ConnectionError::new(505, "the request is not HTTP/1"),
        Error::HeaderName => ConnectionError::bad("a field name is not valid, or is followed by white space"),
        Error::HeaderValue => ConnectionError::bad("a field value has a character that is not allowed"),
        _ => NOT_A_REQUEST,
    }
}

/// Whether the first line ends with an HTTP version, as a request line does: `HTTP/`, a digit, a dot and a digit.
fn names_another_version(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|&byte| byte == b'\r').unwrap_or(bytes.len());
    let version = bytes.get(..end).and_then(|line| line.last_chunk::<9>());
    matches!(version, Some([b' ', b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9']))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
