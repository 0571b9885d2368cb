//! Usage: reports which answers of the control plane are in use, so that the proxy can forget all other answers. On
//! request, each worker reports the answers that its clients, its connections of unknown protocol, its clusters and its
//! open questions use. For a client, the worker records a use only when it looks up the target of a call.

use std::time::Instant;

use leno_model::discovery::Subject;
use leno_model::mesh::{ClusterKey, Mesh, canonical};
use rustc_hash::FxHashSet;

use crate::Relay;
use crate::downstream::client::{Client, ClientId};
use crate::downstream::origin::Door;
use crate::target::cluster::TargetKey;

/// The answers of the control plane that a worker uses. This list needs no limit of its own, because the worker's
/// connections, targets and questions are limited.
#[derive(Debug, Default)]
pub struct Usage {
    /// Subjects whose answers calls or connections use, or wait for.
    pub in_use: FxHashSet<Subject>,
    /// Subjects whose answers were used since the last report, with the time of the latest use.
    pub used: Vec<(Subject, Instant)>,
    /// The ports of Services to which calls are in flight.
    pub clusters: Vec<ClusterKey>,
}

impl Client {
    /// Returns the subject whose answer names the target of this client's calls. `None` for callers of our own
    /// application. Also `None` before the client's first call, if only the calls name a destination.
    pub(crate) fn subject(&self, mesh: &Mesh) -> Option<Subject> {
        if self.origin.door != Door::Outbound {
            return None;
        }
        match (self.target, &self.latest_target) {
            (Some(address), _) => Some(Subject::Address(canonical(address))),
            (None, Some(latest)) => mesh.subject(&latest.authority),
            (None, None) => None,
        }
    }
}

impl Relay {
    /// Records that a client looked up the target of its calls.
    pub(crate) fn note_use(&mut self, client: ClientId, authority: &[u8]) {
        if !self.questions.records_use(self.limits.relay.max_subjects as usize) {
            return;
        }
        let Some(client) = self.downstreams.get(client).filter(|client| client.origin.door == Door::Outbound) else {
            return;
        };
        let subject = match client.target {
            Some(address) => Some(Subject::Address(canonical(address))),
            None => self.targets.mesh().subject(authority),
        };
        if let Some(subject) = subject {
            self.questions.note_use(subject, self.now);
        }
    }

    /// Returns the subjects and clusters that calls use, or have used since the last report.
    pub fn report_usage(&mut self) -> Usage {
        let mut usage = Usage { in_use: self.questions.subjects().cloned().collect(), ..Usage::default() };
        for (_, client) in self.downstreams.iter() {
            let Some(subject) = client.subject(self.targets.mesh()) else { continue };
            if client.link.codec.stream_count() > 0 {
                usage.in_use.insert(subject);
            } else {
                usage.used.push((subject, client.idle_since.unwrap_or(self.now)));
            }
        }
        for (_, state) in self.targets.iter().filter(|(_, state)| state.calls() > 0) {
            match &state.target {
                TargetKey::Service(key) => usage.clusters.push(key.clone()),
                TargetKey::Address(address) => drop(usage.in_use.insert(Subject::Address(*address))),
                TargetKey::Local(_) => {}
            }
        }
        usage.used.extend(self.questions.take_used());
        usage
    }
}
