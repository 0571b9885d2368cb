//! The static table (RFC 7541 Appendix A).

use super::table::Field;
use crate::fields::{Defects, Facts, Known};

/// Number of entries; the dynamic table's indexes follow.
pub(super) const LEN: usize = 61;

macro_rules! fields {
    ($($known:ident $name:literal $value:literal,)*) => {
        [$(Field {
            text: concat!($name, $value).as_bytes(),
            name_len: $name.len(),
            facts: facts(Known::$known),
        },)*]
    };
}

/// The entries; the first has index 1.
static FIELDS: [Field<'static>; LEN] = fields![
    Authority ":authority" "",
    Method ":method" "GET",
    Method ":method" "POST",
    Path ":path" "/",
    Path ":path" "/index.html",
    Scheme ":scheme" "http",
    Scheme ":scheme" "https",
    Status ":status" "200",
    Status ":status" "204",
    Status ":status" "206",
    Status ":status" "304",
    Status ":status" "400",
    Status ":status" "404",
    Status ":status" "500",
    AcceptCharset "accept-charset" "",
    AcceptEncoding "accept-encoding" "gzip, deflate",
    AcceptLanguage "accept-language" "",
    AcceptRanges "accept-ranges" "",
    Accept "accept" "",
    AccessControlAllowOrigin "access-control-allow-origin" "",
    Age "age" "",
    Allow "allow" "",
    Authorization "authorization" "",
    CacheControl "cache-control" "",
    ContentDisposition "content-disposition" "",
    ContentEncoding "content-encoding" "",
    ContentLanguage "content-language" "",
    ContentLength "content-length" "",
    ContentLocation "content-location" "",
    ContentRange "content-range" "",
    ContentType "content-type" "",
    Cookie "cookie" "",
    Date "date" "",
    Etag "etag" "",
    Expect "expect" "",
    Expires "expires" "",
    From "from" "",
    Host "host" "",
    IfMatch "if-match" "",
    IfModifiedSince "if-modified-since" "",
    IfNoneMatch "if-none-match" "",
    IfRange "if-range" "",
    IfUnmodifiedSince "if-unmodified-since" "",
    LastModified "last-modified" "",
    Link "link" "",
    Location "location" "",
    MaxForwards "max-forwards" "",
    ProxyAuthenticate "proxy-authenticate" "",
    ProxyAuthorization "proxy-authorization" "",
    Range "range" "",
    Referer "referer" "",
    Refresh "refresh" "",
    RetryAfter "retry-after" "",
    Server "server" "",
    SetCookie "set-cookie" "",
    StrictTransportSecurity "strict-transport-security" "",
    TransferEncoding "transfer-encoding" "",
    UserAgent "user-agent" "",
    Vary "vary" "",
    Via "via" "",
    WwwAuthenticate "www-authenticate" "",
];

/// The entries of each name. The index is the number of the name in [`Known`].
static ENTRIES_OF_NAME: [Entries; Known::COUNT] = entries_of_name();

/// The adjacent entries of one name; `count` is 0 if the table does not have the name.
#[derive(Clone, Copy)]
struct Entries {
    first_index: u8,
    count: u8,
}

/// The result of a search for a field in the static table: the field, only its name, or nothing was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// The whole field, at this index.
    Field(usize),
    /// The name, at this index.
    Name(usize),
    None,
}

/// Returns the entry of an index. Indexes start at 1.
pub(super) fn get(index: usize) -> Option<Field<'static>> {
    FIELDS.get(index.checked_sub(1)?).copied()
}

/// Whether the table has entries with this name and a value that is not empty. Encoders use an entry with an empty
/// value only for its name.
#[inline]
pub(super) fn has_values(known: Known) -> bool {
    use Known::{AcceptEncoding, Method, Path, Scheme, Status};
    matches!(known, AcceptEncoding | Method | Path | Scheme | Status)
}

/// Returns the entry that equals the field or, if there is none, the first entry with the field's name.
#[inline]
pub(super) fn find(known: Known, value: &[u8]) -> Match {
    let Some(Entries { first_index, count: count @ 1.. }) = ENTRIES_OF_NAME.get(known as usize) else {
        return Match::None;
    };
    let first = usize::from(*first_index);
    let fields = FIELDS.get(first - 1..first - 1 + usize::from(*count)).unwrap_or_default();
    let same_value = (first..).zip(fields).find(|(_, field)| field.value() == value);
    same_value.map_or(Match::Name(first), |(index, _)| Match::Field(index))
}

/// The [`Facts`] of an entry of the static table. The hash is 0, since encoders find these entries by name.
const fn facts(known: Known) -> Facts {
    let defects = match known {
        // These entries have empty values. An empty value is not an authority.
        Known::Authority | Known::Host => Defects::UNUSUAL_AUTHORITY,
        Known::TransferEncoding => Defects::CONNECTION_SPECIFIC,
        _ => Defects::NONE,
    };
    Facts { hash: 0, known, defects }
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
const fn entries_of_name() -> [Entries; Known::COUNT] {
    let fields = &FIELDS;
    let mut entries = [Entries { first_index: 0, count: 0 }; Known::COUNT];
    let mut index = LEN;
    while index > 0 {
        let of_name = &mut entries[fields[index - 1].facts.known as usize];
        of_name.first_index = index as u8;
        of_name.count += 1;
        index -= 1;
    }
    entries
}

#[cfg(test)]
#[path = "static_table_tests.rs"]
mod tests;
