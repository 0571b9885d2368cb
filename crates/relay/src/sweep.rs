//! Sweep: the periodic work of the relay: timeouts, idle connections and waiting calls.

use std::time::{Duration, Instant};

use leno_http2::{ErrorCode, FieldSection};

use crate::budget::CONNECTION_BYTES;
use crate::call::reply::ProxyError;
use crate::call::retry::Failure;
use crate::downstream::client::ClientId;
use crate::effect::Effect;
use crate::limits::ms;
use crate::link::LinkId;
use crate::pool::liveness::{Check, Seen};
use crate::pool::pools::PoolId;
use crate::pool::upstream::UpstreamId;
use crate::target::cluster::{ClusterState, Others, Standing};
use crate::{GOAWAY_GRACE, Relay, SWEEP_EVERY};

/// Number of sweeps in which each connection is checked once.
const TURNS: usize = 10;
/// How long a connection may take to finish its calls after the proxy has decided to end it in favor of another client
/// ([`Relay::yield_place`]).
const YIELD_GRACE: Duration = Duration::from_secs(5);
/// How long we wait for a peer to close a connection that we have ended.
const LINGER: Duration = Duration::from_secs(1);
/// How long a connection without a call is kept if its endpoint has another connection, or if the connection is on an
/// account's own lane ([`crate::downstream::accounts::Lane::Own`]).
const SPARE_IDLE: Duration = Duration::from_secs(3);
/// How long a connection without a call keeps the memory that only a busy connection needs.
const REST_AFTER: Duration = Duration::from_secs(2);
/// How long a call must have waited for a connection before the log reports the waiting calls.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// The action that a sweep takes for a connection.
enum Verdict {
    Keep,
    /// Close the connection, for this reason.
    Close(&'static str),
    /// Count the connection under this label, send GOAWAY with this code and reason, and close it.
    Dismiss(&'static str, ErrorCode, &'static str),
}

impl Relay {
    /// Does the periodic work that is due. Returns whether a sweep was due.
    pub fn sweep(&mut self) -> bool {
        self.reset_cancelled();
        if self.now < self.next_sweep {
            return false;
        }
        self.next_sweep = self.now + SWEEP_EVERY;
        self.sweep_turn = (self.sweep_turn + 1) % TURNS;
        self.downstreams.sweep();
        self.release_collected();
        self.sweep_clients();
        self.sweep_upstreams();
        self.sweep_waiting();
        self.sweep_questions();
        if self.has_swept_all() {
            self.forget_idle_addresses();
            self.release_traffic();
            self.taps.forget_closed();
            self.count_messages_of_streams();
            for (_, state) in self.targets.iter_mut() {
                state.check_pools(self.now, &mut self.pools, &self.limits.relay);
                state.methods.sweep(self.now);
                // The mesh may have the Service of a lost cluster again, with another state that uses the same metrics.
                if state.standing() == Standing::Known {
                    state.retry_budget.iter_mut().for_each(|budget| budget.report(self.now));
                    state.report_endpoints(&self.pools, &self.metrics);
                }
            }
            for line in self.failures.left_out(self.now) {
                tracing::warn!("{line}");
            }
        }
        true
    }

    /// Returns whether this sweep completes a round of sweeps. Each round checks every connection.
    pub fn has_swept_all(&self) -> bool {
        self.sweep_turn == 0
    }

    /// Returns whether this sweep checks the entry with the index `place` in its table.
    pub fn is_in_turn(&self, place: u32) -> bool {
        place as usize % TURNS == self.sweep_turn
    }

    fn sweep_clients(&mut self) {
        let in_turn = self.downstreams.iter().map(|(id, _)| id).filter(|id| self.is_in_turn(id.place()));
        for id in in_turn.collect::<Vec<_>>() {
            match self.judge_client(id) {
                Verdict::Keep => {}
                Verdict::Close(_) => self.close_client(id),
                Verdict::Dismiss(label, code, why) => {
                    self.metrics.count_abuse(label);
                    let Some(client) = self.downstreams.get_mut(id) else { continue };
                    tracing::info!("{} is disconnected: {why}", client.origin.peer);
                    client.link.codec.go_away(code, why);
                    self.cancel_calls_of(id);
                    match self.downstreams.get(id).is_some_and(|client| client.link.codec.hides_cut()) {
                        true => self.close_client(id),
                        false => self.begin_closing(LinkId::Client(id)),
                    }
                }
            }
        }
    }

