//! The pools of a worker: its connections to endpoints, shared by all clients, and the attempts that wait for a
//! connection.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leno_model::settings::Settings;

use crate::call::attempt::AttemptId;
use crate::call::reply::ProxyError;
use crate::inventory::Entries;
use crate::limits::{RelayLimits, ms};
use crate::pool::connections::Connections;
use crate::pool::hop::PoolKey;
use crate::pool::upstream::{CallSize, Upstream, UpstreamId};
use crate::pool::waiting::{Turn, Waiting};
use crate::slots::{Id, Slots};
use crate::target::cluster::ClusterId;

/// Identifies a pool within its worker.
pub(crate) type PoolId = Id<Pool>;

/// The connections to one endpoint under one [`PoolKey`], and the attempts that wait for one of these connections.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) cluster: ClusterId,
    pub(crate) key: PoolKey,
    /// The address to connect to.
    pub(crate) address: SocketAddr,
    connections: Connections,
    /// Number of `connections` that are being established.
    connecting: usize,
    waiting: Waiting,
    /// The pool is in [`Pools::waited_for`].
    listed: bool,
    /// The relay has logged that calls wait in this pool. It logs this again only after the queue has been empty.
    pub(crate) wait_is_told: bool,
    /// Number of connections that failed in a row.
    pub(crate) failures: u32,
    /// The pool opens no connection before this time.
    retry_at: Option<Instant>,
    pub(crate) last_error: String,
    /// Whether `last_error` says that this proxy could not open a socket. If so, the endpoint is not the cause.
    lacks_socket: bool,
    /// The pool replaces no connection because of rejected calls before this time.
    pub(crate) keeps_until: Option<Instant>,
    /// The server has closed a connection of this pool that carried many resets. So the pool's connections carry fewer
    /// ([`crate::pool::cancel`]), for as long as the pool exists: a server keeps its limits.
    pub(crate) is_strict_about_resets: bool,
}

impl Pool {
    pub(crate) fn new(cluster: ClusterId, key: PoolKey, address: SocketAddr) -> Self {
        Self {
            cluster,
            key,
            address,
            connections: Connections::default(),
            connecting: 0,
            waiting: Waiting::default(),
            listed: false,
            wait_is_told: false,
            failures: 0,
            retry_at: None,
            last_error: String::new(),
            lacks_socket: false,
            keeps_until: None,
            is_strict_about_resets: false,
        }
    }

    /// Returns the connections that take calls, or will take calls once they are established.
    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Returns the number of connections that are being established.
    pub(crate) fn connecting(&self) -> usize {
        self.connecting
    }

    /// Returns whether a connection is established.
    pub(crate) fn is_connected(&self) -> bool {
        self.connections.len() > self.connecting
    }

    /// Returns the maximum number of connections of the pool. `settings` are the settings of the pool's cluster.
    pub(crate) fn max_connections(&self, settings: &Settings, relay: &RelayLimits) -> usize {
        match self.key.hop.is_shared() {
            true => settings.max_connections_per_endpoint.into(),
            false => relay.max_unshared_connections_per_endpoint as usize,
        }
    }

    /// Returns the attempts that wait for a connection.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Returns whether a call may use this pool: at once, or after a wait in a queue of at most `max_waiting` calls.
    pub(crate) fn takes_calls(&self, now: Instant, max_waiting: usize) -> bool {
        self.waiting.len() < max_waiting && !self.is_backing_off(now)
    }

    /// Returns when the pool opens a connection again, if its latest attempt to connect has failed.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Returns whether the pool has no connection that takes calls, and opens no connection for now.
    pub(crate) fn is_backing_off(&self, now: Instant) -> bool {
        !self.connections.can_serve() && self.is_pausing(now)
    }

    /// Returns whether the pool opens no connection for now, because the latest attempt to connect has failed.
    pub(crate) fn is_pausing(&self, now: Instant) -> bool {
        self.retry_at.is_some_and(|at| now < at)
    }

    /// Returns whether the balancer may have to avoid this endpoint: calls wait for a connection, or the latest attempt
    /// to connect has failed.
    pub(crate) fn may_be_busy(&self) -> bool {
        !self.waiting.is_empty() || self.retry_at.is_some()
    }

    /// Returns whether the pool has neither connections nor attempts that wait.
    pub(crate) fn is_idle(&self) -> bool {
        self.connections.is_empty() && self.waiting.is_empty()
    }

