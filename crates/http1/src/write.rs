//! Writes field sections: request and status lines, header fields, trailers (RFC 9112 sections 3 to 5).
//!
//! Messages from HTTP/1 keep their form: names keep their spelling, and a status keeps its reason phrase. Spellings and
//! phrases are stored as notes of the fields ([`FieldSection::iter_with_notes`]), and so is the form of a request's
//! target. Fields that are added here follow the spelling of the other fields.
//!
//! HTTP/2 allows more bytes in some places than HTTP/1 does. This module writes no name or value that a reader could
//! parse as more than one line or field.

use leno_http2::FieldSection;
use leno_http2::fields::{FieldLine, Known};
use leno_http2::parse_content_length;
use leno_http2::syntax::{self, is_control, is_token};

use crate::message::is_for_one_hop;
use crate::reason;
use crate::repeats::{Heads, Written};
use crate::request::ABSOLUTE_FORM;
use crate::target;
use crate::trailers::may_be_trailer;

/// The reason why a request that is valid in HTTP/2 cannot be written as HTTP/1.1. Answer such a request with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request cannot be sent as HTTP/1.1: {0}")]
pub struct Unwritable(&'static str);

/// The framing of a section's content on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Neither `content-length` nor `transfer-encoding`: no content, or content that ends with the connection.
    Unframed,
    /// `content-length`.
    Length(u64),
    /// `transfer-encoding: chunked`.
    Chunked,
}

/// The persistence that the `connection` field announces. The field also lists the options that other fields require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// Nothing: an HTTP/1.1 connection persists by default.
    Implied,
    /// The connection persists. An HTTP/1.0 client keeps the connection open only if the response announces this.
    KeepAlive,
    /// The connection ends after this message.
    Close,
}

/// The parts of a header section that depend on the connection and the content, not on the section's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) framing: Framing,
    pub(crate) persistence: Persistence,
}

impl Unwritable {
    /// The error for a request whose `content-length` announces content, but which ends without content.
    pub(crate) const LACKS_CONTENT: Self = Self("content-length announces content, and the request has none");
    /// The error for a request whose target is a URI with a scheme other than `http`, if the target would lose the
    /// scheme on its way to the server.
    pub const OTHER_SCHEME: Self = Self(
        "its target is a URI with a scheme other than http, and a proxy receives the request; if the server is a \
         forward proxy, declare its port as opaque",
    );
}

/// Checks the fields of a request: HTTP/1.1 cannot express a method, target or host with white space, or a `:path` that
/// is not a path. Both engines reject such requests when they receive them, but the relay changes requests.
///
/// # Errors
/// See [`Unwritable`].
fn check_request(fields: &FieldSection) -> Result<(), Unwritable> {
    let method = fields.get(Known::Method).unwrap_or_default();
    if !is_token(method) {
        return Err(Unwritable(":method is not a token"));
    }
    let authority = authority(fields);
    if method == b"CONNECT" {
        return if target::is_host_and_port(authority) {
            Ok(())
        } else {
            Err(Unwritable(":authority is not host:port"))
        };
    }
    if !target::is_host(authority) {
        return Err(Unwritable(":authority is not a host"));
    }
    let path = fields.get(Known::Path).unwrap_or_default();
    if !syntax::is_path(path) || (path == b"*" && method != b"OPTIONS") {
        return Err(Unwritable(":path is not a path"));
    }
    Ok(())
}

/// Room for the text that this module adds to the fields of a header section, in bytes: the first line without its
/// values, `content-length` or `transfer-encoding`, and `connection`.
const ADDED_BYTES: usize = 160;

/// Reserves room for a header section in one step. The list size is enough for most sections, because it counts 32
/// bytes more for each field than its name and value.
fn reserve(out: &mut Vec<u8>, fields: &FieldSection) {
    out.reserve(fields.list_size() + ADDED_BYTES);
}

