//! Finds an open stream's slot by the stream's identifier.
//!
//! Identifiers ascend, and most streams end soon after they were opened. So the open identifiers are close together,
//! and a table that is indexed by the identifier itself finds nearly all of them without a hash. A new stream whose
//! place in the table is already taken goes into a hash map. So a peer may choose identifiers that all have the same
//! place, but each then costs no more than an entry of a hash map.

use rustc_hash::FxHashMap;

/// Smallest number of places, a power of two.
const MIN_PLACES: usize = 4;
/// Memory of one identifier in a hash map, in bytes: 4 for the identifier, 4 for its slot, one for its tag, and its
/// part of the eighth of the map that always stays free.
const MAP_PLACE_BYTES: usize = 11;

/// Maps identifiers to slots. Invariant: each stream is either in `places`, at the index of its identifier, or in
/// `displaced`.
#[derive(Debug, Default)]
pub(crate) struct StreamIndex {
    /// The number of places is 0 or a power of two, and at least twice the number of streams.
    places: Vec<Place>,
    /// Allocated with the first stream whose place is taken.
    displaced: Option<Box<FxHashMap<u32, u32>>>,
    len: usize,
}

/// A stream; identifier 0 marks a free place.
#[derive(Debug, Default, Clone, Copy)]
struct Place {
    id: u32,
    slot: u32,
}

impl StreamIndex {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The allocated memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let displaced = self.displaced.as_ref().map_or(0, |displaced| displaced.capacity());
        let displaced = displaced.saturating_mul(MAP_PLACE_BYTES);
        self.places.capacity().saturating_mul(size_of::<Place>()).saturating_add(displaced)
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<u32> {
        match self.places.get(self.place_of(id)) {
            Some(place) if place.id == id && id != 0 => Some(place.slot),
            _ => self.displaced.as_ref()?.get(&id).copied(),
        }
    }

    /// Adds a stream that is not in the index. Its identifier is not 0.
    #[inline]
    pub(crate) fn insert(&mut self, id: u32, slot: u32) {
        self.len += 1;
        if self.len * 2 > self.places.len() {
            self.grow();
        }
        self.put(id, slot);
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        let at = self.place_of(id);
        match self.places.get_mut(at) {
            Some(place) if place.id == id && id != 0 => {
                *place = Place::default();
                self.len -= 1;
            }
            _ => {
                let displaced = self.displaced.as_mut().and_then(|displaced| displaced.remove(&id));
                self.len -= usize::from(displaced.is_some());
            }
        }
    }

    /// Returns the index of the identifier's place. Ignores the lowest bit: the identifiers of one peer are all odd or
    /// all even, so this bit seldom distinguishes two streams of a connection.
    #[inline]
    fn place_of(&self, id: u32) -> usize {
        (id >> 1) as usize & self.places.len().wrapping_sub(1)
    }

    fn put(&mut self, id: u32, slot: u32) {
        let at = self.place_of(id);
        match self.places.get_mut(at) {
            Some(place) if place.id == 0 => *place = Place { id, slot },
            _ => drop(self.displaced.get_or_insert_default().insert(id, slot)),
        }
    }

    #[cold]
    fn grow(&mut self) {
        let places = vec![Place::default(); (self.places.len() * 2).max(MIN_PLACES)];
        let placed = std::mem::replace(&mut self.places, places);
        let displaced = std::mem::take(&mut self.displaced);
        for place in placed.into_iter().filter(|place| place.id != 0) {
            self.put(place.id, place.slot);
        }
        for (id, slot) in displaced.into_iter().flat_map(|displaced| *displaced) {
            self.put(id, slot);
        }
    }
}

#[cfg(test)]
#[path = "stream_index_tests.rs"]
mod tests;
