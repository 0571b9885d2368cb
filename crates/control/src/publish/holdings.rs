//! What one client has and wants of one kind of resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::catalog::Version;

/// What a client has and wants of one kind.
#[derive(Debug, Default)]
pub(super) struct KindState {
    /// Whether it has asked for anything of this kind.
    pub(super) is_known: bool,
    /// Whether it wants all there are.
    pub(super) wants_all: bool,
    pub(super) entries: BTreeMap<Arc<str>, Entry>,
    /// How many entries the client has named itself.
    pub(super) named: usize,
    /// What has to be looked at before anything is sent.
    pub(super) pending: BTreeSet<Arc<str>>,
    /// Whether an answer is owed even if nothing is there.
    pub(super) is_answer_due: bool,
    pub(super) last_nonce: Option<String>,
    pub(super) outstanding: Option<Outstanding>,
}

/// One resource of a client.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Whether it asked by name, not only for all.
    pub(super) is_named: bool,
    pub(super) sent: Sent,
    /// Whether it asked once more for what it was sent.
    pub(super) is_asked_again: bool,
    /// Boxed, since few are.
    pub(super) refused: Option<Box<Refused>>,
}

/// What the client was told of a resource last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sent {
    #[default]
    Nothing,
    Version(Version),
    Absent,
}

/// A version that the client did not take. It is not sent again; the next one is.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) version: Sent,
    pub(super) why: String,
}

/// A response that the client has not acknowledged.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) nonce: String,
    /// What was new in it.
    pub(super) names: Vec<Arc<str>>,
}
