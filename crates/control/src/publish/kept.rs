//! The written resources that are kept for all clients, within a budget. Above the budget, the least recently used ones
//! are dropped: the next request writes them again.
//!
//! Each operation on one resource takes O(log n).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use leno_wire::Kind;

use super::catalog::{Readers, Written};
use super::limits::KEPT_BYTES;
use super::subject::Subject;

pub(super) type Place = (Kind, Subject);

#[derive(Debug)]
pub(super) struct Kept {
    max_bytes: usize,
    bytes: usize,
    /// The number of the latest use. Each use has another number.
    uses: u64,
    places: HashMap<Place, HashMap<Readers, Form>>,
    /// All forms by their latest use.
    order: BTreeMap<u64, (Place, Readers)>,
}

/// A resource as it was written for readers with equal properties.
#[derive(Debug)]
struct Form {
    /// `None` stands for a resource that is too large to be sent. It is kept, since finding that out costs the most.
    written: Option<Arc<Written>>,
    /// The number of its latest use.
    used: u64,
}

impl Form {
    fn bytes(&self) -> usize {
        size(self.written.as_deref())
    }
}

fn size(written: Option<&Written>) -> usize {
    KEPT_BYTES + written.map_or(0, |written| written.any.value.len())
}

impl Kept {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, uses: 0, places: HashMap::new(), order: BTreeMap::new() }
    }

    /// Returns a kept resource, and counts that as a use. The inner `None` stands for a resource that is too large.
    pub(super) fn get(&mut self, place: &Place, readers: &Readers) -> Option<Option<Arc<Written>>> {
        let form = self.places.get_mut(place)?.get_mut(readers)?;
        self.uses += 1;
        if let Some(key) = self.order.remove(&form.used) {
            self.order.insert(self.uses, key);
        }
        form.used = self.uses;
        Some(form.written.clone())
    }

    /// Keeps a resource, unless it alone exceeds the budget.
    pub(super) fn keep(&mut self, place: Place, readers: Readers, written: Option<Arc<Written>>) {
        self.remove(&place, &readers);
        if size(written.as_deref()) > self.max_bytes {
            return;
        }
        self.uses += 1;
        let form = Form { written, used: self.uses };
        self.bytes += form.bytes();
        self.order.insert(form.used, (place.clone(), readers.clone()));
        self.places.entry(place).or_default().insert(readers, form);
        while self.bytes > self.max_bytes
            && let Some((_, (place, readers))) = self.order.pop_first()
        {
            self.remove(&place, &readers);
        }
    }

    /// Drops all forms of a resource that has changed.
    pub(super) fn remove_all(&mut self, place: &Place) {
        self.retain(place, |_| false);
    }

    /// Drops the resources of a subject without subscribers. The mark that a resource is too large stays until the
    /// resource changes: without it, each new subscription would write the resource again.
    pub(super) fn forget(&mut self, subject: &Subject) {
        for kind in Kind::ALL {
            self.retain(&(kind, subject.clone()), |form| form.written.is_none());
        }
        if self.places.len() < self.places.capacity() / 4 {
            self.places.shrink_to_fit();
        }
    }

    /// How many versions of a subject's resource of a kind are kept for different readers.
    #[cfg(test)]
    pub(super) fn forms(&self, place: &Place) -> usize {
        self.places.get(place).map_or(0, HashMap::len)
    }

    fn remove(&mut self, place: &Place, readers: &Readers) {
        let Some(forms) = self.places.get_mut(place) else { return };
        if let Some(form) = forms.remove(readers) {
            self.bytes -= form.bytes();
            self.order.remove(&form.used);
        }
        if forms.is_empty() {
            self.places.remove(place);
        }
    }

    fn retain(&mut self, place: &Place, stays: impl Fn(&Form) -> bool) {
        let Some(forms) = self.places.get_mut(place) else { return };
        forms.retain(|_, form| {
            let stays = stays(form);
            if !stays {
                self.bytes -= form.bytes();
                self.order.remove(&form.used);
            }
            stays
        });
        if forms.is_empty() {
            self.places.remove(place);
        }
    }
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
