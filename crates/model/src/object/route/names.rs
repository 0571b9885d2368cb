//! Checks names, values, patterns and paths in routes.

use super::Reading;
use crate::object::{DNS_LABEL_RULE, DNS_SUBDOMAIN_RULE, is_dns_label, is_dns_subdomain};
use crate::problem::quoted;
use crate::route::status::Reason;
use crate::route::{Pattern, ValueMatch};

/// Maximum length of the name of a header field or of a query parameter.
const NAME_MAX_BYTES: usize = 256;
/// Maximum length of the value in a header or query condition.
const VALUE_MAX_BYTES: usize = 4096;
/// Maximum length of a path.
pub(super) const PATH_MAX_BYTES: usize = 1024;

const TOKEN_RULE: &str = "use letters, digits and any of !#$%&'*+-.^_`|~";

/// Converts the name of a header field to lower case. Reports a mistake if the name is invalid.
pub(super) fn header_name(field: &str, name: &str, reading: &mut Reading<'_, '_>) -> Box<str> {
    check_name(field, name, reading);
    name.to_ascii_lowercase().into()
}

/// Reports a mistake if the name of a header field or a query parameter is invalid.
pub(super) fn check_name(field: &str, name: &str, reading: &mut Reading<'_, '_>) {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() {
        reading.problem(field, "missing", "add it");
    } else if name.len() > NAME_MAX_BYTES || !name.bytes().all(is_allowed) {
        reading.problem(field, format!("{} is not the name of a header field", quoted(name)), TOKEN_RULE);
    }
}

/// Reports a mistake if the group, the kind or the namespace in a reference is invalid.
pub(super) fn check_reference(
    field: &str,
    group: Option<&str>,
    kind: Option<&str>,
    namespace: Option<&str>,
    reading: &mut Reading<'_, '_>,
) {
    let is_kind_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_kind = |kind: &str| kind.starts_with(|c: char| c.is_ascii_alphabetic()) && kind.bytes().all(is_kind_byte);
    if let Some(group) = group.filter(|group| !group.is_empty() && !is_dns_subdomain(group)) {
        reading.problem(
            &format!("{field}.group"),
            format!("{} is not an API group", quoted(group)),
            DNS_SUBDOMAIN_RULE,
        );
    }
    if let Some(kind) = kind.filter(|kind| !is_kind(kind)) {
        reading.problem(&format!("{field}.kind"), format!("{} is not a kind", quoted(kind)), "write Service");
    }
    if let Some(namespace) = namespace.filter(|namespace| !is_dns_label(namespace)) {
        reading.problem(&format!("{field}.namespace"), format!("{} is not a name", quoted(namespace)), DNS_LABEL_RULE);
    }
}

/// Reads the type and the value of a header or query condition. `None` if the type is unknown, or if the pattern could
/// not be compiled.
pub(in crate::object) fn value_match(
    field: &str,
    kind: Option<&str>,
    value: &str,
    reading: &mut Reading<'_, '_>,
) -> Option<ValueMatch> {
    const KINDS: [(&str, bool); 2] = [("Exact", false), ("RegularExpression", true)];
    let value_field = format!("{field}.value");
    if value.is_empty() {
        reading.problem(&value_field, "missing", "write what the value has to be");
    } else if value.len() > VALUE_MAX_BYTES {
        let what = format!("{} bytes", value.len());
        reading.problem(&value_field, what, format!("use at most {VALUE_MAX_BYTES}"));
    }
    let is_pattern = reading.choose(&format!("{field}.type"), kind.unwrap_or("Exact"), &KINDS)?;
    text_match(&value_field, is_pattern, value, reading)
}

/// Creates a match by exact text, or by pattern if `is_pattern`. `None` if the pattern could not be compiled (see
/// [`pattern`]).
pub(in crate::object) fn text_match(
    field: &str,
    is_pattern: bool,
    text: &str,
    reading: &mut Reading<'_, '_>,
) -> Option<ValueMatch> {
    if is_pattern {
        pattern(field, text, reading).map(ValueMatch::Pattern)
    } else {
        Some(ValueMatch::Exact(text.into()))
    }
}

/// Compiles a pattern. `None` if the pattern is invalid or unsupported, with a refusal of the rule. Also `None`,
/// without a refusal, if the route's patterns are already too large.
///
/// The caller drops a match whose pattern could not be compiled, because nothing tells which requests the match should
/// select (GEP-1364, "Drop Rule"). If the proxy instead rejected all requests that the match might select, it could
/// reject every request to the Service.
pub(in crate::object) fn pattern(field: &str, text: &str, reading: &mut Reading<'_, '_>) -> Option<Pattern> {
    if !reading.may_compile() {
        return None;
    }
    let compiled = Pattern::new(text);
    match &compiled {
        Ok(pattern) => reading.compiled(pattern),
        Err(error) => {
            let what = format!("{} is not a supported regular expression: {error}", quoted(text));
            let fix = "write it in RE2's syntax, with a repetition of + or * rather than of hundreds; until then, Leno \
                       drops the match: its requests follow the next rule that matches them, or are rejected if no rule \
                       does, and requests that another match of the rule selects are rejected";
            reading.refuse(field, Reason::UnsupportedValue, what, fix);
        }
    }
    compiled.ok()
}

/// Checks a path for an exact match or a prefix match. Returns the mistake and the fix; `None` if the path is valid.
pub(in crate::object) fn path_fault(path: &str) -> Option<(String, &'static str)> {
    const UNRESERVED: &[u8] = b"-/._~!$&'()*+,;=:@%";
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || UNRESERVED.contains(&byte);
    let has_step = |step: &str| path.contains(&format!("/{step}/")) || path.ends_with(&format!("/{step}"));
    if !path.starts_with('/') {
        return Some((format!("{} is not a path", quoted(path)), "begin it with /"));
    }
    if path.len() > PATH_MAX_BYTES {
        return Some((format!("{} bytes", path.len()), "use at most 1024"));
    }
    if let Some(odd) = path.chars().find(|c| !u8::try_from(*c).is_ok_and(is_allowed)) {
        return Some((format!("a path cannot contain {odd:?}"), "write it percent-encoded"));
    }
    if path.to_ascii_lowercase().contains("%2f") || path.contains("//") || has_step(".") || has_step("..") {
        return Some((
            format!("{} has an element that servers normalize away", quoted(path)),
            "remove //, /./, /../ and %2f",
        ));
    }
    let mut escapes = path.split('%').skip(1);
    let is_escape = |text: &str| text.get(..2).is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    if !escapes.all(is_escape) {
        return Some((format!("a % in {} without two digits after it", quoted(path)), "write %25 for a percent sign"));
    }
    None
}
