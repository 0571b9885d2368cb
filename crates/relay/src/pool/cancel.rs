//! Cancel: calls that have ended while their server still works on them.
//!
//! A client may cancel any number of calls, but the calls of many clients share a connection. Servers close a
//! connection if too many of its calls are reset, or if too many calls are reset before the server has looked at them.
//! So the proxy does not reset a cancelled call on its server at once, but a little later, when the server is known to
//! process the call. It also limits the number of resets per second. A connection with too many cancelled calls is
//! replaced.
//!
//! Servers limit resets differently: nghttp2 accepts a burst of 1,000 and 33 per second, Netty 200 in 30 s, Jetty 50 in
//! 1 s, and grpc-go any number. If the strictest limit applied to all servers, most servers would work on many cancelled
//! calls for nothing. So a stricter limit applies to a pool only after its server has closed one of its connections with
//! many resets. Each pool of each worker loses one connection to learn this.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use leno_http2::{Connection, ErrorCode, StreamKey};

use crate::Relay;
use crate::call::NO_CALL;
use crate::certain::Certain;
use crate::downstream::client::ClientId;
use crate::limits::RelayLimits;
use crate::link::LinkId;
use crate::pool::hop::{Hop, Protocol};
use crate::pool::upstream::UpstreamId;

/// Interval at which the relay resets cancelled calls on their servers, as long as it has cancelled calls.
const TICK: Duration = Duration::from_millis(10);
/// Shortest time between the cancellation of a call and the proxy's reset of its stream. After this time, the server
/// has most likely read the request.
const CANCEL_AFTER: Duration = Duration::from_millis(10);
/// Maximum number of resets per second, on one connection, for calls that the server is not known to process. The
/// strictest servers accept 20.
const MAX_BLIND_RESETS: u32 = 8;
/// Like `reset_burst` and `resets_per_second`, for a server that has closed a connection with more resets than these. The
/// two make 190 resets in 30 s, and 45 in 1 s.
const STRICT_BURST: u32 = 40;
const STRICT_PER_SECOND: u32 = 5;
/// Maximum number of cancelled calls on one connection that have not been reset. A connection above this limit takes no
/// new calls. When only cancelled calls are left, the relay closes the connection, which ends all these calls at the
/// server at once.
const MAX_CANCELLED: usize = 128;

/// The limit for a connection on an account's own lane ([`crate::downstream::accounts`]), lower than [`MAX_CANCELLED`].
/// A connection above this limit still takes new calls, but the relay closes the connection as soon as only cancelled
/// calls are left.
const MAX_CANCELLED_ALONE: usize = 32;

/// The cancelled calls of one connection that have not been reset on the server.
#[derive(Debug)]
pub(crate) struct CancelledCalls {
    /// The cancelled calls, the oldest first.
    calls: VecDeque<Cancelled>,
    /// Number of resets that may be sent now (a token bucket).
    allowed: f64,
    counted: Instant,
    /// Number of blind resets in the current second: resets of calls that the server may not have begun to process.
    blind: u32,
    blind_since: Instant,
    /// Number of resets beyond [`STRICT_PER_SECOND`], at the time `counted`.
    excess: f64,
}

#[derive(Debug)]
struct Cancelled {
    stream: StreamKey,
    since: Instant,
    /// The client of the call; `None` if the call was a copy of a request.
    client: Option<ClientId>,
}

