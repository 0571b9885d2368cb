//! Common parts of requests and responses: their fields, and the length of their content (RFC 9112 section 6).

use httparse::Header;
use leno_http2::FieldSection;
use leno_http2::fields::Known;
use leno_http2::parse_content_length;

use crate::error::ConnectionError;
use crate::limits::{MAX_NAME_BYTES, MAX_NOMINATED_FIELDS};
use crate::list;

/// The framing by which a reader finds the end of a message's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// No content.
    None,
    /// A length above zero.
    Length(u64),
    /// In chunks.
    Chunked,
    /// Until the end of the connection.
    UntilClose,
    /// No content: the connection becomes a tunnel, or may become one.
    Tunnel,
}

/// The fields of one message that control the connection and the content.
#[derive(Debug, Default)]
pub(crate) struct Control<'a> {
    /// The value of `content-length`; a message with two such fields is rejected.
    pub(crate) content_length: Option<u64>,
    /// Whether the transfer coding is `chunked`; any other coding is rejected.
    pub(crate) chunked: bool,
    close: bool,
    keep_alive: bool,
    /// Whether `Connection` names `upgrade`.
    upgrade: bool,
    /// The other options of `Connection`, except `te`. They name fields that are not forwarded.
    nominated: Vec<&'a [u8]>,
}

impl<'a> Control<'a> {
    /// Parses the fields that control the connection; `minor` is 0 for HTTP/1.0 and 1 for HTTP/1.1.
    pub(crate) fn read(headers: &[Header<'a>], minor: u8) -> Result<Self, ConnectionError> {
        let mut control = Self::default();
        for header in headers {
            if is_named(header, "content-length") {
                let length =
                    parse_content_length(header.value).ok_or(ConnectionError::bad("content-length is not a number"))?;
                if control.content_length.replace(length).is_some() {
                    return Err(ConnectionError::bad("two content-length fields"));
                }
            } else if is_named(header, "transfer-encoding") {
                check_coding(header.value, minor, control.chunked)?;
                control.chunked = true;
            } else if is_named(header, "connection") {
                list::members(header.value).for_each(|option| control.note_option(option));
            }
        }
        if control.chunked && control.content_length.is_some() {
            return Err(ConnectionError::bad("a message has both transfer-encoding and content-length"));
        }
        if control.nominated.len() > MAX_NOMINATED_FIELDS {
            return Err(ConnectionError::bad("the connection field names too many fields"));
        }
        Ok(control)
    }

    fn note_option(&mut self, option: &'a [u8]) {
        if option.eq_ignore_ascii_case(b"close") {
            self.close = true;
        } else if option.eq_ignore_ascii_case(b"keep-alive") {
            self.keep_alive = true;
        } else if option.eq_ignore_ascii_case(b"upgrade") {
            self.upgrade = true;
        } else if !option.eq_ignore_ascii_case(b"te") {
            self.nominated.push(option);
        }
    }

    /// Whether the connection persists after the message (RFC 9112 section 9.3).
    pub(crate) fn is_persistent(&self, minor: u8) -> bool {
        !self.close && (minor >= 1 || self.keep_alive)
    }

    /// The protocols in `Upgrade`, if `Connection` names the field `Upgrade`. Protocols that carry HTTP are omitted
    /// ([`carries_http`]): the request is valid without the upgrade (RFC 9110 section 7.8).
    pub(crate) fn upgrade(&self, headers: &[Header<'_>]) -> Option<Vec<u8>> {
        let values = headers.iter().filter(|header| self.upgrade && is_named(header, "upgrade"));
        let protocols = values.flat_map(|header| list::members(header.value));
        let wanted: Vec<&[u8]> = protocols.filter(|protocol| !carries_http(protocol)).collect();
        if wanted.is_empty() { None } else { Some(wanted.join(&b", "[..])) }
    }

    /// Appends the forwarded fields to `fields`, with lower-case names. Each field's note is the original spelling of
    /// its name.
    pub(crate) fn push_fields(
        &self,
        headers: &[Header<'_>],
        fields: &mut FieldSection,
        drops: impl Fn(Known) -> bool,
    ) -> Result<(), ConnectionError> {
        let mut te_trailers = false;
        for header in headers {
            let mut buffer = [0; MAX_NAME_BYTES];
            let name = buffer.get_mut(..header.name.len()).ok_or(NAME_TOO_LONG)?;
            name.copy_from_slice(header.name.as_bytes());
            name.make_ascii_lowercase();
            let known = Known::of(name);
            if known == Known::Te {
                te_trailers |= list::contains(header.value, b"trailers");
            } else if !is_for_one_hop(known) && !drops(known) && !self.is_nominated(known, name) {
                let spelled: &[u8] = if *name == *header.name.as_bytes() { b"" } else { header.name.as_bytes() };
                fields.push_with_note(name, header.value, spelled);
            }
        }
        if te_trailers && !drops(Known::Te) {
            fields.push(b"te", b"trailers");
        }
        if fields.defects().is_malformed() { Err(ConnectionError::bad("a field is not valid")) } else { Ok(()) }
    }

    /// Whether `Connection` names this field, so that it is dropped. `Host` and `Content-Length`, which determine a
    /// message's destination and length, are never dropped.
    fn is_nominated(&self, known: Known, name: &[u8]) -> bool {
        let is_vital = matches!(known, Known::Host | Known::ContentLength);
        !is_vital && self.nominated.iter().any(|option| option.eq_ignore_ascii_case(name))
    }
}

const NAME_TOO_LONG: ConnectionError = ConnectionError { status: 431, why: "a field name is too long" };

/// Whether a protocol that `Upgrade` names carries HTTP: HTTP itself (`HTTP/2.0`, `h2c`, a draft such as `h2c-14`), or
/// TLS, in which HTTP continues (RFC 2817). After a switch to such a protocol, a proxy would not see the requests.
pub fn carries_http(protocol: &[u8]) -> bool {
    let name = protocol.split(|&byte| byte == b'/').next().unwrap_or_default();
    let is_http2 = name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(b"h2"));
    is_http2 || name.eq_ignore_ascii_case(b"http") || name.eq_ignore_ascii_case(b"tls")
}

/// Whether a field applies to one hop only (RFC 9110 section 7.6.1), or is `leno-upgrade`, our own replacement for the
/// field `upgrade`.
pub(crate) fn is_for_one_hop(known: Known) -> bool {
    known.is_connection_specific() || known == Known::LenoUpgrade
}

pub(crate) fn is_named(header: &Header<'_>, name: &str) -> bool {
    header.name.eq_ignore_ascii_case(name)
}

/// Checks a `transfer-encoding` field: its only coding is `chunked`, it is the only such field, and the version is not
/// HTTP/1.0 (RFC 9112 section 6.1).
fn check_coding(value: &[u8], minor: u8, again: bool) -> Result<(), ConnectionError> {
    if again {
        return Err(ConnectionError::bad("two transfer-encoding fields"));
    }
    if minor == 0 {
        return Err(ConnectionError::bad("HTTP/1.0 has no transfer-encoding"));
    }
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let mentions_chunked = value.to_ascii_lowercase().windows(7).any(|window| window == b"chunked");
    let status = if mentions_chunked { 400 } else { 501 };
    Err(ConnectionError::new(status, "transfer-encoding is not exactly chunked"))
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