    /// Records a failed connection, and begins a pause in which the pool opens no connection. Each pause is twice as
    /// long as the one before, up to a limit, with jitter. A failure during a pause does not change the pause: that
    /// connection was begun before the pause, so it most likely failed for the same reason.
    pub(crate) fn back_off(&mut self, now: Instant, why: String, random: u64, relay: &RelayLimits) {
        (self.last_error, self.lacks_socket) = (why, false);
        if self.is_pausing(now) {
            return;
        }
        let pause = ms(relay.min_backoff_ms).saturating_mul(1 << self.failures.min(16)).min(ms(relay.max_backoff_ms));
        // The proxy waits for half of the pause and a random part of the other half, so that proxies do not reconnect
        // at the same time.
        let jitter = pause.mul_f64((random % 1_000) as f64 / 2_000.0);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now + pause / 2 + jitter);
    }

    /// Records that this proxy could not open a socket for a connection, and begins a pause in which the pool opens no
    /// connection. The endpoint is not the cause, so this is no failure of the endpoint, and the pauses do not grow.
    pub(crate) fn lack_socket(&mut self, now: Instant, why: String, relay: &RelayLimits) {
        (self.last_error, self.lacks_socket) = (why, true);
        if !self.is_pausing(now) {
            self.retry_at = Some(now + ms(relay.min_backoff_ms));
        }
    }

    /// Returns the error of a call for which the pool opens no connection, because the latest attempt to connect has
    /// failed.
    pub(crate) fn connect_error(&self) -> ProxyError {
        let (endpoint, why) = (self.address, self.last_error.clone());
        match self.lacks_socket {
            true => ProxyError::NoSocket { endpoint, why },
            false => ProxyError::Connect { endpoint, why },
        }
    }

    /// Forgets the failures of an unused pool whose latest pause has been over for `after`. Call this if another pool
    /// of the endpoint is connected. A pool also forgets its failures when a connection is ready. But if no call uses its
    /// lane or hop any more, it opens no connection, and its failures would mark the endpoint as failing.
    pub(crate) fn forget_old_failures(&mut self, now: Instant, after: Duration) {
        if self.is_idle() && self.retry_at.is_some_and(|at| now.saturating_duration_since(at) >= after) {
            (self.failures, self.retry_at) = (0, None);
            self.last_error.clear();
        }
    }

    /// Removes all attempts from the queue. Returns them in the order in which they joined the queue.
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = AttemptId> + use<> {
        std::mem::take(&mut self.waiting).into_attempts()
    }
}

/// All pools and all connections to endpoints.
///
/// Invariants:
///
/// - A connection is in its pool until it is retired or ends. [`Pools::find`] retires an idle connection that its server
///   will soon close.
/// - A pool's `connecting` is the number of its connections that are not ready.
/// - A pool with waiting attempts is in `waited_for`.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pools: Slots<Pool>,
    upstreams: Slots<Upstream>,
    /// Pools with attempts that wait.
    waited_for: Vec<PoolId>,
    latest_turn: u64,
    /// Connections with cancelled calls that the relay has not reset on the server yet. It resets the first of these
    /// calls at `next_reset_at`.
    cancelled: Vec<UpstreamId>,
    next_reset_at: Option<Instant>,
    /// Connections that collect short pieces of content before they send them.
    collecting: Vec<UpstreamId>,
}

/// Pools.
impl Pools {
    #[inline]
    pub(crate) fn get(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: PoolId) -> Option<&mut Pool> {
        self.pools.get_mut(id)
    }

    pub(crate) fn insert(&mut self, pool: Pool) -> PoolId {
        self.pools.insert(pool)
    }

    /// Removes the pool of an endpoint that has left its cluster. The pool's connections stay until they end.
    pub(crate) fn remove(&mut self, id: PoolId) -> Option<Pool> {
        self.pools.remove(id)
    }

    /// Returns a connection of the pool that can accept a call now. Takes the connections that their server will soon
    /// close out of the pool when it meets them, so that no later call meets them again. A sweep closes these
    /// connections.
    #[inline]
    pub(crate) fn find(&mut self, id: PoolId, size: CallSize, now: Instant) -> Option<UpstreamId> {
        loop {
            let found = self.with_room(id, size)?;
            if !self.upstreams.get(found)?.is_nearly_closed(now) {
                return Some(found);
            }
            self.retire(found);
        }
    }

    /// Returns a connection of the pool with room for a call. The connection may be one that its server will soon close.
    #[inline]
    fn with_room(&self, id: PoolId, size: CallSize) -> Option<UpstreamId> {
        let pool = self.pools.get(id)?;
        let has_room = |&id: &UpstreamId| self.upstreams.get(id).is_some_and(|upstream| upstream.has_room(size));
        if !pool.key.hop.is_shared() {
            return pool.connections.free().find(has_room);
        }
        // The oldest shared connection with room gets the call, so that the other connections become idle. Exception: a
        // doubtful connection gets the call only if all connections with room are doubtful.
        let is_alive = |&id: &UpstreamId| self.upstreams.get(id).is_some_and(|upstream| !upstream.is_doubtful());
        let mut with_room = pool.connections.iter().filter(has_room);
        let oldest = with_room.next()?;
        if is_alive(&oldest) { Some(oldest) } else { with_room.find(is_alive).or(Some(oldest)) }
    }

