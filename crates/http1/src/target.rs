//! The four forms of a request's target (RFC 9112 section 3.2), and host syntax.

use leno_http2::syntax;

use crate::error::ConnectionError;

/// A parsed target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// The authority in the target itself, which takes precedence over `Host`.
    pub(crate) authority: Option<&'a [u8]>,
    /// The path and query; empty for CONNECT.
    pub(crate) path: &'a [u8],
    /// Whether the request named an absolute URI without the `/` of the empty path, such as `http://shop?a`.
    pub(crate) lacks_slash: bool,
    /// The scheme of an absolute URI. The other forms of a target have no scheme.
    pub(crate) scheme: Option<&'a [u8]>,
}

/// Longest scheme, in bytes. HTTP/2 has the same limit.
const MAX_SCHEME_BYTES: usize = 64;

/// Parses the target of a request with this method.
pub(crate) fn parse<'a>(method: &str, target: &'a [u8]) -> Result<Target<'a>, ConnectionError> {
    if !syntax::has_path_characters(target) {
        return Err(ConnectionError::bad("the request target has a character that is not allowed"));
    }
    let plain = |authority, path| Target { authority, path, lacks_slash: false, scheme: None };
    if method == "CONNECT" {
        return if is_host_and_port(target) {
            Ok(plain(Some(target), b""))
        } else {
            Err(ConnectionError::bad("the target of CONNECT is not host:port"))
        };
    }
    match target {
        b"*" if method == "OPTIONS" => Ok(plain(None, target)),
        [b'/', ..] => Ok(plain(None, target)),
        _ => parse_absolute(method, target),
    }
}

fn parse_absolute<'a>(method: &str, target: &'a [u8]) -> Result<Target<'a>, ConnectionError> {
    let Some((scheme, rest)) = split_scheme(target) else {
        return Err(ConnectionError::bad("the request target is neither a path nor a URI with a host"));
    };
    let end = rest.iter().position(|&byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, b""));
    if !syntax::is_authority(authority) {
        return Err(ConnectionError::bad("the request target has no valid host"));
    }
    let (path, lacks_slash) = match path {
        b"" if method == "OPTIONS" => (&b"*"[..], false),
        _ => (path, !path.starts_with(b"/")),
    };
    Ok(Target { authority: Some(authority), path, lacks_slash, scheme: Some(scheme) })
}

/// Splits `http://shop/a` into `http` and `shop/a`. Returns `None` if the target does not begin with a scheme (RFC 3986
/// section 3.1) and `://`.
fn split_scheme(target: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = target.iter().position(|&byte| byte == b':')?;
    let (scheme, rest) = target.split_at_checked(colon)?;
    let is_scheme = scheme.len() <= MAX_SCHEME_BYTES
        && scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    if is_scheme { Some((scheme, rest.strip_prefix(b"://")?)) } else { None }
}

/// Whether a value is a valid `Host` (RFC 9110 section 7.2); it may be empty.
pub(crate) fn is_host(value: &[u8]) -> bool {
    value.is_empty() || syntax::is_authority(value)
}

/// Whether a value has the authority form: a host and a port (RFC 9112 section 3.2.3).
pub(crate) fn is_host_and_port(value: &[u8]) -> bool {
    let Some(colon) = value.iter().rposition(|&byte| byte == b':') else { return false };
    let (host, port) = (value.get(..colon).unwrap_or_default(), value.get(colon + 1..).unwrap_or_default());
    let is_port = (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit);
    !host.is_empty() && syntax::is_authority(value) && is_port
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
