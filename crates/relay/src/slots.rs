//! Slots: a table whose entries have typed ids. The ids are generational: the id of a removed entry never finds the
//! entry that now has the same place (index in the table).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// Number of bits of a serial number. A serial number, a place (32 bits) and two bits for the kind of the entry fit
/// into one poll token.
const SERIAL_BITS: u32 = 29;
const MAX_SERIAL: u32 = (1 << SERIAL_BITS) - 1;

/// Identifies an entry of a [`Slots<T>`].
///
/// The table uses the place of a removed entry again. It uses a serial number again only after 2^29 - 1 further
/// entries. Even on a busy worker, this takes hours. By then, no queue holds the old id any more.
pub struct Id<T> {
    place: u32,
    serial: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    fn new(place: u32, serial: NonZeroU32) -> Self {
        Self { place, serial, of: PhantomData }
    }

    /// Returns the entry's place, which is its index in the table. A place is less than the largest number of entries
    /// that the table has had at once.
    pub fn place(self) -> u32 {
        self.place
    }

    /// Returns the id as a number of 61 bits, which is never 0.
    pub fn to_bits(self) -> u64 {
        u64::from(self.place) << SERIAL_BITS | u64::from(self.serial.get())
    }

    /// Returns the id with this number; `None` if no id has it.
    pub fn of_bits(bits: u64) -> Option<Self> {
        let serial = NonZeroU32::new(bits as u32 & MAX_SERIAL)?;
        Some(Self::new(u32::try_from(bits >> SERIAL_BITS).ok()?, serial))
    }

    /// Returns the same id with the entry type `U`. Only valid if both types stand for the entries of the same table.
    pub fn cast<U>(self) -> Id<U> {
        Id::new(self.place, self.serial)
    }

    /// Returns an id for tests that need no entry: equal numbers make equal ids.
    pub fn numbered(number: u32) -> Self {
        Self::new(number, NonZeroU32::MIN)
    }
}

// These traits are not derived: derived implementations would require that `T` has the same traits.

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place && self.serial == other.serial
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.to_bits().cmp(&other.to_bits())
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.to_bits());
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.place, self.serial)
    }
}

#[derive(Debug)]
struct Entry<T> {
    serial: NonZeroU32,
    /// The entry's value; `None` after the entry was removed.
    value: Option<T>,
}

/// A table of values. It grows as needed and reuses the places of removed entries.
///
/// Calls are large and end often. So [`Slots::discard`] drops an entry where it is; the crate `slab` would move the
/// entry out first.
///
/// Invariant: `free` has the places of the entries without a value.
#[derive(Debug)]
pub struct Slots<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    /// The serial number of the next entry.
    next: NonZeroU32,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), next: NonZeroU32::MIN }
    }
}

impl<T> Slots<T> {
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entry with this id; `None` if the entry was removed, or if `id` is `None`.
    #[inline]
    pub fn get(&self, id: impl Into<Option<Id<T>>>) -> Option<&T> {
        let id = id.into()?;
        let entry = self.entries.get(id.place as usize)?;
        if entry.serial == id.serial { entry.value.as_ref() } else { None }
    }

    /// Returns the entry with this id, to be changed; `None` if the entry was removed, or if `id` is `None`.
    #[inline]
    pub fn get_mut(&mut self, id: impl Into<Option<Id<T>>>) -> Option<&mut T> {
        let id = id.into()?;
        let entry = self.entries.get_mut(id.place as usize)?;
        if entry.serial == id.serial { entry.value.as_mut() } else { None }
    }

    /// Returns the current entry at a place, with its id; `None` if the place is empty.
    #[inline]
    pub fn at_mut(&mut self, place: u32) -> Option<(Id<T>, &mut T)> {
        let entry = self.entries.get_mut(place as usize)?;
        let id = Id::new(place, entry.serial);
        entry.value.as_mut().map(|value| (id, value))
    }

    pub fn contains(&self, id: Id<T>) -> bool {
        self.get(id).is_some()
    }

    #[inline]
    pub fn insert(&mut self, value: T) -> Id<T> {
        let serial = self.next;
        self.next = NonZeroU32::new(serial.get() % MAX_SERIAL + 1).unwrap_or(NonZeroU32::MIN);
        if let Some(place) = self.free.pop()
            && let Some(entry) = self.entries.get_mut(place as usize)
        {
            entry.serial = serial;
            entry.value = Some(value);
            return Id::new(place, serial);
        }
        // A worker has far fewer than 2^32 entries: its limits of connections and calls are 32-bit numbers.
        let place = self.entries.len() as u32;
        self.entries.push(Entry { serial, value: Some(value) });
        Id::new(place, serial)
    }

    /// Removes an entry and returns it; `None` if it was removed before.
    #[inline]
    pub fn remove(&mut self, id: Id<T>) -> Option<T> {
        let entry = self.entries.get_mut(id.place as usize)?;
        let value = if entry.serial == id.serial { entry.value.take() } else { None };
        if value.is_some() {
            self.free.push(id.place);
        }
        value
    }

    /// Removes an entry and drops it. Does nothing if it was removed before.
    #[inline]
    pub fn discard(&mut self, id: Id<T>) {
        let Some(entry) = self.entries.get_mut(id.place as usize) else { return };
        if entry.serial == id.serial && entry.value.is_some() {
            entry.value = None;
            self.free.push(id.place);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        let places = self.entries.iter().zip(0..);
        places.filter_map(|(entry, place)| entry.value.as_ref().map(|value| (Id::new(place, entry.serial), value)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Id<T>, &mut T)> {
        let places = self.entries.iter_mut().zip(0..);
        places.filter_map(|(entry, place)| entry.value.as_mut().map(|value| (Id::new(place, entry.serial), value)))
    }

    /// Frees memory that the table needed only for a larger number of entries.
    pub fn shrink_to_fit(&mut self) {
        while self.entries.pop_if(|entry| entry.value.is_none()).is_some() {}
        let places = self.entries.len() as u32;
        self.free.retain(|&place| place < places);
        self.entries.shrink_to_fit();
        self.free.shrink_to_fit();
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
