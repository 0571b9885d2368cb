//! Field blocks that repeat. The responses and trailers of a gRPC server are mostly the same, and often the requests of
//! a client too. A decoder remembers such blocks with their fields, and an encoder remembers sections with their
//! blocks. A repeated block then costs only a comparison and a copy.
//!
//! What a block means depends on the dynamic table. So everything is forgotten when the table changes, and a block that
//! changes the table is not remembered.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::fields::FieldSection;

/// Number of blocks that a decoder remembers.
const DECODED: usize = 8;
/// Longest block that a decoder remembers, in bytes.
const DECODED_BLOCK_MAX_BYTES: usize = 128;
/// Maximum memory of a remembered block's fields, in bytes.
const DECODED_FIELDS_MAX_BYTES: usize = 768;
/// Number of sections that an encoder remembers; a power of two.
const ENCODED: usize = 16;
/// Longest block that an encoder remembers, in bytes. Each field of such a block is an index of one or two bytes.
const ENCODED_BLOCK_MAX_BYTES: usize = 30;

/// The blocks that a decoder remembers: those that occurred twice.
#[derive(Debug, Default)]
pub(super) struct DecodedBlocks {
    blocks: Option<Box<Remembered>>,
    /// Parts of the hashes of blocks that occurred once.
    seen: [u16; DECODED],
    is_saving: bool,
}

#[derive(Debug, Default)]
struct Remembered {
    blocks: [Decoded; DECODED],
    /// The sum of [`Decoded::bytes`].
    bytes: usize,
}

#[derive(Debug, Default)]
struct Decoded {
    /// Empty if the place is free.
    block: Box<[u8]>,
    fields: FieldSection,
}

/// The hash of a block that may be remembered.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockHash(u32);

impl BlockHash {
    /// Returns `None` for a block that is too long to be remembered.
    #[inline]
    pub(super) fn of(block: &[u8]) -> Option<Self> {
        if block.is_empty() || block.len() > DECODED_BLOCK_MAX_BYTES {
            return None;
        }
        let mut hasher = FxHasher::default();
        hasher.write(block);
        Some(Self(hasher.finish() as u32))
    }

    fn place(self) -> usize {
        self.0 as usize % DECODED
    }

    fn tag(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

impl DecodedBlocks {
    /// Returns the fields of a block, if it is remembered.
    #[inline]
    pub(super) fn find(&self, hash: BlockHash, block: &[u8]) -> Option<&FieldSection> {
        let decoded = self.blocks.as_ref()?.blocks.get(hash.place())?;
        (*decoded.block == *block).then_some(&decoded.fields)
    }

    /// Records a block that was decoded and has not changed the table. Remembers it if it has occurred before.
    pub(super) fn note(&mut self, hash: BlockHash, block: &[u8], fields: &FieldSection) {
        let Some(seen) = self.seen.get_mut(hash.place()) else { return };
        if std::mem::replace(seen, hash.tag()) != hash.tag() || self.is_saving {
            return;
        }
        if fields.used_bytes() > DECODED_FIELDS_MAX_BYTES || !fields.defects().is_empty() {
            return;
        }
        let remembered = self.blocks.get_or_insert_default();
        if let Some(decoded) = remembered.blocks.get_mut(hash.place()) {
            remembered.bytes -= decoded.bytes();
            decoded.block = block.into();
            decoded.fields = fields.clone();
            decoded.fields.number_content();
            remembered.bytes += decoded.bytes();
        }
    }

    /// Forgets all blocks, because the table changes.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.blocks = None;
        // A block must again occur twice. Otherwise, many changes of the table would cost many copies.
        self.seen = [0; DECODED];
    }

    /// Forgets all blocks, and remembers none while `on`.
    pub(super) fn save_memory(&mut self, on: bool) {
        self.is_saving = on;
        self.forget();
    }

    /// The memory of the remembered blocks, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks.as_ref().map_or(0, |blocks| blocks.bytes + size_of_val(&**blocks))
    }
}

impl Decoded {
    /// The memory beside the struct, in bytes.
    fn bytes(&self) -> usize {
        self.block.len() + self.fields.capacity_bytes()
    }
}

/// The sections that an encoder remembers: those whose fields are all in its tables.
#[derive(Debug, Default)]
pub(super) struct EncodedBlocks {
    sections: Option<Box<Sections>>,
    is_saving: bool,
}

/// Sections and their blocks. Each section has one place of its own, which follows from the number of its content. If another
/// section is in this place, the section takes a place elsewhere. Otherwise two sections with the same own place would replace
/// each other each time, and among the sections of five servers there are often two.
#[derive(Debug, Default)]
struct Sections {
    /// The numbers of the sections' contents; 0 for a free place.
    contents: [u64; ENCODED],
    blocks: [Encoded; ENCODED],
    /// The place that was used last for a section whose own place was taken, modulo [`ENCODED`].
    latest_elsewhere: usize,
}

#[derive(Debug, Default, Clone, Copy)]
struct Encoded {
    len: u8,
    block: [u8; ENCODED_BLOCK_MAX_BYTES],
}

impl Sections {
    #[inline]
    fn place_of(&self, content: u64) -> Option<usize> {
        let own = content as usize % ENCODED;
        if self.contents.get(own) == Some(&content) { Some(own) } else { self.place_elsewhere(content) }
    }

    fn place_elsewhere(&self, content: u64) -> Option<usize> {
        self.contents.iter().position(|other| *other == content)
    }

    /// Returns a place for a section that has none.
    fn new_place(&mut self, content: u64) -> usize {
        let own = content as usize % ENCODED;
        if self.contents.get(own) == Some(&0) {
            return own;
        }
        self.latest_elsewhere = self.latest_elsewhere.wrapping_add(1);
        self.latest_elsewhere % ENCODED
    }
}

impl EncodedBlocks {
    /// Returns the block of a section with this number of its content, if it is remembered.
    #[inline]
    pub(super) fn find(&self, content: u64) -> Option<&[u8]> {
        let sections = self.sections.as_ref()?;
        if content == 0 {
            return None;
        }
        let encoded = sections.blocks.get(sections.place_of(content)?)?;
        encoded.block.get(..usize::from(encoded.len))
    }

    /// Remembers the block of a section whose content has a number. The block must not have changed the table.
    pub(super) fn note(&mut self, content: u64, block: &[u8]) {
        let Ok(len) = u8::try_from(block.len()) else { return };
        if content == 0 || self.is_saving || block.len() > ENCODED_BLOCK_MAX_BYTES {
            return;
        }
        let sections = self.sections.get_or_insert_default();
        let place = sections.place_of(content).unwrap_or_else(|| sections.new_place(content));
        if let (Some(numbered), Some(encoded)) = (sections.contents.get_mut(place), sections.blocks.get_mut(place))
            && let Some(start) = encoded.block.get_mut(..block.len())
        {
            start.copy_from_slice(block);
            (*numbered, encoded.len) = (content, len);
        }
    }

    /// Forgets all blocks, because the table changes.
    #[inline]
    pub(super) fn forget(&mut self) {
        if let Some(sections) = &mut self.sections {
            sections.contents = [0; ENCODED];
        }
    }

    /// Frees the memory of all blocks.
    pub(super) fn free(&mut self) {
        self.sections = None;
    }

    /// Frees the memory of all blocks, and remembers none while `on`.
    pub(super) fn save_memory(&mut self, on: bool) {
        self.is_saving = on;
        self.free();
    }

    /// The memory of the remembered blocks, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.sections.as_ref().map_or(0, |sections| size_of_val(&**sections))
    }
}

#[cfg(test)]
#[path = "repeats_tests.rs"]
mod tests;
