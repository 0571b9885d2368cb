//! Decoding a field block (RFC 7541 section 3).

use super::huffman::{self, InvalidHuffman};
use super::integer;
use super::repeats::{BlockHash, DecodedBlocks};
use super::static_table;
use super::table::{DynamicTable, Field, MAX_TABLE_SIZE};
use crate::fields::{Facts, FieldSection};

/// Limit on the bytes that the literals of one block may copy from names in the tables, as a multiple of the header
/// list's maximum size. Without a limit, a peer could repeat a name of 4 KiB with each literal of two bytes, and each
/// copy takes time.
const COPIES_MAX: usize = 8;
/// Bytes that the literals of one block may always copy, even if the list's maximum size is small.
const COPIES_MIN_BYTES: usize = 128 << 10;

/// The reason why a field block cannot be decoded. Each reason is a connection error of type COMPRESSION_ERROR, because
/// the tables of the two sides no longer agree (RFC 9113 section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The block ends within a representation.
    #[error("the field block ends within a field")]
    Truncated,
    /// An integer has too many bytes or more than 32 bits (RFC 7541 section 5.1).
    #[error("an integer of the field block is too large")]
    IntegerOverflow,
    /// Index 0, or an index that exists in neither table (RFC 7541 sections 2.3.3 and 6.1).
    #[error("index {0} is in no table")]
    InvalidIndex(usize),
    /// EOS within a string, or wrong padding after the string (RFC 7541 section 5.2).
    #[error("a string is not validly Huffman-coded")]
    InvalidHuffman,
    /// A size update above the announced size (RFC 7541 section 6.3).
    #[error("table size {requested} is more than {allowed}, which was announced")]
    SizeUpdateTooLarge {
        /// The size in the block, in bytes.
        requested: usize,
        /// The size that this side announced, in bytes.
        allowed: usize,
    },
    /// A size update after a field (RFC 7541 section 4.2).
    #[error("a table size update follows a field")]
    SizeUpdateMisplaced,
    /// The block's literals copy too many bytes of names from the tables: more than `COPIES_MAX` times the maximum size
    /// of the list, and more than `COPIES_MIN_BYTES`.
    #[error("names of the table are repeated for more than {COPIES_MAX} times the size that was announced")]
    TooManyCopies,
    /// This side announced a smaller table, and the next block does not start with a size update (RFC 9113 section
    /// 4.3.1).
    #[error("no table size update acknowledges the smaller table")]
    SizeUpdateMissing,
}

impl From<InvalidHuffman> for DecodeError {
    fn from(_: InvalidHuffman) -> Self {
        Self::InvalidHuffman
    }
}

/// Decodes the field blocks of one direction of a connection.
#[derive(Debug)]
pub struct Decoder {
    pub(super) table: DynamicTable,
    /// The table size that this side announced and that the peer has acknowledged.
    allowed_size: usize,
    must_shrink: bool,
    pub(super) repeats: DecodedBlocks,
}

/// The indexing that the peer requests for a literal (RFC 7541 section 6.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Indexing {
    Incremental,
    Without,
    Never,
}

impl Decoder {
    /// A decoder whose table may have up to `max_table_size` bytes, but not more than [`MAX_TABLE_SIZE`]. Use at least
    /// [`DEFAULT_TABLE_SIZE`](super::DEFAULT_TABLE_SIZE) until the peer has acknowledged another size.
    pub fn new(max_table_size: usize) -> Self {
        let table = DynamicTable::new(max_table_size);
        Self { allowed_size: table.max_size(), table, must_shrink: false, repeats: DecodedBlocks::default() }
    }

    /// Changes the size of the table, in bytes, after the peer has acknowledged the SETTINGS with this size.
    ///
    /// The size is limited to [`MAX_TABLE_SIZE`]: never announce more. If the table shrinks, the next block must
    /// contain a size update.
    pub fn set_max_table_size(&mut self, max_table_size: usize) {
        self.allowed_size = max_table_size.min(MAX_TABLE_SIZE);
        self.must_shrink |= self.allowed_size < self.table.max_size();
    }

    /// Decodes one complete field block and appends its fields to `out`, which the caller has cleared.
    ///
    /// If the list exceeds `max_list_size` bytes, sets [`Defects::OVERSIZE`](crate::fields::Defects::OVERSIZE), and
    /// only counts further fields. Even then, decodes the block to its end, to keep the table in sync.
    ///
    /// # Errors
    /// See [`DecodeError`]; do not use the decoder and `out` afterwards.
    pub fn decode(&mut self, block: &[u8], max_list_size: usize, out: &mut FieldSection) -> Result<(), DecodeError> {
        let hash = BlockHash::of(block).filter(|_| !self.must_shrink);
        if let Some(hash) = hash
            && let Some(fields) = self.repeats.find(hash, block)
            && fields.list_size() <= max_list_size
        {
            out.copy_from(fields);
            return Ok(());
        }
        let is_lasting = self.decode_all(block, max_list_size, out)?;
        if let Some(hash) = hash.filter(|_| is_lasting) {
            self.repeats.note(hash, block, out);
        }
        Ok(())
    }

