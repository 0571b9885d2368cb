//! Changes of subscriptions since the last request.

use std::collections::BTreeMap;

use leno_xds::Kind;

/// Names to subscribe to and to unsubscribe from, by kind.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    by_kind: [BTreeMap<String, Wish>; Kind::ALL.len()],
}

/// The change for one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Subscribe,
    Unsubscribe,
}

impl Wishes {
    /// Records a change, which replaces an earlier change of the same name. If a name is dropped and then wanted again,
    /// we subscribe to it again: we forgot its resource meanwhile, so the control plane must send it again.
    pub(super) fn note(&mut self, kind: Kind, name: String, wish: Wish) {
        if let Some(wishes) = self.by_kind.get_mut(kind.index()) {
            wishes.insert(name, wish);
        }
    }

    /// Takes all changes of a kind: names to subscribe to, and names to unsubscribe from.
    pub(super) fn take(&mut self, kind: Kind) -> (Vec<String>, Vec<String>) {
        let wishes = self.by_kind.get_mut(kind.index()).map(std::mem::take).unwrap_or_default();
        let (subscribe, unsubscribe): (Vec<_>, Vec<_>) =
            wishes.into_iter().partition(|(_, wish)| *wish == Wish::Subscribe);
        let names = |wishes: Vec<(String, Wish)>| wishes.into_iter().map(|(name, _)| name).collect();
        (names(subscribe), names(unsubscribe))
    }
}