    fn judge_client(&mut self, id: ClientId) -> Verdict {
        let now = self.now;
        let relay = &self.limits.relay;
        let past = |since: Option<Instant>, limit: Duration| since.is_some_and(|since| now - since >= limit);
        let Some(client) = self.downstreams.get_mut(id) else { return Verdict::Keep };
        let is_tunnel = client.is_tunnel();
        let link = &mut client.link;
        if link.closing_since.is_some() {
            // If the kernel still has output that the client has not read, keep the connection as long as the client
            // reads. The limits on connections and the memory budget then still count it.
            let has_unread = link.kernel_bytes > CONNECTION_BYTES;
            if has_unread && link.kernel_bytes < link.least_kernel_bytes {
                (link.least_kernel_bytes, link.closing_since) = (link.kernel_bytes, Some(now));
            }
            // Opaque connections have no limit while they are open, but this connection has ended.
            let unread_limit = link.codec.unread_limit(relay).unwrap_or(ms(relay.unread_timeout_ms));
            if !past(link.closing_since, if has_unread { unread_limit } else { LINGER }) {
                return Verdict::Keep;
            }
            // After an orderly close, the kernel would keep the output for minutes, and no budget would count it.
            self.effects.extend(link.wire.filter(|_| has_unread).map(Effect::Abort));
            return Verdict::Close("");
        }
        if link.codec.is_opaque() {
            if !client.has_spoken && link.has_received {
                client.has_spoken = true;
                self.effects.extend(link.wire.map(Effect::Settle));
            }
            // During a drain, a connection on which neither side has sent anything does not delay the end of the
            // process.
            if link.codec.is_guess() && past(client.leaving_since, GOAWAY_GRACE) {
                return Verdict::Close("");
            }
            // No time limit applies: the peers of an opaque connection may be silent, or leave bytes unread, for any
            // time.
            return Verdict::Keep;
        }
        if past(client.yielding_since, YIELD_GRACE) {
            let why = "another client has its place, and its calls did not finish in time";
            return Verdict::Dismiss("client_connections", ErrorCode::ENHANCE_YOUR_CALM, why);
        }
        if !link.codec.is_established() && past(Some(link.opened), ms(relay.handshake_timeout_ms)) {
            let why = "no HTTP/2 handshake within handshake_timeout_ms";
            return Verdict::Dismiss("handshake_timeout", ErrorCode::SETTINGS_TIMEOUT, why);
        }
        if past(link.awaits_rest_since(), ms(relay.frame_timeout_ms)) {
            let why = "a frame or header block was not complete within frame_timeout_ms";
            return Verdict::Dismiss("slow_frame", ErrorCode::ENHANCE_YOUR_CALM, why);
        }
        let (has_windows, is_unread) = (link.codec.has_windows(), link.is_unread_too_long(now, relay));
        if has_windows && is_unread {
            let why = "it left its socket unread for unread_timeout_ms";
            return Verdict::Dismiss("unread_socket", ErrorCode::ENHANCE_YOUR_CALM, why);
        }
        let is_stalled = if has_windows { past(link.stalled_since, ms(relay.stall_timeout_ms)) } else { is_unread };
        if is_stalled && !is_tunnel {
            let why = "it let nothing through for stall_timeout_ms";
            return Verdict::Dismiss("stalled_windows", ErrorCode::ENHANCE_YOUR_CALM, why);
        }
        if link.codec.http2().is_some_and(|http2| http2.is_full()) && !std::mem::replace(&mut client.is_full, true) {
            self.metrics.full_clients_total.add(1);
            tracing::warn!(
                "{} has {} streams open, as many as it may, and keeps further calls to itself; let it use another connection, or \
                 raise the limit max_concurrent_streams",
                client.origin.peer,
                link.codec.stream_count()
            );
        }
        if link.codec.stream_count() > 0 {
            client.idle_since = None;
        } else {
            let idle_since = *client.idle_since.get_or_insert(now);
            if now - idle_since >= REST_AFTER {
                link.codec.rest();
            }
        }
        let idle_timeout = ms(relay.client_idle_timeout_ms);
        if past(client.leaving_since, GOAWAY_GRACE) {
            link.codec.go_away(ErrorCode::NO_ERROR, "");
        } else if past(client.idle_since, idle_timeout) {
            client.shut_down(now);
        }
        self.mark_dirty(LinkId::Client(id));
        Verdict::Keep
    }

