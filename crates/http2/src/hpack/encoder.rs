//! Encodes field sections for a proxy, where the fields of many clients share one upstream connection's table.
//!
//! A field enters the table when it occurs for the second time, so that values that never repeat (request ids,
//! timeouts, traces) use no entry. Inserted fields are Huffman-coded, because they are sent once. Other literals are
//! sent raw, because coding costs time on both sides and saves few bytes on a fast network. Names come from the static
//! table only: a name in the dynamic table belongs to a field that repeats as a whole.

use super::index::Index;
use super::static_table::{self, Match};
use super::table::DynamicTable;
use super::{DEFAULT_TABLE_SIZE, huffman, integer};
use crate::fields::{Defects, Facts, FieldLine, FieldSection, Known, LINE_OVERHEAD};

const INDEXED: u8 = 0x80;
const INCREMENTAL: u8 = 0x40;
const SIZE_UPDATE: u8 = 0x20;
const NEVER_INDEXED: u8 = 0x10;
const WITHOUT_INDEXING: u8 = 0;
const HUFFMAN: u8 = 0x80;

/// Encodes the field blocks of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    pub(super) table: DynamicTable,
    /// Finds fields in `table`. Allocated with the first field that may enter the table.
    index: Option<Box<Index>>,
    /// The smallest table size that was set since the last block. The next block must announce it (RFC 7541 section
    /// 4.2).
    smallest_pending_size: Option<usize>,
}

impl Encoder {
    /// An encoder for a peer that has not yet announced a table size.
    pub fn new() -> Self {
        Self { table: DynamicTable::new(DEFAULT_TABLE_SIZE), index: None, smallest_pending_size: None }
    }

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE, in bytes, of which at most 4096 are used.
    ///
    /// The next block announces the change.
    pub fn set_max_table_size(&mut self, peers_setting: usize) {
        let size = peers_setting.min(DEFAULT_TABLE_SIZE);
        if size == self.table.max_size() {
            return;
        }
        self.smallest_pending_size = Some(self.smallest_pending_size.map_or(size, |smallest| smallest.min(size)));
        self.table.set_max_size(size);
    }

    /// Appends the field block of `fields` to `out`.
    pub fn encode(&mut self, fields: &FieldSection, out: &mut Vec<u8>) {
        self.encode_size_updates(out);
        for field in fields.iter() {
            self.encode_field(&field, out);
        }
    }

    /// The memory of the table and its index, in bytes, without the encoder itself.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.index.as_ref().map_or(0, |_| size_of::<Index>())
    }

    fn encode_size_updates(&mut self, out: &mut Vec<u8>) {
        let Some(smallest) = self.smallest_pending_size.take() else {
            return;
        };
        integer::encode(smallest, 5, SIZE_UPDATE, out);
        if smallest != self.table.max_size() {
            integer::encode(self.table.max_size(), 5, SIZE_UPDATE, out);
        }
    }

    fn encode_field(&mut self, field: &FieldLine<'_>, out: &mut Vec<u8>) {
        let name_index = match static_table::find(field.known, field.value) {
            Match::Field(index) if !field.never_indexed => return integer::encode(index, 7, INDEXED, out),
            Match::Field(index) | Match::Name(index) => index,
            Match::None => 0,
        };
        if field.never_indexed || is_secret(field.known) {
            return encode_literal(NEVER_INDEXED, name_index, field, out);
        }
        if is_varying(field.known) || !self.has_room_for(field) {
            return encode_literal(WITHOUT_INDEXING, name_index, field, out);
        }
        let index = self.index.get_or_insert_with(|| Box::new(Index::new()));
        if let Some(age) = index.find(&self.table, field.hash, field.text, field.name.len()) {
            return integer::encode(static_table::LEN + 1 + age, 7, INDEXED, out);
        }
        if index.is_second_sight(field.hash) && index.add(&self.table, field.hash) {
            let facts = Facts { hash: field.hash, known: field.known, defects: Defects::NONE };
            self.table.insert(field.text, field.name.len(), facts);
            return encode_inserted(name_index, field, out);
        }
        encode_literal(WITHOUT_INDEXING, name_index, field, out);
    }

    /// Whether a field takes at most 3/4 of the table: a larger field would evict nearly all others.
    fn has_room_for(&self, field: &FieldLine<'_>) -> bool {
        field.text.len() + LINE_OVERHEAD <= self.table.max_size() / 4 * 3
    }
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a value may be a secret of one client. In a table that clients share, another client could guess the secret
/// from sizes (RFC 7541 section 7.1), so no hop may index the field.
fn is_secret(known: Known) -> bool {
    use Known::{Authorization, Cookie, ProxyAuthorization, SetCookie};
    matches!(known, Authorization | Cookie | ProxyAuthorization | SetCookie)
}

/// Whether a field's value probably differs in the next message, so that an entry in the table would be useless.
fn is_varying(known: Known) -> bool {
    use Known::{
        Age, Baggage, ContentLength, ContentRange, Date, Etag, Expires, GrpcMessage, GrpcRetryPushbackMs,
        GrpcStatusDetailsBin, GrpcTimeout, GrpcTraceBin, IfModifiedSince, IfNoneMatch, LastModified, Traceparent,
        Tracestate, XForwardedFor, XRequestId,
    };
    matches!(
        known,
        Age | Baggage
            | ContentLength
            | ContentRange
            | Date
            | Etag
            | Expires
            | GrpcMessage
            | GrpcRetryPushbackMs
            | GrpcStatusDetailsBin
            | GrpcTimeout
            | GrpcTraceBin
            | IfModifiedSince
            | IfNoneMatch
            | LastModified
            | Traceparent
            | Tracestate
            | XForwardedFor
            | XRequestId
    )
}

/// Writes a literal as raw bytes; a `name_index` of 0 means that the name follows.
fn encode_literal(pattern: u8, name_index: usize, field: &FieldLine<'_>, out: &mut Vec<u8>) {
    integer::encode(name_index, 4, pattern, out);
    if name_index == 0 {
        encode_raw(field.name, out);
    }
    encode_raw(field.value, out);
}

/// Writes a literal that the peer inserts in its table, as short as possible.
fn encode_inserted(name_index: usize, field: &FieldLine<'_>, out: &mut Vec<u8>) {
    integer::encode(name_index, 6, INCREMENTAL, out);
    if name_index == 0 {
        encode_shortest(field.name, out);
    }
    encode_shortest(field.value, out);
}

fn encode_raw(string: &[u8], out: &mut Vec<u8>) {
    integer::encode(string.len(), 7, 0, out);
    out.extend_from_slice(string);
}

fn encode_shortest(string: &[u8], out: &mut Vec<u8>) {
    let huffman_len = huffman::encoded_len(string);
    if huffman_len >= string.len() {
        return encode_raw(string, out);
    }
    integer::encode(huffman_len, 7, HUFFMAN, out);
    huffman::encode(string, out);
}

#[cfg(test)]
#[path = "encoder_tests.rs"]
mod tests;
