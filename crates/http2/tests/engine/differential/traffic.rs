//! Calls made of random fields and content.

use std::sync::Arc;

use leno_http2::FieldSection;

/// Name of the request field that holds the number of its call.
pub(super) const CALL: &str = "x-call";

#[derive(Debug)]
pub(super) struct Call {
    pub(super) request: Message,
    pub(super) response: Message,
    pub(super) ending: Ending,
    /// Whether the server answers before it has read the request.
    pub(super) answers_early: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    Whole,
    /// The client cancels the call after it has received `after_bytes` of the response.
    ClientCancels {
        after_bytes: usize,
    },
    /// The server resets the call after it has received `after_bytes` of the request.
    ServerResets {
        after_bytes: usize,
    },
}

/// A sent message, or the received part of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) fields: Fields,
    pub(super) body: Vec<u8>,
    pub(super) trailers: Option<Fields>,
    pub(super) complete: bool,
}

/// Name, value and never-indexed flag of each field, ordered by name. Fields with equal names keep their order.
pub(super) type Fields = Vec<(String, Vec<u8>, bool)>;

impl Message {
    /// Whether this can be the received part of `sent` after an abort.
    pub(super) fn begins(&self, sent: &Self) -> bool {
        self.fields == sent.fields
            && sent.body.starts_with(&self.body)
            && (!self.complete || self == sent)
            && self.trailers.as_ref().is_none_or(|trailers| Some(trailers) == sent.trailers.as_ref())
    }
}

/// Creates some calls. Each header section is within `max_list_bytes`.
pub(super) fn calls(rng: &mut fastrand::Rng, max_list_bytes: usize) -> Arc<Vec<Call>> {
    let vocabulary: Vec<_> = (0..12).map(|i| named_field(i, random_value(rng, 40))).collect();
    let message = |rng: &mut fastrand::Rng| Message {
        fields: fields(rng, &vocabulary, max_list_bytes - 500),
        body: body(rng),
        trailers: rng.bool().then(|| fields(rng, &vocabulary, 4_000)).filter(|trailers| !trailers.is_empty()),
        complete: true,
    };
    let call = |i: usize, rng: &mut fastrand::Rng| {
        let mut request = message(rng);
        request.fields.insert(0, (CALL.to_owned(), i.to_string().into_bytes(), false));
        let ending = match rng.u8(0..8) {
            0 => Ending::ClientCancels { after_bytes: rng.usize(0..20_000) },
            1 => Ending::ServerResets { after_bytes: rng.usize(0..20_000) },
            _ => Ending::Whole,
        };
        Call { request, response: message(rng), ending, answers_early: rng.bool() }
    };
    Arc::new((0..40).map(|i| call(i, rng)).collect())
}

/// Creates fields that repeat and fields that change. Some are large, duplicated, or never indexed.
fn fields(rng: &mut fastrand::Rng, vocabulary: &[(String, Vec<u8>, bool)], max_list_bytes: usize) -> Fields {
    let mut fields = Fields::new();
    let mut list_bytes = 0;
    for _ in 0..rng.usize(0..16) {
        let field = match rng.u8(0..16) {
            0 => (format!("x-once-{}", rng.u32(..)), random_value(rng, 4_000), false),
            1..5 => named_field(rng.u8(0..12), random_value(rng, 20)),
            _ => vocabulary[rng.usize(0..vocabulary.len())].clone(),
        };
        list_bytes += field.0.len() + field.1.len() + 32;
        if list_bytes < max_list_bytes {
            fields.push(field);
        }
    }
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields
}

/// Creates a field. Every third name is never indexed, whatever the message. The flag must not change: once h2 has put
/// a field into its table, it sends the field as an index even if it is marked as never indexed later.
fn named_field(number: u8, value: Vec<u8>) -> (String, Vec<u8>, bool) {
    (format!("x-field-{number}"), value, number.is_multiple_of(3))
}

fn random_value(rng: &mut fastrand::Rng, max: usize) -> Vec<u8> {
    let len = rng.usize(0..=max);
    std::iter::repeat_with(|| rng.u8(b'!'..=b'~')).take(len).collect()
}

fn body(rng: &mut fastrand::Rng) -> Vec<u8> {
    let max = [0, 10, 1_000, 20_000, 150_000][rng.usize(0..5)];
    let len = rng.usize(0..=max);
    std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
}

/// Returns the number of a request's call.
pub(super) fn call_number(fields: &Fields) -> usize {
    let value = &fields.iter().find(|field| field.0 == CALL).expect("each request has its number").1;
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).expect("a number")
}

pub(super) fn to_section(pseudo: &[(&str, &str)], fields: &Fields) -> FieldSection {
    let mut section = crate::endpoint::section(pseudo);
    for (name, value, never_indexed) in fields {
        match never_indexed {
            true => section.push_never_indexed(name.as_bytes(), value),
            false => section.push(name.as_bytes(), value),
        }
    }
    section
}

pub(super) fn from_section(section: &FieldSection) -> Fields {
    let regular = section.iter().filter(|field| !field.name.starts_with(b":"));
    let name = |field: &[u8]| String::from_utf8(field.to_vec()).expect("names are ASCII");
    let mut fields: Fields =
        regular.map(|field| (name(field.name), field.value.to_vec(), field.never_indexed)).collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields
}

pub(super) fn to_map(fields: &Fields) -> http::HeaderMap {
    let mut map = http::HeaderMap::new();
    for (name, value, never_indexed) in fields {
        let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a valid name");
        let mut value = http::HeaderValue::from_bytes(value).expect("a valid value");
        value.set_sensitive(*never_indexed);
        map.append(name, value);
    }
    map
}

/// The h2 crate does not report which fields were never indexed, so take the flag from `sent`.
pub(super) fn from_map(map: &http::HeaderMap, sent: &Fields) -> Fields {
    let mut fields: Fields =
        map.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec(), false)).collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    for (field, sent) in fields.iter_mut().zip(sent) {
        field.2 = sent.2;
    }
    fields
}