    fn sweep_upstreams(&mut self) {
        // Check connections that are not ready in every sweep, because connect timeouts are short.
        let in_turn = self.pools.upstreams().filter(|(id, upstream)| !upstream.ready || self.is_in_turn(id.place()));
        for id in in_turn.map(|(id, _)| id).collect::<Vec<_>>() {
            if let Verdict::Close(why) = self.judge_upstream(id) {
                self.close_upstream(id, why);
            }
        }
    }

    fn judge_upstream(&mut self, id: UpstreamId) -> Verdict {
        let now = self.now;
        let past = |since: Option<Instant>, limit: Duration| since.is_some_and(|since| now - since >= limit);
        let Some(upstream) = self.pools.upstream(id) else { return Verdict::Keep };
        let (opened, is_outdated) = (Some(upstream.link.opened), upstream.is_outdated);
        let settings = match self.targets.get(upstream.cluster) {
            Some(state) => state.cluster.settings.clone(),
            None => Default::default(),
        };
        if !upstream.ready {
            let late = past(opened, settings.connect_timeout);
            return if late {
                Verdict::Close("not ready for calls within the connect time-out")
            } else {
                Verdict::Keep
            };
        }
        if past(opened, settings.max_connection_age.unwrap_or(Duration::MAX)) {
            self.retire(id);
        }
        if is_outdated {
            self.replace_outdated(id);
        }
        self.sweep_answered(id);
        if self.check_liveness(id) == Check::Gone {
            return Verdict::Close("no answer to a PING within endpoint_ping_timeout_ms");
        }
        let relay = &self.limits.relay;
        let Some(upstream) = self.pools.upstream_mut(id) else { return Verdict::Keep };
        let (is_retired, is_nearly_closed) = (upstream.retired, upstream.is_nearly_closed(now));
        let is_idle = upstream.is_idle();
        let link = &mut upstream.link;
        if link.is_unread_too_long(now, relay) {
            return Verdict::Close(match link.codec.has_windows() {
                true => "it left its socket unread for unread_timeout_ms",
                false => "it left its socket unread for stall_timeout_ms",
            });
        }
        if is_idle {
            let idle_since = *upstream.idle_since.get_or_insert(now);
            if now - idle_since >= REST_AFTER {
                link.codec.rest();
            }
            let (pool, lane) = (upstream.pool, upstream.key.lane);
            let is_unused_opaque = link.codec.is_opaque() && link.codec.takes_streams();
            let has_others = self.pools.get(pool).is_some_and(|pool| pool.connections().len() > 1);
            let is_spare = has_others || !lane.is_common();
            let limit = if is_unused_opaque {
                // The client has left before the connection was established. Do not keep the connection for later
                // clients: the server may already have sent its greeting, and may soon close the connection if no
                // client answers. A call that already waits still gets the connection, because the relay assigns the
                // connection in the turn in which it becomes ready, right after the sweep.
                SWEEP_EVERY
            } else if is_spare {
                settings.idle_timeout.min(SPARE_IDLE)
            } else {
                settings.idle_timeout
            };
            let idle = is_nearly_closed || past(Some(idle_since), limit);
            return if is_retired || idle { Verdict::Close("idle") } else { Verdict::Keep };
        }
        upstream.idle_since = None;
        if link.codec.http2().is_some() {
            self.mark_dirty(LinkId::Endpoint(id));
        }
        Verdict::Keep
    }

    /// Checks whether the server of a connection is still there, and sends it a PING if it is silent.
    fn check_liveness(&mut self, id: UpstreamId) -> Check {
        let Some(upstream) = self.pools.upstream_mut(id) else { return Check::Keep };
        let (pool, last_read, is_idle) = (upstream.pool, upstream.link.last_read, upstream.is_idle());
        let cluster = self.targets.get_mut(upstream.cluster);
        let has_others = cluster.as_ref().is_some_and(|cluster| cluster.balancer.endpoints().nth(1).is_some());
        let is_avoidable = has_others && !upstream.retired;
        let Some(http2) = upstream.link.codec.http2() else { return Check::Keep };
        let seen = Seen { last_read, is_idle, is_avoidable, highest_with_content: http2.highest_with_content() };
        let check = upstream.liveness.check(self.now, seen, &self.limits.relay);
        if check == Check::Ping {
            http2.ping();
        }
        let is_avoided = is_avoidable && upstream.is_doubtful();
        // Note this at every check: the pool may become doubtful only when its other connections have left it.
        if let Some(cluster) = cluster.filter(|_| is_avoided) {
            cluster.note_busy();
        }
        if check == Check::Ping {
            self.mark_dirty(LinkId::Endpoint(id));
        }
        if is_avoided && self.pools.is_doubtful(pool) {
            self.move_waiting(pool);
        }
        check
    }

