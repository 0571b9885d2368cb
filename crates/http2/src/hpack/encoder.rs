//! Encodes field sections for a proxy, where the fields of many clients share one upstream connection's table.
//!
//! Except for secrets ([`is_secret`]), the name of a field does not decide whether it enters the table. The fields that
//! the connection has sent before decide:
//!
//! - A field enters the table when it occurs for the second time. So a `date` costs one byte for the rest of its
//!   second. A value that never repeats (a request id, a `grpc-timeout`, a trace id) evicts nothing.
//! - A name enters the table when it occurs for the second time: the encoder then inserts the whole field, even if its
//!   value is new. Later literals refer to this entry for the name. So a value that never repeats is sent without its
//!   name. Names of the static table need no entry. The entries for names take at most half of the table, and a name is
//!   inserted again only after its entry was evicted.
//!
//! Inserted fields are Huffman-coded, because they are sent once. In other literals, only values whose length is in
//! [`CODED_BYTES`] are Huffman-coded: ids, traces, dates.

use std::ops::RangeInclusive;

use super::index::{self, Index};
use super::repeats::EncodedBlocks;
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
/// The largest length of a string that fits in one byte, with the bit [`HUFFMAN`] (RFC 7541 section 5.2).
const ONE_BYTE_LENGTH_MAX: u8 = 0x7e;

/// The lengths, in bytes, of the values that are Huffman-coded in literals without insertion. Coding saves about a
/// quarter of an id, for about 15 instructions per byte here and as many at the receiver. Coding a shorter value would
/// save only two or three bytes. Coding a longer value would cost more than all other fields of a request.
const CODED_BYTES: RangeInclusive<usize> = 16..=128;
/// An entry for a name takes at most the table's size divided by this number, so that all such entries together take at
/// most half of the table.
const NAME_FRACTION: usize = 2 * index::NAMES;

/// Encodes the field blocks of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    pub(super) table: DynamicTable,
    /// Finds fields in `table`. Allocated with the first field that may enter the table.
    index: Option<Box<Index>>,
    /// The smallest table size that was set since the last block. The next block must announce it (RFC 7541 section
    /// 4.2).
    smallest_pending_size: Option<usize>,
    pub(super) repeats: EncodedBlocks,
}

impl Encoder {
    /// An encoder for a peer that has not yet announced a table size.
    pub fn new() -> Self {
        let table = DynamicTable::new(DEFAULT_TABLE_SIZE);
        Self { table, index: None, smallest_pending_size: None, repeats: EncodedBlocks::default() }
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
        self.repeats.forget();
        self.table.set_max_size(size);
    }

    /// Appends the field block of `fields` to `out`.
    pub fn encode(&mut self, fields: &FieldSection, out: &mut Vec<u8>) {
        self.encode_size_updates(out);
        let (content, count) = fields.beginning();
        let (numbered, others) = fields.iter_split(count);
        if let Some(block) = self.repeats.find(content) {
            out.extend_from_slice(block);
        } else if content != 0 {
            let (start, mut is_indexed) = (out.len(), true);
            for field in numbered {
                is_indexed &= self.encode_field(&field, out);
            }
            if is_indexed && let Some(block) = out.get(start..) {
                self.repeats.note(content, block);
            }
        }
        for field in others {
            self.encode_field(&field, out);
        }
    }

    /// The memory of the table, of its index and of remembered blocks, in bytes, without the encoder itself.
    pub fn memory_bytes(&self) -> usize {
        let repeats = self.repeats.memory_bytes();
        repeats + self.table.memory_bytes() + self.index.as_ref().map_or(0, |index| index.memory_bytes())
    }

    /// Forgets blocks that were remembered to encode their sections faster.
    pub fn rest(&mut self) {
        self.repeats.free();
    }

