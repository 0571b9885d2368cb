//! One client's subscriptions to one kind of resources, and what it was sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::catalog::Version;

#[derive(Debug, Default)]
pub(super) struct KindState {
    /// Whether the client has sent a request for this kind.
    pub(super) is_known: bool,
    /// Whether it subscribes to all resources.
    pub(super) wants_all: bool,
    pub(super) entries: BTreeMap<Arc<str>, Entry>,
    /// How many entries it subscribes to by name.
    pub(super) named: usize,
    /// Names to check before the next response.
    pub(super) pending: BTreeSet<Arc<str>>,
    /// Names whose resources are gone, which the client hears when it has no listener or route any more that leads there. They
    /// are not looked at before: a client could hold them back for ever.
    pub(super) held_back: BTreeSet<Arc<str>>,
    /// Whether the client must get a response even if it is empty.
    pub(super) is_answer_due: bool,
    pub(super) last_nonce: Option<String>,
    pub(super) outstanding: Option<Outstanding>,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Whether the client subscribes by name, not only to all.
    pub(super) is_named: bool,
    pub(super) sent: Sent,
    /// Whether it has subscribed again to a resource that it was sent before.
    pub(super) is_asked_again: bool,
    /// Boxed, since few entries have one.
    pub(super) refused: Option<Box<Refused>>,
}

/// What the client was last sent about a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sent {
    #[default]
    Nothing,
    Version(Version),
    Absent,
}

/// A version that the client rejected. It is not sent again; the next version is.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) version: Sent,
    pub(super) why: String,
}

/// A response that waits for its acknowledgement.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) nonce: String,
    /// The resources that were new in it.
    pub(super) names: Vec<Arc<str>>,
}
