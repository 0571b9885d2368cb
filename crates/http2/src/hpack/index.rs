//! An encoder's index of sent fields: finds a field's entry in the encoder's table, finds an entry with a field's name,
//! and remembers fields and names that occurred once.
//!
//! All parts have a fixed size, and forget fields instead of growing or probing further. A peer that chooses colliding
//! fields thus only reduces compression.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::table::DynamicTable;

const SETS: usize = 64;
const WAYS: usize = 6;
/// Number of sets in which the index remembers fields and names that occurred once.
const SEEN_SETS: usize = 32;
/// Number of slots in each of the [`SEEN_SETS`] sets. With one slot, two fields that alternate would replace each other
/// each time, and neither would ever enter the table.
const SEEN_WAYS: usize = 4;
/// Maximum number of names that have an entry at the same time.
pub(super) const NAMES: usize = 16;

/// An encoder's index of sent fields. It numbers the insertions in the table modulo 2^16. The table has far fewer
/// entries, so the number of an entry determines its age.
#[derive(Debug)]
pub(super) struct Index {
    /// For each set, the numbers of the entries whose hash selects the set. The number of an evicted entry marks a free
    /// slot. Allocated with the first entry: most connections that carry only one call never have an entry.
    sets: Option<Box<[[u16; WAYS]; SETS]>>,
    /// 16 bits of the hash of each field and name that occurred once and was not inserted. In each set, the latest
    /// comes first; 0 marks a free slot.
    seen: [[u16; SEEN_WAYS]; SEEN_SETS],
    /// The names that have an entry to which literals can refer.
    names: [Name; NAMES],
    /// The number of the next insertion. The first insertion has the number 1, so that the initial 0 in a set marks a
    /// free slot.
    next: u16,
}

/// A name, and the entry that has the name.
#[derive(Debug, Clone, Copy)]
struct Name {
    /// Part of the name's hash.
    tag: u16,
    /// The entry's number. The number of an evicted entry marks a free slot.
    number: u16,
}

impl Index {
    /// The memory of the index, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.sets.as_ref().map_or(0, |sets| size_of_val(&**sets))
    }

    /// Returns the age (the number of newer entries) of the entry of `table` that equals this field; `None` without
    /// such an entry.
    pub(super) fn find(&self, table: &DynamicTable, hash: u32, text: &[u8], name_len: usize) -> Option<usize> {
        let set = self.sets.as_ref()?.get(hash as usize % SETS)?;
        let mut ages = set.iter().map(|&number| age(self.next, number));
        ages.find(|&age| table.is_field(age, hash, text, name_len))
    }

    /// Records a field before the encoder inserts it in `table`. Returns false if the field's set has no free slot.
    pub(super) fn add(&mut self, table: &DynamicTable, hash: u32) -> bool {
        let next = self.next;
        let sets = self.sets.get_or_insert_with(|| Box::new([[0; WAYS]; SETS]));
        let set = sets.get_mut(hash as usize % SETS);
        let free = set.and_then(|set| set.iter_mut().find(|number| age(next, **number) >= table.len()));
        let Some(number) = free else {
            return false;
        };
        *number = next;
        self.next = next.wrapping_add(1);
        true
    }

    /// Returns the age (the number of newer entries) of the entry of `table` that [`Index::add_name`] recorded for this
    /// name; `None` without such an entry.
    pub(super) fn find_name(&self, table: &DynamicTable, name: &[u8]) -> Option<usize> {
        let tag = tag(name_hash(name));
        let same_tag = self.names.iter().filter(|place| place.tag == tag);
        let mut ages = same_tag.map(|place| age(self.next, place.number));
        ages.find(|&age| table.get(age).is_some_and(|field| field.name() == name))
    }

    /// Whether [`Index::add_name`] finds a free slot for a new name.
    pub(super) fn has_free_name(&self, table: &DynamicTable) -> bool {
        self.names.iter().any(|place| age(self.next, place.number) >= table.len())
    }

    /// Records that the newest entry of `table` has this name. The entry replaces an older entry with the name.
    pub(super) fn add_name(&mut self, table: &DynamicTable, name: &[u8]) {
        let (tag, next) = (tag(name_hash(name)), self.next);
        let is_free = |place: &Name| age(next, place.number) >= table.len();
        let has_name = |place: &Name| place.tag == tag && !is_free(place);
        let place = self.names.iter().position(has_name).or_else(|| self.names.iter().position(is_free));
        if let Some(place) = place.and_then(|place| self.names.get_mut(place)) {
            *place = Name { tag, number: next.wrapping_sub(1) };
        }
    }

    /// Records an occurrence of a field. Returns true, and forgets the field, if the field has already occurred
    /// recently.
    pub(super) fn is_second_sight(&mut self, hash: u32) -> bool {
        let Some(set) = self.seen.get_mut((hash >> 6) as usize % SEEN_SETS) else {
            return false;
        };
        let mark = tag(hash);
        if let Some(seen) = set.iter_mut().find(|seen| **seen == mark) {
            *seen = 0;
            return true;
        }
        let free = set.iter().position(|seen| *seen == 0).unwrap_or(SEEN_WAYS - 1);
        if let Some(latest) = set.get_mut(..=free) {
            latest.rotate_right(1);
        }
        if let Some(first) = set.first_mut() {
            *first = mark;
        }
        false
    }

    /// Does the same as [`Index::is_second_sight`], for a name.
    pub(super) fn is_second_sight_of_name(&mut self, name: &[u8]) -> bool {
        self.is_second_sight(name_hash(name))
    }
}

impl Default for Index {
    fn default() -> Self {
        let free = Name { tag: 0, number: 0 };
        Self { sets: None, seen: [[0; SEEN_WAYS]; SEEN_SETS], names: [free; NAMES], next: 1 }
    }
}

/// Hashes a name. As for fields, a collision costs only compression.
fn name_hash(name: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    hasher.finish() as u32
}

/// Returns the upper 16 bits of a hash, or 1 if they are 0: 0 marks a free slot.
fn tag(hash: u32) -> u16 {
    ((hash >> 16) as u16).max(1)
}

/// Returns how many insertions followed the insertion with this number.
fn age(next: u16, number: u16) -> usize {
    usize::from(next.wrapping_sub(number).wrapping_sub(1))
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