    /// Sets whether memory is short. Forgets the remembered blocks, as [`Encoder::rest`] does. If `on`, remembers no
    /// further blocks until a call with `false`.
    pub fn save_memory(&mut self, on: bool) {
        self.repeats.save_memory(on);
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

    /// Appends a field. Only the search in the tables is inline, because the search finds most fields. Returns whether
    /// a table contains the field.
    #[inline]
    fn encode_field(&mut self, field: &FieldLine<'_>, out: &mut Vec<u8>) -> bool {
        if field.never_indexed {
            self.encode_literal(field, out);
            return false;
        }
        if static_table::has_values(field.known)
            && let Match::Field(index) = static_table::find(field.known, field.value)
        {
            integer::encode(index, 7, INDEXED, out);
            return true;
        }
        if let Some(index) = &self.index
            && let Some(age) = index.find(&self.table, field.hash, field.text, field.name.len())
        {
            integer::encode(static_table::LEN + 1 + age, 7, INDEXED, out);
            return true;
        }
        self.encode_literal(field, out);
        false
    }

    /// Appends a field that is not in the dynamic table, and decides whether both sides insert it.
    // Not inline, so that the loop over indexed fields keeps its state in registers.
    #[inline(never)]
    fn encode_literal(&mut self, field: &FieldLine<'_>, out: &mut Vec<u8>) {
        let static_name = match static_table::find(field.known, field.value) {
            Match::Field(index) if !field.never_indexed => return integer::encode(index, 7, INDEXED, out),
            Match::Field(index) | Match::Name(index) => index,
            Match::None => 0,
        };
        if field.never_indexed || is_secret(field.known) {
            return write_literal(NEVER_INDEXED, static_name, field, out);
        }
        let size = field.text.len() + LINE_OVERHEAD;
        let table_size = self.table.max_size();
        if size > table_size / 4 * 3 {
            // Do not insert so large a field: it would evict nearly all other fields.
            return write_literal(WITHOUT_INDEXING, static_name, field, out);
        }
        let (table, index) = (&mut self.table, self.index.get_or_insert_default());
        let name_age = if static_name == 0 { index.find_name(table, field.name) } else { None };
        let name_index = name_age.map_or(static_name, |age| static_table::LEN + 1 + age);
        let field_repeats = index.is_second_sight(field.hash);
        let name_repeats = !field_repeats
            && name_index == 0
            && size <= table_size / NAME_FRACTION
            && index.has_free_name(table)
            && index.is_second_sight_of_name(field.name);
        if !(field_repeats || name_repeats) || !index.add(table, field.hash) {
            return write_literal(WITHOUT_INDEXING, name_index, field, out);
        }
        let facts = Facts { hash: field.hash, known: field.known, defects: Defects::NONE };
        self.repeats.forget();
        table.insert(field.text, field.name.len(), facts);
        if name_repeats || name_age.is_some() {
            index.add_name(table, field.name);
        }
        write_inserted(name_index, field, out);
    }
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a field's value may be a secret of one client. Clients share the table, so another client could guess the
/// secret by observing sizes (RFC 7541 section 7.1). So no hop may index the field. The cost: a token is sent in full
/// each time, while a client without a proxy sends a repeated token as one byte.
fn is_secret(known: Known) -> bool {
    use Known::{Authorization, Cookie, ProxyAuthorization, SetCookie};
    matches!(known, Authorization | Cookie | ProxyAuthorization | SetCookie)
}

/// Writes a literal that the peer does not insert in its table. A `name_index` of 0 means that the name follows.
fn write_literal(pattern: u8, name_index: usize, field: &FieldLine<'_>, out: &mut Vec<u8>) {
    integer::encode(name_index, 4, pattern, out);
    if name_index == 0 {
        write_raw(field.name, out);
    }
    if pattern == WITHOUT_INDEXING && CODED_BYTES.contains(&field.value.len()) {
        write_shortest(field.value, out);
    } else {
        write_raw(field.value, out);
    }
}

/// Writes a literal that the peer inserts in its table. Codes the strings so that they are as short as possible.
fn write_inserted(name_index: usize, field: &FieldLine<'_>, out: &mut Vec<u8>) {
    integer::encode(name_index, 6, INCREMENTAL, out);
    if name_index == 0 {
        write_shortest(field.name, out);
    }
    write_shortest(field.value, out);
}

fn write_raw(string: &[u8], out: &mut Vec<u8>) {
    integer::encode(string.len(), 7, 0, out);
    out.extend_from_slice(string);
}

fn write_shortest(string: &[u8], out: &mut Vec<u8>) {
    // Reserve one byte for the coded length, which is known only after coding. One byte is enough for most strings.
    let start = out.len();
    out.push(HUFFMAN);
    huffman::encode(string, out);
    let coded_len = out.len() - start - 1;
    if coded_len >= string.len() {
        out.truncate(start);
        return write_raw(string, out);
    }
    match (out.get_mut(start), u8::try_from(coded_len)) {
        (Some(length), Ok(short @ ..=ONE_BYTE_LENGTH_MAX)) => *length |= short,
        _ => {
            out.truncate(start);
            integer::encode(coded_len, 7, HUFFMAN, out);
            huffman::encode(string, out);
        }
    }
}

#[cfg(test)]
#[path = "encoder_tests.rs"]
mod tests;