    /// Returns whether the server of a pool may be gone: it has not answered a PING on one connection, and has sent no
    /// byte on the other connections since.
    pub(crate) fn is_doubtful(&self, id: PoolId) -> bool {
        // Only HTTP/2 has PINGs. A pool of other connections may be large, so do not look at each connection.
        let Some(pool) = self.pools.get(id).filter(|pool| pool.key.hop.is_shared()) else { return false };
        let ready = || {
            let upstreams = pool.connections.iter().filter_map(|id| self.upstreams.get(id));
            upstreams.filter(|upstream| upstream.ready)
        };
        let Some(last_read) = ready().map(|upstream| upstream.link.last_read).max() else { return false };
        ready().any(|upstream| upstream.liveness.is_doubtful(last_read))
    }
}

/// Connections.
impl Pools {
    #[inline]
    pub(crate) fn upstream(&self, id: UpstreamId) -> Option<&Upstream> {
        self.upstreams.get(id)
    }

    #[inline]
    pub(crate) fn upstream_mut(&mut self, id: UpstreamId) -> Option<&mut Upstream> {
        self.upstreams.get_mut(id)
    }

    pub(crate) fn upstreams(&self) -> impl Iterator<Item = (UpstreamId, &Upstream)> {
        self.upstreams.iter()
    }

    pub(crate) fn upstreams_mut(&mut self) -> impl Iterator<Item = &mut Upstream> {
        self.upstreams.iter_mut().map(|(_, upstream)| upstream)
    }

    /// Adds a connection to its pool when the relay begins to establish the connection.
    pub(crate) fn add(&mut self, upstream: Upstream) -> UpstreamId {
        let pool = upstream.pool;
        let id = self.upstreams.insert(upstream);
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.connections.push(id);
            pool.connecting += 1;
        }
        id
    }

    /// Records that a connection is ready for calls.
    pub(crate) fn note_ready(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        if std::mem::replace(&mut upstream.ready, true) {
            return;
        }
        if let Some(pool) = self.pools.get_mut(upstream.pool) {
            pool.connecting = pool.connecting.saturating_sub(usize::from(!upstream.retired));
            upstream.earlier_failures = std::mem::take(&mut pool.failures);
            pool.retry_at = None;
        }
    }

    /// Records whether a connection is free now. If the connection can carry several calls at a time, only checks
    /// whether it takes further calls: after 2^30 calls, its stream identifiers are used up. Such a connection leaves
    /// its pool, so that the pool can open another connection.
    #[inline]
    pub(crate) fn note_room(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let is_spent = !upstream.link.codec.takes_streams();
        if upstream.key.hop.is_shared() {
            if is_spent && !upstream.retired {
                self.retire(id);
            }
            return;
        }
        let is_free = upstream.has_room(CallSize::Open);
        if let Some(pool) = self.pools.get_mut(upstream.pool) {
            pool.connections.set_free(id, is_free);
            pool.connections.set_spent(id, is_spent);
        }
    }

    /// Takes a connection out of its pool, so that it gets no new calls.
    pub(crate) fn retire(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        upstream.retired = true;
        if let Some(pool) = self.pools.get_mut(upstream.pool)
            && pool.connections.remove(id)
        {
            pool.connecting = pool.connecting.saturating_sub(usize::from(!upstream.ready));
        }
    }

    /// Removes a connection that has ended.
    pub(crate) fn end(&mut self, id: UpstreamId) -> Option<Upstream> {
        self.retire(id);
        self.upstreams.remove(id)
    }

    /// See [`Relay::call_entries`](crate::Relay::call_entries).
    pub(crate) fn call_entries(&self) -> [Entries; 2] {
        let waiting = self.pools.iter().map(|(_, pool)| pool.waiting.len()).sum();
        [("waiting attempts", waiting), ("pools with waiting attempts", self.waited_for.len())]
    }

    /// See [`Relay::connection_entries`](crate::Relay::connection_entries).
    pub(crate) fn connection_entries(&self) -> [Entries; 5] {
        let of_pools = self.pools.iter().map(|(_, pool)| pool.connections.len() + pool.connecting).sum();
        [
            ("connections to endpoints", self.upstreams.len()),
            ("connections of pools", of_pools),
            ("connections with cancelled calls", self.cancelled.len() + usize::from(self.next_reset_at.is_some())),
            ("connections that collect content", self.collecting.len()),
            ("pools that report a wait", self.pools.iter().filter(|(_, pool)| pool.wait_is_told).count()),
        ]
    }

    /// Frees memory that is no longer needed after a burst.
    pub(crate) fn shrink(&mut self) {
        self.pools.shrink_to_fit();
        self.upstreams.shrink_to_fit();
    }
}

