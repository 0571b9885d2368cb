//! An encoder's index of sent fields: finds a field's entry in the encoder's table, and remembers fields that occurred
//! once.
//!
//! Both parts have a fixed size, and forget fields instead of growing or probing further. A peer that chooses colliding
//! fields thus only reduces compression.

use super::table::DynamicTable;

const SETS: usize = 32;
const WAYS: usize = 8;
const SEEN: usize = 64;

/// Insertions are numbered modulo 2^16. A table has far fewer entries, so a number determines an entry's age.
#[derive(Debug)]
pub(super) struct Index {
    /// For each set, the numbers of the entries whose hash selects the set. Numbers of evicted entries mark free
    /// places.
    sets: [[u16; WAYS]; SETS],
    /// Parts of the hashes of fields that occurred once and were not inserted; 0 is empty.
    seen: [u16; SEEN],
    /// The number of the next insertion. The first is 1, so that the initial 0 in a set marks a free place.
    next: u16,
}

impl Index {
    pub(super) fn new() -> Self {
        Self { sets: [[0; WAYS]; SETS], seen: [0; SEEN], next: 1 }
    }

    /// The age of the entry of `table` that equals this field.
    pub(super) fn find(&self, table: &DynamicTable, hash: u32, text: &[u8], name_len: usize) -> Option<usize> {
        let set = self.sets.get(hash as usize % SETS)?;
        set.iter().map(|&number| age(self.next, number)).find(|&age| {
            table
                .get(age)
                .is_some_and(|field| field.facts.hash == hash && field.name_len == name_len && field.text == text)
        })
    }

    /// Records a field before the encoder inserts it in `table`. Returns false if the field's set has no free place.
    pub(super) fn add(&mut self, table: &DynamicTable, hash: u32) -> bool {
        let next = self.next;
        let set = self.sets.get_mut(hash as usize % SETS);
        let free = set.and_then(|set| set.iter_mut().find(|number| age(next, **number) >= table.len()));
        let Some(number) = free else {
            return false;
        };
        *number = next;
        self.next = next.wrapping_add(1);
        true
    }

    /// Records an occurrence of a field. Returns whether the field has occurred recently before; in this case, the
    /// field is forgotten.
    pub(super) fn is_second_sight(&mut self, hash: u32) -> bool {
        let Some(seen) = self.seen.get_mut((hash >> 5) as usize % SEEN) else {
            return false;
        };
        let mark = (hash >> 16) as u16 | 1;
        let second = *seen == mark;
        *seen = if second { 0 } else { mark };
        second
    }
}

/// Number of insertions after the insertion with this number.
fn age(next: u16, number: u16) -> usize {
    usize::from(next.wrapping_sub(number).wrapping_sub(1))
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
