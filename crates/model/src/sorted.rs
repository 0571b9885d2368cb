//! A sorted list that is cheap to copy and to change. It consists of blocks; a list and its copy share each block until
//! one of them changes the block.
//!
//! Invariants: no block is empty, no block is longer than `BLOCK_MAX`, and two neighbors that would fit into half a
//! block are merged. So a list of n elements has at most about n / 16 blocks; a change copies one block and the list of
//! blocks.

use std::cmp::Ordering;
use std::ops::Index;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Maximum number of elements in a block. Larger blocks cost more to copy; smaller blocks make the list of blocks
/// longer.
const BLOCK_MAX: usize = 64;

/// A sorted list. The caller defines the order: each lookup takes a function that compares an element with the wanted
/// element.
#[derive(Clone, Debug)]
pub struct SortedList<T> {
    blocks: Arc<Vec<Arc<Vec<T>>>>,
    len: usize,
}

/// The position of an element, or the position at which to insert it.
#[derive(Clone, Copy, Debug)]
struct Place {
    block: usize,
    element: usize,
}

impl<T: Clone> SortedList<T> {
    /// Creates a list from sorted and unique elements.
    pub fn of_sorted(elements: Vec<T>) -> Self {
        let len = elements.len();
        let mut elements = elements.into_iter();
        let blocks = std::iter::from_fn(|| {
            let block: Vec<T> = elements.by_ref().take(BLOCK_MAX).collect();
            (!block.is_empty()).then(|| Arc::new(block))
        });
        Self { blocks: Arc::new(blocks.collect()), len }
    }

    /// Replaces the element for which `order` returns `Equal` by `value`, or inserts `value` if there is no such
    /// element. `None` removes the element. Returns the previous element.
    pub fn set(&mut self, order: impl Fn(&T) -> Ordering, value: Option<T>) -> Option<T> {
        match (self.place(order), value) {
            (Ok(place), Some(value)) => {
                let block = Arc::make_mut(Arc::make_mut(&mut self.blocks).get_mut(place.block)?);
                block.get_mut(place.element).map(|element| std::mem::replace(element, value))
            }
            (Ok(place), None) => Some(self.remove(place)),
            (Err(place), Some(value)) => {
                self.insert(place, value);
                None
            }
            (Err(_), None) => None,
        }
    }

    /// A copy of every element, in order.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().cloned().collect()
    }

    /// Gives mutable access to every element; the caller must keep the order. First copies each block that other lists
    /// share.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        Arc::make_mut(&mut self.blocks).iter_mut().flat_map(|block| Arc::make_mut(block).iter_mut())
    }

    fn insert(&mut self, place: Place, value: T) {
        let blocks = Arc::make_mut(&mut self.blocks);
        self.len += 1;
        let Some(block) = blocks.get_mut(place.block) else { return blocks.push(Arc::new(vec![value])) };
        let block = Arc::make_mut(block);
        block.insert(place.element, value);
        if block.len() > BLOCK_MAX {
            let upper = block.split_off(BLOCK_MAX / 2);
            blocks.insert(place.block + 1, Arc::new(upper));
        }
    }

    fn remove(&mut self, place: Place) -> T {
        let blocks = Arc::make_mut(&mut self.blocks);
        self.len -= 1;
        let removed = Arc::make_mut(&mut blocks[place.block]).remove(place.element);
        if blocks[place.block].is_empty() {
            blocks.remove(place.block);
        } else {
            join_with_next(blocks, place.block);
        }
        if let Some(before) = place.block.checked_sub(1) {
            join_with_next(blocks, before);
        }
        removed
    }
}

/// Merges the block at `first` with the next block if both together fit into half a block.
fn join_with_next<T: Clone>(blocks: &mut Vec<Arc<Vec<T>>>, first: usize) {
    let len = |place: usize| blocks.get(place).map(|block| block.len());
    if let (Some(a), Some(b)) = (len(first), len(first + 1))
        && a + b <= BLOCK_MAX / 2
    {
        let next = blocks.remove(first + 1);
        Arc::make_mut(&mut blocks[first]).extend(next.iter().cloned());
    }
}

impl<T> SortedList<T> {
    /// Returns the element for which `order` returns `Equal`.
    pub fn find(&self, order: impl Fn(&T) -> Ordering) -> Option<&T> {
        let place = self.place(order).ok()?;
        self.blocks.get(place.block)?.get(place.element)
    }

    /// Iterates over the elements from the first element for which `before` is false.
    pub fn from(&self, before: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
        let first = self.blocks.partition_point(|block| block.last().is_some_and(&before));
        let inside = self.blocks.get(first).map_or(0, |block| block.partition_point(&before));
        let from_first = self.blocks.get(first..).unwrap_or_default();
        from_first.iter().flat_map(|block| block.iter()).skip(inside)
    }

    /// Every element, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn place(&self, order: impl Fn(&T) -> Ordering) -> Result<Place, Place> {
        let block = self.blocks.partition_point(|block| block.last().is_some_and(|last| order(last).is_lt()));
        let Some(elements) = self.blocks.get(block) else {
            // Every element is smaller than the wanted element: return the end of the last block, or of a new first
            // block.
            let block = self.blocks.len().saturating_sub(1);
            return Err(Place { block, element: self.blocks.get(block).map_or(0, |last| last.len()) });
        };
        match elements.binary_search_by(order) {
            Ok(element) => Ok(Place { block, element }),
            Err(element) => Err(Place { block, element }),
        }
    }
}

impl<T> Index<usize> for SortedList<T> {
    type Output = T;

    /// Returns the element at an index from 0. Takes time linear in the number of blocks.
    ///
    /// # Panics
    /// If the index is out of range.
    fn index(&self, place: usize) -> &T {
        self.iter().nth(place).expect("a place within the list")
    }
}

impl<T: PartialEq> PartialEq for SortedList<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<'a, T> IntoIterator for &'a SortedList<T> {
    type Item = &'a T;
    type IntoIter = std::iter::FlatMap<
        std::slice::Iter<'a, Arc<Vec<T>>>,
        std::slice::Iter<'a, T>,
        fn(&'a Arc<Vec<T>>) -> std::slice::Iter<'a, T>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        fn elements<T>(block: &Arc<Vec<T>>) -> std::slice::Iter<'_, T> {
            block.iter()
        }
        self.blocks.iter().flat_map(elements as fn(&'a Arc<Vec<T>>) -> std::slice::Iter<'a, T>)
    }
}

impl<T: Serialize> Serialize for SortedList<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

#[cfg(test)]
#[path = "sorted_tests.rs"]
mod tests;
