//! Field blocks that repeat. The responses and trailers of a gRPC server are mostly the same, and often the requests of
//! a client too. A decoder remembers such blocks with their fields, and an encoder remembers sections with their
//! blocks. A repeated block then costs only a comparison and a copy.
//!
//! The meaning of a block depends on the dynamic table. So all blocks are forgotten when the table changes, and a block
//! that changes the table is not remembered.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::fields::FieldSection;

/// Number of blocks that a decoder remembers.
const DECODED: usize = 8;
/// Number of blocks that occurred once and whose hashes a decoder keeps.
const SEEN: usize = 8;
/// Longest block that a decoder remembers, in bytes.
const DECODED_BLOCK_MAX_BYTES: usize = 128;
/// Maximum memory of a remembered block's fields, in bytes.
const DECODED_FIELDS_MAX_BYTES: usize = 768;
/// Number of sections that an encoder remembers.
const ENCODED: usize = 16;
/// Longest block that an encoder remembers, in bytes. Each field of such a block is an index of one or two bytes.
const ENCODED_BLOCK_MAX_BYTES: usize = 30;

/// A small hash table that assigns an index, its place, to each of up to `COUNT` keys. A new key gets its preferred
/// place if that is free, else any free place.
///
/// If no place is free, the places lose their keys in turn. A new key does not simply take its preferred place: two
/// keys with the same preferred place would then replace each other each time.
///
/// The default value of `K` is never a key: it marks a free place.
#[derive(Debug)]
struct Places<K, const COUNT: usize> {
    keys: [K; COUNT],
    /// The place whose key was replaced last, modulo `COUNT`.
    latest_replaced: usize,
}

impl<K: Copy + Default, const COUNT: usize> Default for Places<K, COUNT> {
    fn default() -> Self {
        Self { keys: [K::default(); COUNT], latest_replaced: 0 }
    }
}

impl<K: Copy + Default + Eq + Into<u64>, const COUNT: usize> Places<K, COUNT> {
    fn own(key: K) -> usize {
        key.into() as usize % COUNT
    }

    /// Returns the place of a key, if it has one.
    #[inline]
    fn find(&self, key: K) -> Option<usize> {
        let own = Self::own(key);
        if self.keys.get(own) == Some(&key) { Some(own) } else { self.keys.iter().position(|other| *other == key) }
    }

    /// Returns the place of a key. A key without a place gets one, and may replace another key there.
    fn take(&mut self, key: K) -> usize {
        if let Some(place) = self.find(key) {
            return place;
        }
        let own = Self::own(key);
        let is_free = |place: &usize| self.keys.get(*place) == Some(&K::default());
        let free = std::iter::once(own).chain(0..COUNT).find(is_free);
        let place = free.unwrap_or_else(|| {
            self.latest_replaced = self.latest_replaced.wrapping_add(1);
            self.latest_replaced % COUNT
        });
        if let Some(taken) = self.keys.get_mut(place) {
            *taken = key;
        }
        place
    }

    /// Frees all places.
    fn clear(&mut self) {
        self.keys = [K::default(); COUNT];
    }
}

/// The blocks that a decoder remembers: blocks that occurred at least twice.
#[derive(Debug, Default)]
pub(super) struct DecodedBlocks {
    blocks: Option<Box<Remembered>>,
    /// 16 bits of the hash of each of the latest blocks that occurred once.
    seen: [u16; SEEN],
    /// The place in `seen` that was used last, modulo [`SEEN`].
    latest_seen: u8,
    is_saving: bool,
}

#[derive(Debug, Default)]
struct Remembered {
    places: Places<u32, DECODED>,
    blocks: [Decoded; DECODED],
    /// The sum of [`Decoded::bytes`] over all blocks.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Decoded {
    /// The bytes of the block; empty if this entry is unused.
    block: Box<[u8]>,
    fields: FieldSection,
}

