//! The questions about addresses outside of the cluster networks. If the control plane cannot be reached to answer such
//! a question, the address is probably outside of the mesh, for example a payment API. The proxy then assumes that it
//! is, so that connections to it do not fail.
//!
//! This module only decides when a question has waited long enough. Uses no sockets and no clock.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leno_model::discovery::Subject;
use leno_model::policy::Network;

use super::QUESTIONS_MAX;

/// Time without a stream after which questions wait no longer. It leaves time for three attempts to connect again after
/// the end of a good stream, so that the restart of one replica of the control plane normally leads to no assumption.
const AWAY_AFTER: Duration = Duration::from_secs(2);
/// Share of `discovery_timeout_ms`, in percent, for which a question waits for an answer if there is a stream. The stream
/// may be dead: the proxy notices this only after a PING without an answer. The share must be below nine tenths, after
/// which workers read the connections that wait for an answer.
const ANSWER_PERCENT: u32 = 80;

/// The questions about addresses outside of the cluster networks that may have no answer yet.
#[derive(Debug)]
pub(super) struct Outside {
    cluster_networks: Vec<Network>,
    /// Time for which a question waits if there is a stream.
    answer_max: Duration,
    /// Since when there is no stream; `None` while there is a stream.
    away_since: Option<Instant>,
    /// The addresses, each with the time of its question, the oldest question first. The control plane may have answered
    /// some of them. At most [`QUESTIONS_MAX`]; further questions are not listed, and their calls fail without an answer.
    waiting: VecDeque<(SocketAddr, Instant)>,
    /// Whether the proxy has made an assumption since the last stream began.
    has_assumed: bool,
}

impl Outside {
    /// Creates an empty list at the time `now`, at which there is no stream.
    pub(super) fn new(cluster_networks: Vec<Network>, discovery_timeout: Duration, now: Instant) -> Self {
        Self {
            cluster_networks,
            answer_max: discovery_timeout * ANSWER_PERCENT / 100,
            away_since: Some(now),
            waiting: VecDeque::new(),
            has_assumed: false,
        }
    }

    /// Records that a stream has begun.
    pub(super) fn note_stream(&mut self) {
        self.away_since = None;
        self.has_assumed = false;
    }

    /// Records that there is no stream, because the stream has ended or an attempt to open one has failed.
    pub(super) fn note_end_of_stream(&mut self, now: Instant) {
        self.away_since.get_or_insert(now);
    }

    /// Records a question, if its subject is an address outside of the cluster networks.
    pub(super) fn note_question(&mut self, subject: &Subject, now: Instant) {
        let Subject::Address(address) = subject else { return };
        let is_inside = self.cluster_networks.iter().any(|network| network.contains(address.ip()));
        if !is_inside && self.waiting.len() < QUESTIONS_MAX {
            self.waiting.push_back((*address, now));
        }
    }

    /// Returns when the oldest question has waited long enough; `None` if there are no questions.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, since)| self.due_of(*since))
    }

    /// Removes the questions that have waited long enough, and returns their addresses.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<SocketAddr> {
        let due = self.waiting.iter().take_while(|(_, since)| self.due_of(*since) <= now).count();
        self.waiting.drain(..due).map(|(address, _)| address).collect()
    }

    /// Returns whether this is the first assumption since the last stream began.
    pub(super) fn begins_to_assume(&mut self) -> bool {
        !std::mem::replace(&mut self.has_assumed, true)
    }

    fn due_of(&self, since: Instant) -> Instant {
        let unanswered = since + self.answer_max;
        self.away_since.map_or(unanswered, |away_since| unanswered.min(away_since + AWAY_AFTER))
    }
}

#[cfg(test)]
#[path = "outside_tests.rs"]
mod tests;
