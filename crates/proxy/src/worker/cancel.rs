//! Cancel: calls that are over while their server still works on them.
//!
//! A client may cancel as it likes, but its calls share a connection with everybody's, and servers close a connection on
//! which too many calls are reset, or are reset before they were looked at. So a server is told a little later, once it is
//! known to have taken the call up, and not too often; a connection with too many such calls is replaced.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use leno_http2::{Connection, ErrorCode, StreamKey};

use super::Worker;
use super::call::NO_CALL;
use super::link::LinkId;
use crate::limits::RelayLimits;

/// How often servers are told, while there is something to tell.
const TICK: Duration = Duration::from_millis(10);
/// A cancelled call is made known no sooner: by then its server has most likely read the request.
const CANCEL_AFTER: Duration = Duration::from_millis(10);
/// Calls that a server may not have taken up, of which it is told all the same, per second; the strictest stand 20.
const MAX_BLIND_RESETS: u32 = 8;
/// Cancelled calls on one connection that its server does not know of; with more of them it takes no new calls, and it is
/// closed when only they are left, which tells the server of all of them at once.
const MAX_CANCELLED: usize = 128;

/// The same on a lane of an account's own, which is closed as soon as only so many are left.
const MAX_CANCELLED_ALONE: usize = 32;

/// Index and serial number of a client.
type ClientId = (usize, u64);

/// The cancelled calls of one connection that its server does not know of.
#[derive(Debug)]
pub(super) struct CancelledCalls {
    /// Oldest first.
    calls: VecDeque<Cancelled>,
    /// Resets that may be sent now; a token bucket.
    allowed: f64,
    counted: Instant,
    /// Resets of calls that the server may not have taken up, in the current second.
    blind: u32,
    blind_since: Instant,
}

#[derive(Debug)]
struct Cancelled {
    stream: StreamKey,
    since: Instant,
    client: ClientId,
}

impl CancelledCalls {
    pub(super) fn new(now: Instant, relay: &RelayLimits) -> Self {
        Self { calls: VecDeque::new(), allowed: f64::from(relay.reset_burst), counted: now, blind: 0, blind_since: now }
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// The clients that cancelled, one for each call.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.calls.iter().map(|cancelled| cancelled.client)
    }

    /// Resets what may be reset now, and drops what has ended by itself. Returns the clients of both.
    ///
    /// On a lane of its own an account tells the server at once of calls that the server has taken up, as it would without a
    /// proxy between: the budget is for connections that others use.
    fn reset_some(
        &mut self,
        now: Instant,
        http2: &mut Connection,
        is_common: bool,
        relay: &RelayLimits,
    ) -> Vec<ClientId> {
        if !is_common {
            self.allowed = f64::from(relay.reset_burst);
        }
        let elapsed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = now;
        let refilled = self.allowed + elapsed * f64::from(relay.resets_per_second);
        self.allowed = refilled.min(f64::from(relay.reset_burst));

        let mut left_this_tick = relay.max_resets_per_tick;
        let mut over = Vec::new();
        for cancelled in std::mem::take(&mut self.calls) {
            if !http2.is_open(cancelled.stream) {
                over.push(cancelled.client);
            } else if left_this_tick > 0 && self.may_reset(now, &cancelled, http2) {
                left_this_tick -= 1;
                self.allowed -= 1.0;
                http2.reset(cancelled.stream, ErrorCode::CANCEL);
                over.push(cancelled.client);
            } else {
                self.calls.push_back(cancelled);
            }
        }
        over
    }

    /// Whether the server may be told now. Of calls that it has not taken up yet it is told of a few only: a server that
    /// lags takes many of them for an attack.
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

impl Worker {
    /// The call on this stream is over, and its server does not know.
    pub(super) fn cancel_upstream(&mut self, index: usize, stream: StreamKey, client: usize) {
        let now = self.now;
        let Some(upstream) = self.upstreams.get_mut(index) else { return };
        if !upstream.link.codec.is_open(stream) {
            return;
        }
        if !upstream.key.hop.is_shared() {
            upstream.link.codec.reset(stream, ErrorCode::CANCEL);
            return self.mark_dirty(LinkId::endpoint(index));
        }
        upstream.link.codec.set_token(stream, NO_CALL);
        let is_common = upstream.key.lane.is_common();
        let serial = self.clients.get_mut(client).map_or(0, |client| {
            client.cancelled_calls += 1;
            if is_common {
                self.accounts.cancelled(client.account, &self.limits.relay);
            }
            client.serial
        });
        if upstream.cancelled.len() == 0 {
            self.cancelling.push(index);
        }
        upstream.cancelled.calls.push_back(Cancelled { stream, since: now, client: (client, serial) });
        let is_full = upstream.cancelled.len() > MAX_CANCELLED;
        self.next_reset_tick.get_or_insert(now + TICK);
        if is_full {
            self.retire(index);
        }
    }

    /// Makes some cancelled calls known to their servers.
    pub(super) fn reset_cancelled(&mut self) {
        if self.next_reset_tick.is_none_or(|tick| self.now < tick) {
            return;
        }
        self.next_reset_tick = None;
        for index in std::mem::take(&mut self.cancelling) {
            self.reset_cancelled_of(index);
        }
    }

    fn reset_cancelled_of(&mut self, index: usize) {
        let now = self.now;
        let Some(upstream) = self.upstreams.get_mut(index) else { return };
        let Some(http2) = upstream.link.codec.http2() else { return };
        let over = upstream.cancelled.reset_some(now, http2, upstream.key.lane.is_common(), &self.limits.relay);
        let left = upstream.cancelled.len();
        let is_given_up = upstream.retired || (!upstream.key.lane.is_common() && left > MAX_CANCELLED_ALONE);
        if is_given_up && http2.stream_count() == left {
            self.close_upstream(index, "only cancelled calls are left");
        } else {
            if left > 0 {
                self.cancelling.push(index);
                self.next_reset_tick = Some(now + TICK);
            }
            self.mark_dirty(LinkId::endpoint(index));
        }
        for client in over {
            self.cancelled_call_is_over(client);
        }
    }

    pub(super) fn cancelled_call_is_over(&mut self, (client, serial): ClientId) {
        if let Some(client) = self.clients.get_mut(client).filter(|client| client.serial == serial) {
            client.cancelled_calls = client.cancelled_calls.saturating_sub(1);
        }
    }
}
