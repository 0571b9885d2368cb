//! One client's subscriptions to one kind of resources, and what it was sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::catalog::Version;
use super::limits::REASONS_MAX;

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
    /// Why the client rejected its latest rejected responses, by their numbers.
    reasons: VecDeque<(u64, String)>,
}

impl KindState {
    /// Keeps the reason for a rejected response, in place of the oldest one.
    pub(super) fn keep_reason(&mut self, response: u64, why: String) {
        self.reasons.truncate(REASONS_MAX - 1);
        self.reasons.push_front((response, why));
    }

    /// Why the client rejected a response; `None` if that is not kept.
    pub(super) fn reason(&self, response: u64) -> Option<&str> {
        self.reasons.iter().find(|(number, _)| *number == response).map(|(_, why)| why.as_str())
    }
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
    /// The client says that another stream sent it this version.
    Claimed(Version),
    Absent,
}

/// A version that the client rejected. It is not sent again; the next version is.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) version: Sent,
    /// The number of the response, for [`KindState::reason`]. A reason for each resource would double its memory.
    pub(super) response: u64,
}

/// A response that waits for its acknowledgement.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) number: u64,
    pub(super) nonce: String,
    /// The resources that were new in it.
    pub(super) names: Vec<Arc<str>>,
}
