//! Reads matches and changes of header fields, and matches of query parameters.

use super::names::{check_name, header_name, value_match};
use super::written::{Header as WrittenHeader, HeaderModifier as Written, NamedMatch};
use super::{ITEMS_MAX, Reading};
use crate::problem::quoted;
use crate::route::status::Reason;
use crate::route::{Header, HeaderMatch, HeaderModifier, QueryMatch};

/// Header fields that filters must not change. They belong to the connection, to the framing of the message, or to the
/// proxy.
const NOT_CHANGED: [&str; 10] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];
const OWN_PREFIX: &str = "leno-";

/// Reads all conditions of one match on header fields. If several have the same name, only the first applies. `None` if
/// one of them is invalid or unsupported (see [`value_match`]).
pub(in crate::object) fn header_matches(
    field: &str,
    written: &[NamedMatch],
    reading: &mut Reading<'_, '_>,
) -> Option<Box<[HeaderMatch]>> {
    let named = named_matches(field, written, reading);
    let mut matches: Vec<HeaderMatch> = Vec::new();
    for (field, written) in named {
        let name = header_name(&format!("{field}.name"), &written.name, reading);
        let value = value_match(&field, written.kind.as_deref(), &written.value, reading)?;
        if matches.iter().all(|first| first.name != name) {
            matches.push(HeaderMatch { name, value });
        }
    }
    Some(matches.into())
}

/// Reads all conditions of one match on query parameters, whose names are case-sensitive. `None` if one of them is
/// invalid or unsupported (see [`value_match`]).
pub(in crate::object) fn query_matches(
    field: &str,
    written: &[NamedMatch],
    reading: &mut Reading<'_, '_>,
) -> Option<Box<[QueryMatch]>> {
    let named = named_matches(field, written, reading);
    let mut matches = Vec::new();
    for (field, written) in named {
        check_name(&format!("{field}.name"), &written.name, reading);
        let value = value_match(&field, written.kind.as_deref(), &written.value, reading)?;
        matches.push(QueryMatch { name: written.name.as_str().into(), value });
    }
    Some(matches.into())
}

/// Returns each match with the path of its field. Reports a mistake if there are too many matches, or duplicate names.
fn named_matches<'w>(
    field: &str,
    written: &'w [NamedMatch],
    reading: &mut Reading<'_, '_>,
) -> Vec<(String, &'w NamedMatch)> {
    reading.check_length(field, written, ITEMS_MAX);
    check_unique(field, written.iter().map(|written| &*written.name), reading);
    let fields = written.iter().enumerate().map(|(index, written)| (format!("{field}[{index}]"), written));
    fields.collect()
}

fn check_unique<'w>(field: &str, names: impl Iterator<Item = &'w str>, reading: &mut Reading<'_, '_>) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, name) in names.enumerate() {
        if seen.contains(&name) {
            let what = format!("{} is here twice", quoted(name));
            reading.problem(&format!("{field}[{index}].name"), what, "keep one of them");
        }
        seen.push(name);
    }
}

/// Reads a filter's changes of the header fields of a message.
pub(super) fn modifier(field: &str, written: Written, reading: &mut Reading<'_, '_>) -> HeaderModifier {
    let set = fields(&format!("{field}.set"), written.set.unwrap_or_default(), reading);
    let add = fields(&format!("{field}.add"), written.add.unwrap_or_default(), reading);
    let remove_field = format!("{field}.remove");
    let written = written.remove.unwrap_or_default();
    reading.check_length(&remove_field, &written, ITEMS_MAX);
    let mut remove = Vec::new();
    for (index, name) in written.iter().enumerate() {
        remove.push(changed_name(&format!("{remove_field}[{index}]"), name, reading));
    }
    HeaderModifier { set, add, remove: remove.into() }
}

fn fields(field: &str, written: Vec<WrittenHeader>, reading: &mut Reading<'_, '_>) -> Box<[Header]> {
    reading.check_length(field, &written, ITEMS_MAX);
    check_unique(field, written.iter().map(|written| &*written.name), reading);
    let mut headers: Vec<Header> = Vec::new();
    for (index, WrittenHeader { name, value }) in written.into_iter().enumerate() {
        let name = changed_name(&format!("{field}[{index}].name"), &name, reading);
        check_value(&format!("{field}[{index}].value"), &value, reading);
        if headers.iter().all(|first| first.name != name) {
            headers.push(Header { name, value: value.into() });
        }
    }
    headers.into()
}

fn changed_name(field: &str, name: &str, reading: &mut Reading<'_, '_>) -> Box<str> {
    let name = header_name(field, name, reading);
    if &*name == "host" {
        let fix = "use a URLRewrite with a hostname";
        reading.refuse(field, Reason::UnsupportedValue, "a header modifier does not change the host", fix);
    } else if NOT_CHANGED.contains(&&*name) || name.starts_with(OWN_PREFIX) {
        let what = format!("{name} is set by the proxies");
        reading.refuse(field, Reason::UnsupportedValue, what, "remove it");
    }
    name
}

fn check_value(field: &str, value: &str, reading: &mut Reading<'_, '_>) {
    if value.is_empty() {
        reading.problem(field, "missing", "write the field's value, or list its name in `remove`");
    } else if value.contains(|c: char| c.is_control() && c != '\t') || value.trim() != value {
        let what = format!("{} is not the value of a header field", quoted(value));
        reading.refuse(field, Reason::UnsupportedValue, what, "keep it on one line, without spaces around it");
    }
}
