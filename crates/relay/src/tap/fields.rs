//! Header fields as JSON, without secrets.

use leno_http2::FieldSection;

use crate::access_log::push_json;

/// Longest name or value that is shown, in bytes.
const MAX_TEXT_BYTES: usize = 512;
/// If the JSON of a header section is longer than this, in bytes, the further fields of the section are left out.
const MAX_SECTION_BYTES: usize = 8 << 10;

/// Text that replaces a secret.
const BLANKED: &str = "(blanked)";

/// Words in a field's name that show that its value may be a secret.
const SECRET_WORDS: [&[u8]; 18] = [
    b"auth",
    b"cookie",
    b"token",
    b"secret",
    b"passw",
    b"key",
    b"session",
    b"credential",
    b"signature",
    b"jwt",
    b"bearer",
    b"assertion",
    b"private",
    b"oidc",
    b"otp",
    b"dpop",
    b"saml",
    b"csrf",
];
/// Suffix of the names of gRPC's binary fields. The proxy cannot see whether the values of such fields are secrets, so
/// it blanks the values.
const BINARY: &[u8] = b"-bin";
/// A field without a secret, although its name contains one of [`SECRET_WORDS`].
const AUTHORITY: &[u8] = b":authority";

/// Appends `,"name":[["field","value"],...]`, in the order in which the fields were sent. Blanks a value that may be a
/// secret because of its field's name, or because the sender forbids indexing the field (RFC 7541 section 7.1.3).
pub(super) fn push(line: &mut Vec<u8>, name: &str, fields: &FieldSection) {
    if fields.is_empty() {
        return;
    }
    line.extend(b",\"");
    line.extend(name.as_bytes());
    line.extend(b"\":[");
    let (start, mut is_first) = (line.len(), true);
    for field in fields.iter() {
        if line.len() - start > MAX_SECTION_BYTES {
            break;
        }
        line.extend(if is_first { &b"[\""[..] } else { &b",[\""[..] });
        is_first = false;
        push_json(line, field.name, MAX_TEXT_BYTES);
        line.extend(b"\",\"");
        let value = match field.name {
            name if field.never_indexed || is_secret(name) => BLANKED.as_bytes(),
            _ => without_query(field.value),
        };
        push_json(line, value, MAX_TEXT_BYTES);
        line.extend(b"\"]");
    }
    line.push(b']');
}

fn is_secret(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let has = |word: &&[u8]| name.windows(word.len()).any(|part| part == *word);
    name != AUTHORITY && (name.ends_with(BINARY) || SECRET_WORDS.iter().any(has))
}

/// If a value is a path or a URL, returns it without its query, which may have secrets. Returns other values unchanged.
fn without_query(value: &[u8]) -> &[u8] {
    let is_reference = value.starts_with(b"/") || value.windows(3).any(|part| part == b"://");
    let end = value.iter().position(|byte| b"?#".contains(byte)).filter(|_| is_reference);
    end.and_then(|end| value.get(..end)).unwrap_or(value)
}

#[cfg(test)]
#[path = "fields_tests.rs"]
mod tests;
