//! Usage: which answers of the control plane calls use, so that the others can be forgotten. Reported when asked for, from what
//! clients, calls and clusters show; a call itself notes nothing.

use std::time::Instant;

use leno_model::discovery::Subject;
use leno_model::mesh::{ClusterKey, Mesh, canonical};
use rustc_hash::FxHashSet;

use super::Worker;
use super::accept::Door;
use super::client::Client;
use super::cluster::TargetKey;

/// What a worker uses; bounded by its clients, arrivals, targets and questions.
#[derive(Debug, Default)]
pub struct Usage {
    /// Questions whose answers calls or connections are using, or wait for.
    pub in_use: FxHashSet<Subject>,
    /// Questions whose answers were used since the last report, and when.
    pub used: Vec<(Subject, Instant)>,
    /// Services' ports with calls in flight, whatever question led there.
    pub clusters: Vec<ClusterKey>,
}

impl Client {
    /// The question by whose answer it is known what this client's latest call was for; none for callers of the own
    /// application, or before its first call.
    pub(super) fn subject(&self, mesh: &Mesh) -> Option<Subject> {
        if self.origin.door != Door::Outbound {
            return None;
        }
        match (self.target, &self.latest_route) {
            (Some(address), _) => Some(Subject::Address(canonical(address))),
            (None, Some(latest)) => mesh.subject(&latest.authority),
            (None, None) => None,
        }
    }
}

impl Worker {
    /// Notes that a client looked up what its calls are for.
    pub(super) fn note_use(&mut self, client: usize, authority: &[u8]) {
        // Without a control plane nothing is forgotten. Beyond the limit the oldest would be forgotten anyway.
        if self.discovery.is_none() || self.used.len() >= self.limits.relay.max_subjects as usize {
            return;
        }
        let Some(client) = self.clients.get(client).filter(|client| client.origin.door == Door::Outbound) else {
            return;
        };
        let subject = match client.target {
            Some(address) => Some(Subject::Address(canonical(address))),
            None => self.mesh.subject(authority),
        };
        if let Some(subject) = subject {
            self.used.insert(subject, self.now);
        }
    }

    /// What calls use, and have used since the last report.
    pub(super) fn report_usage(&mut self) -> Usage {
        let mut usage = Usage { in_use: self.questions.keys().cloned().collect(), ..Usage::default() };
        for (_, client) in &self.clients {
            let Some(subject) = client.subject(&self.mesh) else { continue };
            if client.link.codec.stream_count() > 0 {
                usage.in_use.insert(subject);
            } else {
                usage.used.push((subject, client.idle_since.unwrap_or(self.now)));
            }
        }
        for (_, arrival) in &self.arrivals {
            if let (Door::Outbound, Some(address)) = (arrival.origin.door, arrival.origin.original_destination) {
                usage.in_use.insert(Subject::Address(address));
            }
        }
        for (_, state) in self.clusters.iter().filter(|(_, state)| state.calls > 0) {
            match &state.target {
                TargetKey::Service(key) => usage.clusters.push(key.clone()),
                TargetKey::Address(address) => drop(usage.in_use.insert(Subject::Address(*address))),
                TargetKey::Local(_) => {}
            }
        }
        usage.used.extend(std::mem::take(&mut self.used));
        usage
    }
}