/// The hash of a block that may be remembered; never 0.
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
        Some(Self((hasher.finish() as u32).max(1)))
    }

    fn tag(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

impl DecodedBlocks {
    /// Returns the fields of a block, if it is remembered.
    #[inline]
    pub(super) fn find(&self, hash: BlockHash, block: &[u8]) -> Option<&FieldSection> {
        let remembered = self.blocks.as_ref()?;
        let decoded = remembered.blocks.get(remembered.places.find(hash.0)?)?;
        (*decoded.block == *block).then_some(&decoded.fields)
    }

    /// Records a block that was decoded and has not changed the table. Remembers the block if it has occurred before.
    pub(super) fn note(&mut self, hash: BlockHash, block: &[u8], fields: &FieldSection) {
        if !self.is_seen_again(hash) || self.is_saving {
            return;
        }
        if fields.used_bytes() > DECODED_FIELDS_MAX_BYTES || fields.defects().is_malformed() {
            return;
        }
        let remembered = self.blocks.get_or_insert_default();
        let place = remembered.places.take(hash.0);
        if let Some(decoded) = remembered.blocks.get_mut(place) {
            remembered.bytes -= decoded.bytes();
            decoded.block = block.into();
            decoded.fields = fields.clone();
            decoded.fields.number_content();
            remembered.bytes += decoded.bytes();
        }
    }

    /// Returns whether `seen` contains the hash's tag. If so, the block has probably occurred before. If not, adds the
    /// tag.
    fn is_seen_again(&mut self, hash: BlockHash) -> bool {
        if self.seen.contains(&hash.tag()) {
            return true;
        }
        self.latest_seen = self.latest_seen.wrapping_add(1);
        if let Some(seen) = self.seen.get_mut(usize::from(self.latest_seen) % SEEN) {
            *seen = hash.tag();
        }
        false
    }

    /// Forgets all blocks, because the table changes.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.blocks = None;
        // Forget the hashes, too, so that a block must occur twice again before it is remembered. Otherwise, each
        // change of the table would cause copies.
        self.seen = [0; SEEN];
    }

    /// Forgets all blocks. If `on`, remembers no further blocks until a call with `false`.
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
    /// The memory that the block and its fields need in addition to this struct, in bytes.
    fn bytes(&self) -> usize {
        self.block.len() + self.fields.capacity_bytes()
    }
}

/// The sections that an encoder remembers. All fields of these sections are in the encoder's tables.
#[derive(Debug, Default)]
pub(super) struct EncodedBlocks {
    sections: Option<Box<Sections>>,
    is_saving: bool,
}

#[derive(Debug, Default)]
struct Sections {
    /// The index in `blocks` of each section, by the section's content number.
    places: Places<u64, ENCODED>,
    blocks: [Encoded; ENCODED],
}

#[derive(Debug, Default, Clone, Copy)]
struct Encoded {
    len: u8,
    block: [u8; ENCODED_BLOCK_MAX_BYTES],
}

impl EncodedBlocks {
    /// Returns the remembered block for the section with this content number, if there is one.
    #[inline]
    pub(super) fn find(&self, content: u64) -> Option<&[u8]> {
        let sections = self.sections.as_ref()?;
        if content == 0 {
            return None;
        }
        let encoded = sections.blocks.get(sections.places.find(content)?)?;
        encoded.block.get(..usize::from(encoded.len))
    }

    /// Remembers the block of the section with this content number; 0 means no number. The block must not have changed
    /// the table.
    pub(super) fn note(&mut self, content: u64, block: &[u8]) {
        let Ok(len) = u8::try_from(block.len()) else { return };
        if content == 0 || self.is_saving || block.len() > ENCODED_BLOCK_MAX_BYTES {
            return;
        }
        let sections = self.sections.get_or_insert_default();
        let place = sections.places.take(content);
        if let Some(encoded) = sections.blocks.get_mut(place)
            && let Some(start) = encoded.block.get_mut(..block.len())
        {
            start.copy_from_slice(block);
            encoded.len = len;
        }
    }

    /// Forgets all blocks, because the table changes.
    #[inline]
    pub(super) fn forget(&mut self) {
        if let Some(sections) = &mut self.sections {
            sections.places.clear();
        }
    }

    /// Frees the memory of all blocks.
    pub(super) fn free(&mut self) {
        self.sections = None;
    }

    /// Frees the memory of all blocks. If `on`, remembers no further blocks until a call with `false`.
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