/// Writes a request's header section. `upgrade` holds the offered protocols. Writes nothing if there is an error.
pub(crate) fn request(
    out: &mut Vec<u8>,
    fields: &FieldSection,
    form: Form,
    upgrade: Option<&[u8]>,
    heads: &mut Heads,
) -> Result<(), Unwritable> {
    let written = Written { content: fields.content(), is_request: true, form };
    if let Some(section) = heads.written(written).filter(|_| upgrade.is_none()) {
        out.extend_from_slice(section);
        return Ok(());
    }
    check_request(fields)?;
    reserve(out, fields);
    let start = out.len();
    let method = fields.get(Known::Method).unwrap_or_default();
    let authority = authority(fields);
    out.extend_from_slice(method);
    out.push(b' ');
    write_target(out, fields, method, authority);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let names = Names::of(fields);
    write_line(out, names.host, authority);
    write_fields(out, fields, form.framing, names, |known| known == Known::Host);
    write_connection(out, form.persistence, upgrade, fields.contains(Known::Te), names);
    out.extend_from_slice(b"\r\n");
    if upgrade.is_none() {
        heads.note_written(written, out.get(start..).unwrap_or_default());
    }
    Ok(())
}

/// Writes the target of a request. [`check_request`] has checked the method, the authority and the path.
fn write_target(out: &mut Vec<u8>, fields: &FieldSection, method: &[u8], authority: &[u8]) {
    if method == b"CONNECT" {
        return out.extend_from_slice(authority);
    }
    let path = fields.get(Known::Path).unwrap_or_default();
    if let Some(scheme) = kept_scheme(fields).filter(|_| !authority.is_empty()) {
        for part in [scheme, b"://", authority] {
            out.extend_from_slice(part);
        }
        // In the absolute form, an empty path stands for `*` (RFC 9112 section 3.2.4).
        if path == b"*" {
            return;
        }
    }
    out.extend_from_slice(path);
}

/// Returns the scheme of a request that keeps its absolute-form target.
fn kept_scheme(fields: &FieldSection) -> Option<&[u8]> {
    let pseudo = fields.iter_with_notes().take_while(|(line, _)| line.known.is_pseudo());
    let mut schemes = pseudo.filter(|(line, note)| line.known == Known::Scheme && *note == ABSOLUTE_FORM);
    schemes.next().map(|(line, _)| line.value)
}

/// Writes a response's header section.
pub(crate) fn response(
    out: &mut Vec<u8>,
    status: u16,
    fields: &FieldSection,
    form: Form,
    upgrade: Option<&[u8]>,
    heads: &mut Heads,
) {
    let written = Written { content: fields.content(), is_request: false, form };
    if let Some(section) = heads.written(written).filter(|_| upgrade.is_none()) {
        return out.extend_from_slice(section);
    }
    reserve(out, fields);
    let start = out.len();
    let of_status = fields.iter_with_notes().next().filter(|(line, _)| line.known == Known::Status);
    write_status_line(out, status, of_status.map_or(b"", |(_, note)| note));
    let names = Names::of(fields);
    write_fields(out, fields, form.framing, names, |known| known == Known::Te);
    write_connection(out, form.persistence, upgrade, false, names);
    out.extend_from_slice(b"\r\n");
    if upgrade.is_none() {
        heads.note_written(written, out.get(start..).unwrap_or_default());
    }
}

/// Writes the response to an invalid request, after which the connection ends.
pub(crate) fn refusal(out: &mut Vec<u8>, status: u16, why: &str, with_content: bool) {
    write_status_line(out, status, b"");
    write_line(out, b"content-type", b"text/plain");
    write_content_length(out, b"content-length", why.len() as u64 + 1);
    write_line(out, b"leno-proxy-error", b"malformed-request");
    out.extend_from_slice(b"connection: close\r\n\r\n");
    if with_content {
        out.extend_from_slice(why.as_bytes());
        out.push(b'\n');
    }
}