/// Connections with work that the relay does a little later: to reset cancelled calls, and to send collected content.
impl Pools {
    /// Adds a connection to the list of connections with cancelled calls. From the time `at`, the relay may reset some
    /// of the cancelled calls. The connection must not be on the list already.
    pub(crate) fn list_cancelled(&mut self, id: UpstreamId, at: Instant) {
        self.cancelled.push(id);
        self.next_reset_at.get_or_insert(at);
    }

    /// Returns when cancelled calls may be reset; `None` if there are no cancelled calls.
    pub(crate) fn next_reset_at(&self) -> Option<Instant> {
        self.next_reset_at
    }

    /// If some cancelled calls may be reset now, returns the connections with cancelled calls, and removes them from
    /// the list.
    pub(crate) fn take_cancelled(&mut self, now: Instant) -> Vec<UpstreamId> {
        match self.next_reset_at.take_if(|at| *at <= now) {
            Some(_) => std::mem::take(&mut self.cancelled),
            None => Vec::new(),
        }
    }

    /// Adds a connection to the list of connections that collect content. The connection must not be on the list
    /// already.
    pub(crate) fn list_collecting(&mut self, id: UpstreamId) {
        self.collecting.push(id);
    }

    /// Returns the connections that collect content, and removes them from the list.
    pub(crate) fn take_collecting(&mut self) -> Vec<UpstreamId> {
        std::mem::take(&mut self.collecting)
    }
}

/// Attempts that wait for a connection.
impl Pools {
    /// Adds an attempt to the queue of a pool. Returns the attempt's position in the queue.
    pub(crate) fn join(&mut self, id: PoolId, attempt: AttemptId, is_small: bool) -> Turn {
        self.latest_turn += 1;
        let turn = Turn(self.latest_turn);
        if let Some(pool) = self.pools.get_mut(id) {
            pool.waiting.join(turn, attempt, is_small);
            if !std::mem::replace(&mut pool.listed, true) {
                self.waited_for.push(id);
            }
        }
        turn
    }

    /// Removes an attempt from the queue of a pool.
    pub(crate) fn leave(&mut self, id: PoolId, turn: Turn) {
        if let Some(pool) = self.pools.get_mut(id) {
            pool.waiting.leave(turn);
        }
    }

    /// Marks a waiting attempt as small in its queue.
    pub(crate) fn note_small(&mut self, id: PoolId, turn: Turn) {
        if let Some(pool) = self.pools.get_mut(id) {
            pool.waiting.note_small(turn);
        }
    }

    /// Returns the attempt at the head of a pool's queue.
    pub(crate) fn first_waiting(&self, id: PoolId) -> Option<AttemptId> {
        self.pools.get(id)?.waiting.first().map(|(_, attempt)| attempt)
    }

    /// Returns the waiting attempt that can be sent now, and the connection for this attempt. It is the first attempt
    /// in the queue or, if no connection has room for this attempt, the first small attempt. `size_of` returns the size
    /// of an attempt's call.
    #[inline]
    pub(crate) fn next_in_line(
        &mut self,
        id: PoolId,
        size_of: impl Fn(AttemptId) -> CallSize,
        now: Instant,
    ) -> Option<(Turn, AttemptId, UpstreamId)> {
        let waiting = &self.pools.get(id)?.waiting;
        let first = waiting.first()?;
        let first_small = waiting.first_small().filter(|small| *small != first);
        let mut connected = |(turn, attempt)| Some((turn, attempt, self.find(id, size_of(attempt), now)?));
        connected(first).or_else(|| connected(first_small?))
    }

    /// Returns the pools in whose queues attempts may wait.
    pub(crate) fn waited_for(&self) -> &[PoolId] {
        &self.waited_for
    }

    /// Removes from the list the pools in whose queues no attempt waits any more.
    pub(crate) fn unlist_served(&mut self) {
        let pools = &mut self.pools;
        self.waited_for.retain(|&id| {
            let Some(pool) = pools.get_mut(id) else { return false };
            pool.listed = !pool.waiting.is_empty();
            pool.wait_is_told &= pool.listed;
            pool.listed
        });
    }
}

#[cfg(test)]
#[path = "pools_tests.rs"]
pub(crate) mod tests;
