//! Trailer sections (RFC 9112 section 7.1.2), and the fields that they may contain.

use leno_http2::FieldSection;
use leno_http2::fields::Known;

use crate::error::ConnectionError;
use crate::limits::MAX_FIELDS;
use crate::message::{Control, is_for_one_hop};

/// Parses a trailer section up to its empty line, and overwrites `fields` with the allowed fields.
pub(crate) fn parse(bytes: &[u8], max_bytes: u32, fields: &mut FieldSection) -> Result<(), ConnectionError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let malformed = ConnectionError::bad("a trailer section is not valid");
    let trailers = match httparse::parse_headers(bytes, &mut headers) {
        Ok(httparse::Status::Complete((length, trailers))) if length == bytes.len() => trailers,
        Err(httparse::Error::TooManyHeaders) => {
            return Err(ConnectionError::new(431, "a message has too many trailer fields"));
        }
        _ => return Err(malformed),
    };
    fields.clear();
    Control::default().push_fields(trailers, fields, |known| !may_be_trailer(known))?;
    if fields.list_size() > max_bytes as usize {
        return Err(ConnectionError::new(431, "the trailer fields are too large"));
    }
    Ok(())
}

/// Whether a field may be a trailer. Fields for framing, routing, request modifiers, authentication and processing of
/// the content are not allowed (RFC 9110 section 6.5.1).
pub(crate) fn may_be_trailer(known: Known) -> bool {
    use Known::{
        Authorization, CacheControl, ContentEncoding, ContentLength, ContentRange, ContentType, Cookie, Expect, Host,
        IfMatch, IfModifiedSince, IfNoneMatch, IfRange, IfUnmodifiedSince, MaxForwards, ProxyAuthenticate,
        ProxyAuthorization, Range, SetCookie, Te, Trailer, WwwAuthenticate,
    };
    let frames_or_routes = matches!(known, ContentLength | Host | Trailer | MaxForwards);
    let modifies = matches!(
        known,
        CacheControl | Expect | Range | Te | IfMatch | IfModifiedSince | IfNoneMatch | IfRange | IfUnmodifiedSince
    );
    let authenticates =
        matches!(known, Authorization | ProxyAuthorization | ProxyAuthenticate | WwwAuthenticate | Cookie | SetCookie);
    let describes = matches!(known, ContentEncoding | ContentRange | ContentType);
    !(known.is_pseudo() || is_for_one_hop(known) || frames_or_routes || modifies || authenticates || describes)
}

#[cfg(test)]
#[path = "trailers_tests.rs"]
mod tests;