    /// Does the work of [`Decoder::decode`]. Returns whether the block may be remembered: it has not changed the table,
    /// and all its fields may be stored.
    fn decode_all(&mut self, block: &[u8], max_list_size: usize, out: &mut FieldSection) -> Result<bool, DecodeError> {
        let mut input = block;
        let mut is_lasting = !self.decode_size_updates(&mut input)?;
        let mut copies_left = max_list_size.saturating_mul(COPIES_MAX).max(COPIES_MIN_BYTES);
        while let Some((&first, rest)) = input.split_first() {
            input = rest;
            let indexing = match first {
                0x80.. => {
                    let index = integer::decode(first, 7, &mut input)?;
                    let field = self.field(index)?;
                    out.append(field.text, field.name_len, field.facts, max_list_size);
                    continue;
                }
                0x40.. => Indexing::Incremental,
                0x20.. => return Err(DecodeError::SizeUpdateMisplaced),
                0x10.. => Indexing::Never,
                _ => Indexing::Without,
            };
            is_lasting &= indexing == Indexing::Without;
            let copied = self.decode_literal(first, indexing, &mut input, max_list_size, out)?;
            copies_left = copies_left.checked_sub(copied).ok_or(DecodeError::TooManyCopies)?;
        }
        Ok(is_lasting)
    }

    /// The memory of the table and of remembered blocks, in bytes, without the decoder itself.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.repeats.memory_bytes()
    }

    /// Forgets blocks that were remembered to decode them faster.
    pub fn rest(&mut self) {
        self.repeats.forget();
    }

    /// Sets whether memory is short. Forgets the remembered blocks, as [`Decoder::rest`] does. If `on`, remembers no
    /// further blocks until a call with `false`.
    pub fn save_memory(&mut self, on: bool) {
        self.repeats.save_memory(on);
    }

    /// Decodes the size updates at the start of a block. Returns whether there were any.
    fn decode_size_updates(&mut self, input: &mut &[u8]) -> Result<bool, DecodeError> {
        let mut has_updates = false;
        while let Some((&first @ 0x20..=0x3f, rest)) = input.split_first() {
            *input = rest;
            let requested = integer::decode(first, 5, input)?;
            if requested > self.allowed_size {
                return Err(DecodeError::SizeUpdateTooLarge { requested, allowed: self.allowed_size });
            }
            self.repeats.forget();
            self.table.set_max_size(requested);
            self.must_shrink = false;
            has_updates = true;
        }
        if self.must_shrink { Err(DecodeError::SizeUpdateMissing) } else { Ok(has_updates) }
    }

    /// Decodes a literal and appends it to `out`. Returns the number of bytes of the literal's name that were copied
    /// from a table.
    fn decode_literal(
        &mut self,
        first: u8,
        indexing: Indexing,
        input: &mut &[u8],
        max_list_size: usize,
        out: &mut FieldSection,
    ) -> Result<usize, DecodeError> {
        let prefix_bits = if indexing == Indexing::Incremental { 6 } else { 4 };
        let name_index = integer::decode(first, prefix_bits, input)?;
        let start = out.tail().len();
        let name = if name_index == 0 {
            decode_string(input, out.tail())?;
            Facts::of_name(out.tail_from(start))
        } else {
            let field = self.field(name_index)?;
            out.tail().extend_from_slice(field.name());
            field.facts
        };
        let name_len = out.tail_from(start).len();
        decode_string(input, out.tail())?;
        let facts = Facts::of_field(name, out.tail_from(start), name_len);
        if indexing == Indexing::Incremental {
            self.repeats.forget();
            self.table.insert(out.tail_from(start), name_len, facts);
        }
        out.commit(start, name_len, facts, indexing == Indexing::Never, max_list_size);
        Ok(if name_index == 0 { 0 } else { name_len })
    }

    fn field(&self, index: usize) -> Result<Field<'_>, DecodeError> {
        let field = match index.checked_sub(static_table::LEN + 1) {
            Some(age) => self.table.get(age),
            None => static_table::get(index),
        };
        field.ok_or(DecodeError::InvalidIndex(index))
    }
}

/// Decodes a string (RFC 7541 section 5.2), and appends it to `output`.
fn decode_string(input: &mut &[u8], output: &mut Vec<u8>) -> Result<(), DecodeError> {
    let (&first, rest) = input.split_first().ok_or(DecodeError::Truncated)?;
    *input = rest;
    let len = integer::decode(first, 7, input)?;
    let (string, rest) = input.split_at_checked(len).ok_or(DecodeError::Truncated)?;
    *input = rest;
    if first & 0x80 == 0 {
        output.extend_from_slice(string);
    } else {
        huffman::decode(string, output)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
