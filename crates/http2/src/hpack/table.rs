//! The dynamic table (RFC 7541 sections 2.3.2 and 4), the same for both directions.
//!
//! The entries' bytes are in one vector, oldest first. The bytes of evicted entries stay at the front of the vector
//! until a compaction is worthwhile. So each entry is one slice, and a busy table inserts without allocating.
//! Invariant: `size` is the sum of the entries' bytes plus 32 for each entry, and `size` <= `max_size` <=
//! [`MAX_TABLE_SIZE`].

use std::collections::VecDeque;

use crate::fields::{Facts, LINE_OVERHEAD};

/// The largest supported table, in bytes, so that an entry's lengths fit in 16 bits each.
pub const MAX_TABLE_SIZE: usize = 65_536;

/// Size of the first allocation, in bytes: enough for the fields of calls to one gRPC method.
const MIN_CAPACITY: usize = 256;

/// An entry of either table.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    /// The name and then the value.
    pub(super) text: &'a [u8],
    pub(super) name_len: usize,
    pub(super) facts: Facts,
}

impl<'a> Field<'a> {
    pub(super) fn name(&self) -> &'a [u8] {
        self.text.get(..self.name_len).unwrap_or_default()
    }

    pub(super) fn value(&self) -> &'a [u8] {
        self.text.get(self.name_len..).unwrap_or_default()
    }
}

#[derive(Debug)]
pub(super) struct DynamicTable {
    bytes: Vec<u8>,
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// Position of the first byte of `bytes` among all bytes ever inserted, modulo 2^32.
    base: u32,
    size: usize,
    max_size: usize,
}

#[derive(Debug)]
struct Entry {
    facts: Facts,
    /// Position of the entry's first byte, counted as for `base`.
    start: u32,
    name_len: u16,
    value_len: u16,
}

impl DynamicTable {
    /// An empty table, without an allocation; `max_size` is limited to [`MAX_TABLE_SIZE`].
    pub(super) fn new(max_size: usize) -> Self {
        Self { bytes: Vec::new(), entries: VecDeque::new(), base: 0, size: 0, max_size: max_size.min(MAX_TABLE_SIZE) }
    }

    pub(super) fn max_size(&self) -> usize {
        self.max_size
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the entry that has `age` newer entries.
    pub(super) fn get(&self, age: usize) -> Option<Field<'_>> {
        let entry = self.entry(age)?;
        Some(Field { text: self.text(entry)?, name_len: usize::from(entry.name_len), facts: entry.facts })
    }

    /// Whether the entry that has `age` newer entries equals this field. Compares the hashes first, so that a different
    /// entry costs little.
    #[inline]
    pub(super) fn is_field(&self, age: usize, hash: u32, text: &[u8], name_len: usize) -> bool {
        self.entry(age).is_some_and(|entry| {
            entry.facts.hash == hash && usize::from(entry.name_len) == name_len && self.text(entry) == Some(text)
        })
    }

    /// Adds an entry. First evicts the oldest entries until the new entry fits. An entry larger than the table is not
    /// added, but empties the table.
    pub(super) fn insert(&mut self, text: &[u8], name_len: usize, facts: Facts) {
        let added = text.len().saturating_add(LINE_OVERHEAD);
        let Some(others_size) = self.max_size.checked_sub(added) else {
            self.evict_until(0);
            return;
        };
        self.evict_until(others_size);
        self.make_room(text.len());
        self.entries.push_back(Entry {
            facts,
            start: self.base.wrapping_add(self.bytes.len() as u32),
            name_len: name_len as u16,
            value_len: text.len().saturating_sub(name_len) as u16,
        });
        self.bytes.extend_from_slice(text);
        self.size += added;
    }

    /// Changes the maximum size (RFC 7541 section 4.3), and frees memory that is no longer needed.
    pub(super) fn set_max_size(&mut self, max_size: usize) {
        self.max_size = max_size.min(MAX_TABLE_SIZE);
        self.evict_until(self.max_size);
        if self.bytes.capacity() > self.max_size {
            self.compact();
            self.bytes.shrink_to(self.max_size);
            self.entries.shrink_to_fit();
        }
    }

    /// The memory allocated for entries, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    #[inline]
    fn entry(&self, age: usize) -> Option<&Entry> {
        // If `age` is too large, the subtraction wraps to an index beyond the last entry, and `get` returns `None`.
        self.entries.get(self.entries.len().wrapping_sub(age).wrapping_sub(1))
    }

    /// The name and then the value of an entry.
    #[inline]
    fn text(&self, entry: &Entry) -> Option<&[u8]> {
        let start = entry.start.wrapping_sub(self.base) as usize;
        self.bytes.get(start..start + usize::from(entry.name_len) + usize::from(entry.value_len))
    }

    fn evict_until(&mut self, size: usize) {
        while self.size > size {
            let Some(entry) = self.entries.pop_front() else {
                return;
            };
            let text_len = usize::from(entry.name_len) + usize::from(entry.value_len);
            self.size = self.size.saturating_sub(text_len + LINE_OVERHEAD);
        }
    }

    /// Makes room for `added` bytes. Each entry counts 32 bytes more than its content, so a capacity of `max_size`
    /// bytes always suffices.
    fn make_room(&mut self, added: usize) {
        let needed = self.bytes.len() + added;
        if needed <= self.bytes.capacity() {
            return;
        }
        let grown = (self.bytes.capacity() * 2).max(MIN_CAPACITY).min(self.max_size);
        if needed > grown || self.evicted_len() * 2 >= self.bytes.len() {
            self.compact();
        }
        if self.bytes.len() + added > self.bytes.capacity() {
            let capacity = grown.max(self.bytes.len() + added);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    /// Number of bytes at the front that belong to evicted entries.
    fn evicted_len(&self) -> usize {
        match self.entries.front() {
            Some(oldest) => oldest.start.wrapping_sub(self.base) as usize,
            None => self.bytes.len(),
        }
    }

    fn compact(&mut self) {
        let evicted = self.evicted_len();
        self.bytes.drain(..evicted);
        self.base = self.base.wrapping_add(evicted as u32);
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
