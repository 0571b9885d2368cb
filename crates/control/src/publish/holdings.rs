//! One client's subscriptions to one kind of resources, and the versions that we sent to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::limits::REASONS_MAX;
use super::version::Version;

#[derive(Debug, Default)]
pub(super) struct KindState {
    /// Whether the client has sent a request for this kind.
    pub(super) is_known: bool,
    /// Whether the client subscribes to all resources of this kind.
    pub(super) wants_all: bool,
    /// The names to which the client subscribes, or that it gets because it subscribes to all resources. Each entry
    /// counts against the limits on subscriptions.
    pub(super) entries: BTreeMap<Arc<str>, Entry>,
    /// Number of entries that the client subscribes to by name.
    pub(super) named: usize,
    /// Names whose resources may have changed. The next response checks them.
    pub(super) pending: BTreeSet<Arc<str>>,
    /// Names of removed resources whose removal we have not sent yet, since the client may still have a listener or
    /// route that refers to them. We do not check these names again until we may send the removal, or until another
    /// complete list is due. Otherwise a client that delays the removal for ever would cause endless checks.
    pub(super) held_back: BTreeSet<Arc<str>>,
    /// Whether the client must get a response even if it is empty.
    pub(super) is_answer_due: bool,
    pub(super) last_nonce: Option<String>,
    pub(super) outstanding: Option<Outstanding>,
    /// The client's reasons for rejecting responses, each with the response's number, the latest first.
    reasons: VecDeque<(u64, String)>,
}

impl KindState {
    /// Keeps the reason for a rejected response. If there are [`REASONS_MAX`] reasons already, drops the oldest reason.
    pub(super) fn keep_reason(&mut self, response: u64, why: String) {
        self.reasons.truncate(REASONS_MAX - 1);
        self.reasons.push_front((response, why));
    }

    /// Returns why the client rejected a response; `None` if the reason is not kept.
    pub(super) fn reason(&self, response: u64) -> Option<&str> {
        self.reasons.iter().find(|(number, _)| *number == response).map(|(_, why)| why.as_str())
    }
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Whether the client subscribes to this name, not only to all resources.
    pub(super) is_named: bool,
    pub(super) sent: Sent,
    /// Whether the client has subscribed again since we last sent it the resource. We then send the resource even if it
    /// has not changed.
    pub(super) is_asked_again: bool,
    /// Only for a Cluster of Envoy: whether we sent a new version of the Cluster, and have not sent the Cluster's
    /// endpoints since.
    pub(super) lacks_endpoints: bool,
    /// The version that the client rejected. Boxed, since few entries have one.
    pub(super) refused: Option<Box<Refused>>,
}

/// The state of a resource that we last sent to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sent {
    #[default]
    Nothing,
    Version(Version),
    /// The client claims that an earlier stream sent it this version.
    Claimed(Version),
    Absent,
}

/// A version that the client rejected. This version is not sent again, but the next version is sent.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) version: Sent,
    /// The number of the response, for [`KindState::reason`]. A copy of the reason for each resource would double the
    /// memory of an entry.
    pub(super) response: u64,
}

/// A response that waits for its acknowledgement.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) number: u64,
    pub(super) nonce: String,
    /// The names of the resources that are new or removed in the response.
    pub(super) names: Vec<Arc<str>>,
}