impl CancelledCalls {
    pub(crate) fn new(now: Instant, relay: &RelayLimits) -> Self {
        let allowed = f64::from(relay.reset_burst);
        Self { calls: VecDeque::new(), allowed, counted: now, blind: 0, blind_since: now, excess: 0.0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether the connection lately carried more resets than the stricter limit allows. The server may have
    /// closed the connection for another reason, but then most connections carry fewer.
    pub(crate) fn exceeds_strict_limit(&self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.excess - elapsed * f64::from(STRICT_PER_SECOND) > f64::from(STRICT_BURST)
    }

    /// Returns the client of each cancelled call.
    pub(crate) fn clients(&self) -> impl Iterator<Item = Option<ClientId>> {
        self.calls.iter().map(|cancelled| cancelled.client)
    }

    /// Resets the calls that may be reset now, and removes calls whose streams have ended. Returns the clients of the
    /// calls that were reset or removed.
    ///
    /// The token bucket protects connections that several accounts use. On an account's own lane, the bucket is always
    /// full, so that no reset waits for a token. Exception, `is_strict`: the server closes connections with many resets,
    /// with all calls of the account.
    fn reset_some(
        &mut self,
        now: Instant,
        http2: &mut Connection,
        (is_common, is_strict): (bool, bool),
        relay: &RelayLimits,
    ) -> Vec<Option<ClientId>> {
        let (burst, per_second) = match is_strict {
            true => (relay.reset_burst.min(STRICT_BURST), relay.resets_per_second.min(STRICT_PER_SECOND)),
            false => (relay.reset_burst, relay.resets_per_second),
        };
        if !is_common && !is_strict {
            self.allowed = f64::from(burst);
        }
        let elapsed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = now;
        self.excess = (self.excess - elapsed * f64::from(STRICT_PER_SECOND)).max(0.0);
        let refilled = self.allowed + elapsed * f64::from(per_second);
        self.allowed = refilled.min(f64::from(burst));

        let mut left_this_tick = relay.max_resets_per_tick;
        let mut over = Vec::new();
        for cancelled in std::mem::take(&mut self.calls) {
            if !http2.is_open(cancelled.stream) {
                over.push(cancelled.client);
            } else if left_this_tick > 0 && self.may_reset(now, &cancelled, http2) {
                left_this_tick -= 1;
                self.allowed -= 1.0;
                self.excess += 1.0;
                http2.reset(cancelled.stream, ErrorCode::CANCEL);
                over.push(cancelled.client);
            } else {
                self.calls.push_back(cancelled);
            }
        }
        over
    }

    /// Returns whether the call may be reset now. Only a few resets are allowed for calls that the server may not have
    /// begun to process: a slow server would take many of these resets for an attack.
    fn may_reset(&mut self, now: Instant, cancelled: &Cancelled, http2: &Connection) -> bool {
        if now - cancelled.since < CANCEL_AFTER || self.allowed < 1.0 {
            return false;
        }
        if http2.is_taken_up(cancelled.stream) {
            return true;
        }
        if now - self.blind_since >= Duration::from_secs(1) {
            self.blind_since = now;
            self.blind = 0;
        }
        self.blind += 1;
        self.blind <= MAX_BLIND_RESETS
    }
}

impl Relay {
    /// Cancels a call on its server, if its stream is still open: at once on a connection that carries one call, later
    /// on a shared connection.
    #[inline]
    pub(crate) fn cancel_upstream(&mut self, id: UpstreamId, stream: StreamKey, client: Option<ClientId>) {
        if self.pools.upstream(id).is_some_and(|upstream| upstream.link.codec.is_open(stream)) {
            self.cancel_open(id, stream, client);
        }
    }

    fn cancel_open(&mut self, id: UpstreamId, stream: StreamKey, client: Option<ClientId>) {
        let now = self.now;
        let Some(upstream) = self.pools.upstream_mut(id) else { return };
        if !upstream.key.hop.is_shared() {
            upstream.link.codec.reset(stream, ErrorCode::CANCEL);
            // A client that cancels 500 calls a second would use up the local ports for connections to an HTTP/1 server.
            // Bytes that the kernel has not sent are lost: they belong to the cancelled call, or to an earlier call that
            // the server has answered.
            upstream.link.frees_port = upstream.key.hop == Hop::Plain(Protocol::Http1);
            return self.mark_dirty(LinkId::Endpoint(id));
        }
        upstream.link.codec.set_token(stream, NO_CALL);
        // The call's client is no longer charged for the content that waits.
        if let Some(http2) = upstream.link.codec.http2() {
            http2.drop_queued(stream);
        }
        let is_common = upstream.key.lane.is_common();
        self.downstreams.call_cancelled(client, is_common, &self.limits.relay);
        let is_first = upstream.cancelled.len() == 0;
        upstream.cancelled.calls.push_back(Cancelled { stream, since: now, client });
        let is_full = upstream.cancelled.len() > MAX_CANCELLED;
        if is_first {
            self.pools.list_cancelled(id, now + TICK);
        }
        if is_full {
            self.retire(id);
        }
    }

    /// Resets cancelled calls on their servers, as many as may be reset now.
    pub(crate) fn reset_cancelled(&mut self) {
        for id in self.pools.take_cancelled(self.now) {
            self.reset_cancelled_of(id);
        }
    }

    fn reset_cancelled_of(&mut self, id: UpstreamId) {
        let now = self.now;
        let pool = self.pools.upstream(id).and_then(|upstream| self.pools.get(upstream.pool));
        let is_strict = pool.is_some_and(|pool| pool.is_strict_about_resets);
        let Some(upstream) = self.pools.upstream_mut(id) else { return };
        let Some(http2) = upstream.link.codec.http2().certain() else { return };
        let limits = (upstream.key.lane.is_common(), is_strict);
        let over = upstream.cancelled.reset_some(now, http2, limits, &self.limits.relay);
        let left = upstream.cancelled.len();
        let is_given_up = upstream.retired || (!upstream.key.lane.is_common() && left > MAX_CANCELLED_ALONE);
        if is_given_up && http2.stream_count() == left {
            self.close_upstream(id, "only cancelled calls are left");
        } else {
            if left > 0 {
                self.pools.list_cancelled(id, now + TICK);
            }
            self.mark_dirty(LinkId::Endpoint(id));
        }
        for client in over {
            self.downstreams.cancelled_call_is_over(client);
        }
    }
}

#[cfg(test)]
#[path = "cancel_tests.rs"]
mod tests;