/// Writes the last chunk and the allowed trailers (RFC 9112 section 7.1).
pub(crate) fn last_chunk(out: &mut Vec<u8>, trailers: Option<&FieldSection>) {
    out.extend_from_slice(b"0\r\n");
    for (line, note) in trailers.iter().flat_map(|trailers| trailers.iter_with_notes()) {
        if may_be_trailer(line.known) {
            write_field(out, &line, note);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// `:authority`, or `host` if the request has none.
fn authority(fields: &FieldSection) -> &[u8] {
    fields.get(Known::Authority).or_else(|| fields.get(Known::Host)).unwrap_or_default()
}

/// The value of a section's `content-length`, if valid.
pub(crate) fn content_length(fields: &FieldSection) -> Option<u64> {
    fields.get(Known::ContentLength).and_then(parse_content_length)
}

/// Writes the status line, with the server's phrase if there is one, else with the standard phrase.
fn write_status_line(out: &mut Vec<u8>, status: u16, phrase: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 ");
    write_number(out, u64::from(status));
    out.push(b' ');
    write_text(out, if phrase.is_empty() { reason::phrase(status).as_bytes() } else { phrase });
    out.extend_from_slice(b"\r\n");
}

/// Writes a number in decimal digits.
fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let start = out.len();
    loop {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

/// Writes a value or a reason phrase, and replaces control characters by spaces (RFC 9110 section 5.5).
fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    if syntax::is_value(text) {
        out.extend_from_slice(text);
    } else {
        out.extend(text.iter().map(|&byte| if is_control(byte) { b' ' } else { byte }));
    }
}

/// The spelling of the field names that this module writes itself, instead of copying them from a section.
#[derive(Clone, Copy)]
struct Names {
    host: &'static [u8],
    cookie: &'static [u8],
    content_length: &'static [u8],
    transfer_encoding: &'static [u8],
    connection: &'static [u8],
    upgrade: &'static [u8],
}

impl Names {
    const LOWER: Self = Self {
        host: b"host",
        cookie: b"cookie",
        content_length: b"content-length",
        transfer_encoding: b"transfer-encoding",
        connection: b"connection",
        upgrade: b"upgrade",
    };
    const TITLE: Self = Self {
        host: b"Host",
        cookie: b"Cookie",
        content_length: b"Content-Length",
        transfer_encoding: b"Transfer-Encoding",
        connection: b"Connection",
        upgrade: b"Upgrade",
    };

    /// Returns capitalized names if the name of the first regular field in `fields` begins with a capital letter.
    fn of(fields: &FieldSection) -> Self {
        let first = fields.iter_with_notes().find(|(line, _)| !line.known.is_pseudo());
        match first {
            Some((_, note)) if note.first().is_some_and(u8::is_ascii_uppercase) => Self::TITLE,
            _ => Self::LOWER,
        }
    }
}

/// Returns a name in its original spelling if it came from HTTP/1, else in HTTP/2's spelling.
fn spelled<'a>(name: &'a [u8], note: &'a [u8]) -> &'a [u8] {
    if note.eq_ignore_ascii_case(name) { note } else { name }
}

fn write_fields(
    out: &mut Vec<u8>,
    fields: &FieldSection,
    framing: Framing,
    names: Names,
    drops: impl Fn(Known) -> bool,
) {
    let drops = |known| is_for_one_hop(known) || matches!(known, Known::ContentLength | Known::Cookie) || drops(known);
    for (line, note) in fields.iter_with_notes() {
        if !line.known.is_pseudo() && !drops(line.known) {
            write_field(out, &line, note);
        }
    }
    // HTTP/2 may split the `cookie` field, and HTTP/1 must not (RFC 9113 section 8.2.3).
    if fields.contains(Known::Cookie) {
        let cookies = fields.iter().filter(|line| line.known == Known::Cookie).map(|line| line.value);
        write_line(out, names.cookie, &cookies.collect::<Vec<_>>().join(&b"; "[..]));
    }
    match framing {
        Framing::Unframed => {}
        Framing::Length(length) => write_content_length(out, names.content_length, length),
        Framing::Chunked => write_line(out, names.transfer_encoding, b"chunked"),
    }
}

fn write_connection(out: &mut Vec<u8>, persistence: Persistence, upgrade: Option<&[u8]>, te: bool, names: Names) {
    let persistence: &[u8] = match persistence {
        Persistence::Implied => b"",
        Persistence::KeepAlive => b"keep-alive",
        Persistence::Close => b"close",
    };
    let options = [persistence, if upgrade.is_some() { b"upgrade" } else { b"" }, if te { b"te" } else { b"" }];
    let options: Vec<&[u8]> = options.into_iter().filter(|option| !option.is_empty()).collect();
    if !options.is_empty() {
        write_line(out, names.connection, &options.join(&b", "[..]));
    }
    if let Some(protocols) = upgrade {
        write_line(out, names.upgrade, protocols);
    }
}

/// Writes a field of a section. Omits a field whose name is not a token.
fn write_field(out: &mut Vec<u8>, line: &FieldLine<'_>, note: &[u8]) {
    let name = spelled(line.name, note);
    // The name of a known field is a token in every spelling, so do not check it.
    if line.known != Known::Other || is_token(name) {
        write_line(out, name, line.value);
    }
}

/// Writes `content-length` in the spelling `name`.
fn write_content_length(out: &mut Vec<u8>, name: &[u8], length: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    write_number(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Writes a field whose name is a token.
fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    write_text(out, value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