    /// Sends the calls that wait for a connection to a silent server to other endpoints that are well. A call without a
    /// further attempt stays there: the server may only have paused.
    fn move_waiting(&mut self, pool: PoolId) {
        let Some(pool) = self.pools.get(pool).filter(|pool| !pool.waiting().is_empty()) else { return };
        let (cluster, lane, waiting) = (pool.cluster, pool.key.lane, pool.waiting().clone().into_attempts());
        for id in waiting {
            let Some(call) = self.calls.get(id.call) else { continue };
            let is_taken = |state: &ClusterState| state.others(self.now, (call, lane), &self.pools) == Others::Free;
            if call.own_attempts() < self.limits.relay.max_attempts && self.targets.get(cluster).is_some_and(is_taken) {
                self.attempt_failed(id, &Failure::NotSent);
            }
        }
    }

    /// Fails calls that have waited too long for a connection, and logs the endpoints for which calls wait.
    fn sweep_waiting(&mut self) {
        let limit = ms(self.limits.relay.max_wait_ms);
        let mut waiting_calls = 0;
        for pool in self.pools.waited_for().to_vec() {
            waiting_calls += self.tell_of_waiting(pool);
            while let Some(id) = self.pools.first_waiting(pool) {
                let Some(attempt) = self.calls.attempt(id) else { break };
                let waited = self.now - attempt.since;
                if waited < limit {
                    break;
                }
                let cluster = self.pools.get(pool).and_then(|pool| self.targets.get(pool.cluster));
                let cluster = cluster.map_or(String::new(), |state| state.target.to_string());
                self.give_up_attempt(id, &ProxyError::WaitedTooLong { cluster, waited_ms: waited.as_millis() });
            }
        }
        self.metrics.waiting_calls.set(waiting_calls);
    }

    /// Logs once that calls wait because all connections to their endpoint are in use, as many as the limit allows.
    /// Returns the number of waiting calls.
    fn tell_of_waiting(&mut self, id: PoolId) -> u64 {
        let Some(pool) = self.pools.get(id) else { return 0 };
        let Some(state) = self.targets.get(pool.cluster) else { return 0 };
        let most = pool.max_connections(&state.cluster.settings, &self.limits.relay);
        let first = self.pools.first_waiting(id).and_then(|id| self.calls.attempt(id));
        let is_long = first.is_some_and(|attempt| self.now - attempt.since >= TELL_AFTER);
        let waiting = pool.waiting().len();
        if is_long && pool.connections().len() >= most && !pool.wait_is_told {
            let (target, address) = (&state.target, pool.address);
            if pool.key.hop.is_shared() {
                let connections = pool.connections().iter().filter_map(|id| self.pools.upstream(id));
                let streams: usize = connections.map(|upstream| upstream.link.codec.stream_count()).sum();
                tracing::warn!(
                    "{waiting} calls wait for {target} at {address}: it grants {streams} streams on {most} connections, and \
                     all of them are open; raise its limit of concurrent streams or the annotation \
                     leno.dev/max-connections-per-endpoint, or add endpoints"
                );
            } else {
                tracing::warn!(
                    "{waiting} calls wait for {target} at {address}: each of its {most} connections carries one call, and all \
                     of them are in use; raise the limit max_unshared_connections_per_endpoint, or add endpoints"
                );
            }
            if let Some(pool) = self.pools.get_mut(id) {
                pool.wait_is_told = true;
            }
        }
        waiting as u64
    }

    /// Frees memory that is no longer needed after a burst.
    pub fn shrink(&mut self) {
        self.burst = false;
        self.downstreams.shrink();
        self.pools.shrink();
        self.calls.shrink();
        self.fields = FieldSection::new();
        self.heads.save_memory(self.is_short_of_memory());
        self.dirty.shrink_to_fit();
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
