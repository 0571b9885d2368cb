//! Recheck: schedules the verification of peers' certificates after a trust anchor was removed.
//!
//! Thousands of peers may be connected, and verifying a chain takes about 0.15 ms. Connections of peers whose
//! certificates no anchor verifies any more must end within a second, and calls must continue meanwhile. So the worker
//! verifies in short slices, which take at most half of the worker's time. In one round, the verdict about a chain is
//! the same for every connection that showed it, so the worker verifies each chain once.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;

use super::wire::WireId;

/// Longest duration of a slice. Calls that arrive during a slice wait until it ends.
const SLICE: Duration = Duration::from_millis(5);
/// Shortest pause between two slices.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum number of chains whose verdict is kept until the round ends; about 100 bytes each.
const MAX_VERDICTS: usize = 16_384;

/// The result of verifying a certificate chain.
type Verdict = Result<(), rustls::Error>;

/// The results of verifying certificate chains. A peer chooses the length of its chain, so this table stores only a
/// digest of the chain: 128 bits of SipHash. The keys are random and secret, so a peer cannot make two chains with the
/// same digest.
#[derive(Debug, Default)]
struct Verdicts {
    keys: [RandomState; 2],
    by_digest: HashMap<[u64; 2], Verdict>,
}

/// Connections to check again, and the verdicts about their peers' chains.
#[derive(Debug, Default)]
pub(super) struct Recheck {
    due: VecDeque<WireId>,
    /// Deferred connections: their peers still have time to show a better certificate on a new connection.
    waiting: Vec<WireId>,
    verdicts: Verdicts,
    next_slice: Option<Instant>,
}

impl Recheck {
    /// Begins a round, which verifies the peers of all `wires` with a new identity. Forgets the verdicts of the
    /// previous identity.
    pub(super) fn begin(&mut self, wires: impl Iterator<Item = WireId>) {
        self.forget_verdicts();
        self.waiting.clear();
        self.due = wires.collect();
    }

    /// Forgets the verdicts, so that the round continues with a new identity. Use this function instead of
    /// [`Self::begin`] if the new identity trusts every anchor of the previous identity.
    pub(super) fn forget_verdicts(&mut self) {
        self.verdicts = Verdicts::default();
    }

    /// Adds a connection whose handshake was under way when the round began.
    pub(super) fn add(&mut self, wire: WireId) {
        self.due.push_back(wire);
    }

    /// Lets the worker check the connection again after the next sweep.
    pub(super) fn defer(&mut self, wire: WireId) {
        self.waiting.push(wire);
    }

    /// Makes the deferred connections due again. Called in each sweep.
    pub(super) fn sweep(&mut self) {
        self.due.extend(self.waiting.drain(..));
    }

    /// Returns when the next slice may begin; `None` if no connection is due.
    pub(super) fn next_slice(&self, now: Instant) -> Option<Instant> {
        (!self.due.is_empty()).then(|| self.next_slice.unwrap_or(now))
    }

    /// Begins a slice if one is due. Returns the time at which the slice must end.
    pub(super) fn begin_slice(&mut self, now: Instant) -> Option<Instant> {
        self.next_slice(now).filter(|at| *at <= now)?;
        Some(Instant::now() + SLICE)
    }

    /// Returns the next connection of a slice. Ends the slice if its time has passed or no connection is due.
    pub(super) fn next(&mut self, end: Instant) -> Option<WireId> {
        let now = Instant::now();
        let next = if now < end { self.due.pop_front() } else { None };
        if next.is_none() {
            self.next_slice = Some(now + PAUSE);
            if self.due.is_empty() && self.waiting.is_empty() {
                self.forget_verdicts();
            }
        }
        next
    }

    /// Returns the verdict about a chain in this round. Calls `verify` only if the verdict is not known yet.
    pub(super) fn verdict(
        &mut self,
        chain: &[CertificateDer<'static>],
        verify: impl FnOnce(&[CertificateDer<'static>]) -> Verdict,
    ) -> Verdict {
        let Verdicts { keys, by_digest } = &mut self.verdicts;
        let digest = keys.each_ref().map(|key| key.hash_one(chain));
        if let Some(known) = by_digest.get(&digest) {
            return known.clone();
        }
        let verdict = verify(chain);
        if by_digest.len() < MAX_VERDICTS {
            by_digest.insert(digest, verdict.clone());
        }
        verdict
    }
}

#[cfg(test)]
#[path = "recheck_tests.rs"]
mod tests;
