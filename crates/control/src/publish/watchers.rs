//! The clients to notify of one subject, each with the name by which it subscribes.

use std::collections::BTreeMap;
use std::sync::Arc;

use leno_xds::Kind;

use super::subscribers::ClientId;

/// Maximum number of watchers that are kept in a list, instead of a map.
const FEW: usize = 8;

/// A client, and the name by which it subscribes to the subject.
pub(super) type Key = (ClientId, Arc<str>);

/// Subscriptions to one subject. A client may use many names for one subject, such as several spellings of a Service's
/// name, or several ports of a Pod.
#[derive(Debug)]
pub(super) enum Watchers {
    /// A list sorted by key. The list has no spare capacity, in order to save memory: clients may subscribe to many
    /// subjects that do not exist, and most of these subjects have only one client.
    Few(Vec<(Key, Kinds)>),
    /// A map: a sorted list would have to move all later watchers whenever a watcher is added or removed.
    Many(BTreeMap<Key, Kinds>),
}

/// The kinds of resources that a client subscribes to, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    fn with(self, kind: Kind) -> Self {
        Self(self.0 | Self::bit(kind))
    }

    fn without(self, kind: Kind) -> Self {
        Self(self.0 & !Self::bit(kind))
    }

    fn has(self, kind: Kind) -> bool {
        self.0 & Self::bit(kind) != 0
    }

    fn bit(kind: Kind) -> u8 {
        1 << kind.index()
    }
}

impl Default for Watchers {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Watchers {
    pub(super) fn add(&mut self, key: Key, kind: Kind) {
        if let Self::Few(few) = self
            && few.len() >= FEW
        {
            *self = Self::Many(std::mem::take(few).into_iter().collect());
        }
        match self {
            Self::Few(few) => match few.binary_search_by(|(other, _)| other.cmp(&key)) {
                Ok(place) => few.iter_mut().skip(place).take(1).for_each(|(_, kinds)| *kinds = kinds.with(kind)),
                Err(place) => {
                    few.reserve_exact(1);
                    few.insert(place, (key, Kinds::default().with(kind)));
                }
            },
            Self::Many(many) => {
                let kinds = many.entry(key).or_default();
                *kinds = kinds.with(kind);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &Key, kind: Kind) {
        match self {
            Self::Few(few) => few.retain_mut(|(other, kinds)| {
                if other == key {
                    *kinds = kinds.without(kind);
                }
                *kinds != Kinds::default()
            }),
            Self::Many(many) => {
                let Some(kinds) = many.get_mut(key) else { return };
                *kinds = kinds.without(kind);
                if *kinds == Kinds::default() {
                    many.remove(key);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(few) => few.is_empty(),
            Self::Many(many) => many.is_empty(),
        }
    }

    /// The watchers of a kind of resources, in order.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &Key> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten().map(|(key, kinds)| (key, *kinds));
        let many = many.into_iter().flatten().map(|(key, kinds)| (key, *kinds));
        few.chain(many).filter(move |(_, kinds)| kinds.has(kind)).map(|(key, _)| key)
    }
}

#[cfg(test)]
#[path = "watchers_tests.rs"]
mod tests;
