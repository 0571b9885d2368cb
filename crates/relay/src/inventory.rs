//! Inventory: the entries of the relay's tables, and whether they exceed a limit. Only tests use it, to find two
//! mistakes that do harm only after days of operation: an entry that is never removed, and a limit that is exceeded by
//! one.
//!
//! The inventory omits tables whose entries outlive calls and connections, because other limits bound them:
//!
//! - clusters and their pools without connections
//! - metrics
//! - requests that callers must not retry (`spent_chains`)
//! - destinations whose servers speak first
//! - memory that is kept for later calls

use crate::call::Call;
use crate::call::attempt::Stage;
use crate::target::cluster::ClusterState;
use crate::{Relay, SWEEP_EVERY};

/// The name of a table, and the number of its entries.
pub type Entries = (&'static str, usize);

impl Relay {
    /// Returns the tables with entries for calls. If no call is in flight, the result must be empty, even if
    /// connections are open.
    pub fn call_entries(&self) -> Vec<Entries> {
        let in_clusters = self.targets.iter().map(|(_, state)| state.calls()).sum();
        let untold = self.pools.upstreams().flat_map(|(_, upstream)| upstream.cancelled.clients());
        let untold = untold.filter(|client| self.downstreams.get(*client).is_some()).count();
        let cancelled: usize = self.downstreams.iter().map(|(_, client)| client.cancelled_calls as usize).sum();
        let own = [
            ("calls of clusters", in_clusters),
            ("questions", self.questions.subjects().count()),
            ("cancelled calls that only a client or only a connection has", cancelled.abs_diff(untold)),
        ];
        let tables = self.calls.entries().into_iter().chain(self.downstreams.call_entries());
        held(tables.chain(self.pools.call_entries()).chain(own))
    }

    /// Returns the tables with entries for connections. The result must be empty once all connections have ended and
    /// the next sweep has run.
    pub fn connection_entries(&self) -> Vec<Entries> {
        let own = [
            ("charged bytes", self.held_bytes()),
            ("links to flush", self.dirty.len()),
            ("effects", self.effects.len()),
        ];
        let tables = self.downstreams.connection_entries().chain(self.pools.connection_entries());
        held(tables.chain(own))
    }

    /// Returns the name of a limit that is exceeded, and the amount in use; `None` if no limit is exceeded.
    pub fn exceeded_limit(&self) -> Option<Entries> {
        let relay = &self.limits.relay;
        let admitted = self.calls.iter().filter(|(_, call)| call.attempts.len() > 0 && !call.is_mirror()).count();
        let attempts = self.calls.iter().map(|(_, call)| call.own_attempts()).max().unwrap_or(0);
        let is_kept = |call: &&Call| call.replayable && call.attempts.is_sent() && !call.attempts.is_waiting();
        let kept = self.calls.iter().map(|(_, call)| call).filter(is_kept).map(|call| call.body.len());
        let kept_of_one = kept.max().unwrap_or(0);
        let attempts_of_all = self.calls.iter().flat_map(|(_, call)| call.attempts.iter());
        let waiting = attempts_of_all.filter(|attempt| matches!(attempt.stage, Stage::Waiting(_)));
        let waited = waiting.map(|attempt| self.now.saturating_duration_since(attempt.since)).max().unwrap_or_default();
        // Only a sweep ends the wait, so a call may wait for `max_wait_ms` plus the time between two sweeps.
        let most_waited_ms = relay.max_wait_ms + SWEEP_EVERY.as_millis() as u32;
        let whole = [
            ("max_calls", admitted, relay.max_calls),
            ("max_attempts", attempts as usize, relay.max_attempts),
            ("max_wait_ms", waited.as_millis() as usize, most_waited_ms),
            ("max_replay_bytes_per_call", kept_of_one, relay.max_replay_bytes_per_call),
        ];
        let exceeds = |(_, used, most): &(&str, usize, u32)| *used > *most as usize;
        let mut of_pools = self.targets.iter().flat_map(|(_, state)| self.limits_of_pools(state));
        let exceeded = whole.into_iter().find(exceeds).or_else(|| of_pools.find(exceeds));
        exceeded.map(|(name, used, _)| (name, used))
    }

    /// Returns the limits of a cluster's pools: the name, the amount in use, and the maximum.
    fn limits_of_pools<'a>(&'a self, state: &'a ClusterState) -> impl Iterator<Item = (&'static str, usize, u32)> + 'a {
        let relay = &self.limits.relay;
        let pools = state.balancer.endpoints().flat_map(|(id, _)| state.pools_of(id, &self.pools));
        pools.flat_map(move |pool| {
            let name = match pool.key.hop.is_shared() {
                true => "max_connections_per_endpoint",
                false => "max_unshared_connections_per_endpoint",
            };
            let most_connections = pool.max_connections(&state.cluster.settings, relay) as u32;
            [
                ("max_waiting_calls_per_endpoint", pool.waiting().len(), relay.max_waiting_calls_per_endpoint),
                (name, pool.connections().len(), most_connections),
            ]
        })
    }
}

/// Drops the tables without entries.
fn held(tables: impl Iterator<Item = Entries>) -> Vec<Entries> {
    tables.filter(|(_, entries)| *entries > 0).collect()
}
