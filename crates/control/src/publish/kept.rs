//! Keeps encoded resources for all clients, within a memory budget. Above the budget, the least recently used resources
//! are dropped. The next request for a dropped resource encodes it again.
//!
//! A resource that has changed stays until its new version is encoded. If the new version is too large to be sent, the
//! last version stays in force. This last version cannot be encoded again, so it is not dropped to make room.
//!
//! Each operation on one resource takes O(log n).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use leno_xds::Kind;

use super::catalog::{Found, Readers, Written};
use super::limits::KEPT_BYTES;
use super::subject::Subject;

pub(super) type Place = (Kind, Subject);

#[derive(Debug)]
pub(super) struct Kept {
    max_bytes: usize,
    bytes: usize,
    /// Bytes of kept versions whose resource has since become too large: at most half of the budget.
    last_bytes: usize,
    /// The number of the latest use. Uses are numbered in sequence.
    uses: u64,
    places: HashMap<Place, HashMap<Readers, Form>>,
    /// The forms ([`Form`]) that may be dropped to make room, by their latest use.
    order: BTreeMap<u64, (Place, Readers)>,
}

/// A resource as it was encoded for readers with equal properties.
#[derive(Debug)]
pub(super) struct Form {
    /// The last version that was not too large; `None` if no such version is kept.
    written: Option<Arc<Written>>,
    /// Whether the resource has not changed since it was last encoded.
    is_current: bool,
    /// Whether the resource was too large when it was last encoded. Without this mark, we would have to encode the
    /// large resource again to find out.
    is_too_large: bool,
    /// The number of the latest use of this form.
    used: u64,
}

impl Form {
    fn bytes(&self) -> usize {
        KEPT_BYTES + self.written.as_ref().map_or(0, |written| written.any.value.len())
    }

    /// Whether the form keeps an earlier version because the current version is too large.
    fn is_last(&self) -> bool {
        self.is_too_large && self.written.is_some()
    }

    fn found(&self) -> Found {
        match &self.written {
            Some(written) => Found::Resource(written.clone()),
            None => Found::TooLarge,
        }
    }
}

impl Kept {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, last_bytes: 0, uses: 0, places: HashMap::new(), order: BTreeMap::new() }
    }

    /// Returns the answer to a request for a resource, and counts the request as a use. Returns `None` if the resource
    /// must be encoded first.
    pub(super) fn get(&mut self, place: &Place, readers: &Readers) -> Option<Found> {
        let form = self.places.get_mut(place)?.get_mut(readers).filter(|form| form.is_current)?;
        if let Some(key) = self.order.remove(&form.used) {
            self.uses += 1;
            form.used = self.uses;
            self.order.insert(form.used, key);
        }
        Some(form.found())
    }

    /// Returns the last version that was not too large, even if the resource has changed since.
    pub(super) fn last(&self, place: &Place, readers: &Readers) -> Option<Arc<Written>> {
        self.places.get(place)?.get(readers)?.written.clone()
    }

    /// Keeps a resource that was encoded, unless it alone exceeds the budget.
    pub(super) fn keep(&mut self, place: Place, readers: Readers, written: Arc<Written>) {
        self.remove(&place, &readers);
        self.insert(place, readers, Form { written: Some(written), is_current: true, is_too_large: false, used: 0 });
    }

    /// Marks a resource as too large, and keeps its last version that was not too large, if there is one. Returns
    /// `false` if the resource has this mark already, for these or for other readers of the same service account. Only
    /// `inbound` depends on the service account: its content differs from account to account.
    pub(super) fn mark_too_large(&mut self, place: Place, readers: Readers) -> bool {
        let account = &readers.audience.service_account;
        let mut forms = self.places.get(&place).into_iter().flatten();
        let is_news = !forms.any(|(other, form)| form.is_too_large && other.audience.service_account == *account);
        let written = self.remove(&place, &readers).and_then(|form| form.written);
        self.insert(place, readers, Form { written, is_current: true, is_too_large: true, used: 0 });
        is_news
    }

    /// Records that a resource has changed: it must be encoded again.
    pub(super) fn outdate(&mut self, place: &Place) {
        self.places.get_mut(place).into_iter().flatten().for_each(|(_, form)| form.is_current = false);
    }

    /// Drops a resource that no longer exists.
    pub(super) fn remove_all(&mut self, place: &Place) {
        for form in self.places.remove(place).into_iter().flatten().map(|(_, form)| form) {
            self.uncount(&form);
        }
    }

    /// Drops the resources of a subject without subscribers. The mark that a resource is too large stays until the
    /// resource changes: without it, each new subscription would encode the resource again.
    pub(super) fn forget(&mut self, subject: &Subject) {
        for place in Kind::ALL.map(|kind| (kind, subject.clone())) {
            for (readers, form) in self.places.remove(&place).into_iter().flatten() {
                self.uncount(&form);
                if form.is_too_large && form.is_current {
                    self.insert(place.clone(), readers, Form { written: None, ..form });
                }
            }
        }
        if self.places.len() < self.places.capacity() / 4 {
            self.places.shrink_to_fit();
        }
    }

    /// Drops the form in which a resource is kept for these readers.
    pub(super) fn remove(&mut self, place: &Place, readers: &Readers) -> Option<Form> {
        let forms = self.places.get_mut(place)?;
        let form = forms.remove(readers);
        if forms.is_empty() {
            self.places.remove(place);
        }
        form.inspect(|form| self.uncount(form))
    }

    /// Returns in how many forms this resource is kept. Clients with equal [`Readers`] properties share one form.
    #[cfg(test)]
    pub(super) fn forms(&self, place: &Place) -> usize {
        self.places.get(place).map_or(0, HashMap::len)
    }

    /// Adds a form for readers that have no form yet, and drops other forms to make room.
    fn insert(&mut self, place: Place, readers: Readers, mut form: Form) {
        if form.is_last() && self.last_bytes + form.bytes() > self.max_bytes / 2 {
            form.written = None;
        }
        if self.last_bytes + form.bytes() > self.max_bytes {
            return;
        }
        self.uses += 1;
        form.used = self.uses;
        self.bytes += form.bytes();
        if form.is_last() {
            self.last_bytes += form.bytes();
        } else {
            self.order.insert(form.used, (place.clone(), readers.clone()));
        }
        self.places.entry(place).or_default().insert(readers, form);
        while self.bytes > self.max_bytes
            && let Some((_, (place, readers))) = self.order.pop_first()
        {
            self.remove(&place, &readers);
        }
    }

    fn uncount(&mut self, form: &Form) {
        self.bytes -= form.bytes();
        if form.is_last() {
            self.last_bytes -= form.bytes();
        }
        self.order.remove(&form.used);
    }
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
