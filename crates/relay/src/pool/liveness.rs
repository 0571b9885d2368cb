//! Liveness: whether the server of an HTTP/2 connection is still there.
//!
//! If a machine or a network path fails, no packet reports the failure: our packets vanish. The kernel ends the
//! connection only after `unread_timeout_ms`, because a shorter limit would also end connections that lose packets for a
//! moment. Until then, each new call on the connection would wait for its deadline in vain.
//!
//! So if the cluster has other endpoints, the relay sends a PING to a server that has sent no byte since a call began.
//! Until any byte arrives, the connection is *doubtful*: new calls go to other endpoints, and so do calls that wait for
//! a connection. The calls in flight stay, because the process of the server may only have paused. The answer to the
//! PING ends the doubt after one round trip, even if the application is slow.
//!
//! A PING that is not answered during a much longer silence ends the connection ([`Liveness::check`]).

use std::time::{Duration, Instant};

use crate::limits::{RelayLimits, ms};

/// How long a server may send no byte after a call began, before the relay sends a PING.
pub(crate) const SILENT_AFTER: Duration = Duration::from_millis(500);
/// Maximum number of such PINGs until the server sends a header section without END_STREAM. gRPC servers close a
/// connection with all its calls (`too_many_pings`) at the fourth PING in 5 minutes, or in 2 hours without a call, if
/// they have sent no header section and no content in between. One more PING may be on its way when they send the
/// header section. A header section with END_STREAM does not help: if grpc-go rejects a call before its handler runs,
/// it does not count the header section of this answer.
const PINGS_MAX: u8 = 2;

/// The relay's knowledge whether a connection's server is still there.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    /// When the first call was sent since the server's last byte. Out of date if a byte has arrived since.
    waits_since: Option<Instant>,
    /// When the latest PING was sent. Out of date if a byte has arrived since.
    ping_sent: Option<Instant>,
    /// Number of PINGs because of a short silence since `highest_with_content` last grew.
    pings: u8,
    /// [`Seen::highest_with_content`] when the latest of these PINGs was sent.
    highest_with_content: u32,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// Nothing is to be done.
    Keep,
    /// Send a PING. The connection is doubtful until the server sends a byte.
    Ping,
    /// Close the connection: the server has not answered a PING in time.
    Gone,
}

/// The state of a connection at a check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// When the server's last byte arrived.
    pub(crate) last_read: Instant,
    /// Whether the connection has no call and no output.
    pub(crate) is_idle: bool,
    /// Whether the connection gets new calls that could go to another endpoint instead.
    pub(crate) is_avoidable: bool,
    /// The highest stream on which the server has sent a header section without END_STREAM.
    pub(crate) highest_with_content: u32,
}

impl Liveness {
    /// Records that a call was sent.
    #[inline]
    pub(crate) fn call_sent(&mut self, now: Instant, last_read: Instant) {
        if self.waits_since.is_none_or(|since| since < last_read) {
            self.waits_since = Some(now);
        }
    }

    /// Returns whether the server has not answered a PING, if its last byte arrived at `last_read`.
    #[inline]
    pub(crate) fn is_doubtful(&self, last_read: Instant) -> bool {
        self.ping_sent.is_some_and(|sent| last_read <= sent)
    }

    /// Checks the connection. The caller carries out the result.
    ///
    /// A connection with calls is gone if the server has sent nothing for `endpoint_ping_after_ms` plus
    /// `endpoint_ping_timeout_ms`, and has had the latter time to answer a PING. A PING because of a short silence does
    /// not shorten this time: a process that pauses for a minute keeps its calls in flight.
    pub(crate) fn check(&mut self, now: Instant, seen: Seen, relay: &RelayLimits) -> Check {
        let (after, timeout) = (ms(relay.endpoint_ping_after_ms), ms(relay.endpoint_ping_timeout_ms));
        let silence = now.saturating_duration_since(seen.last_read);
        if let Some(sent) = self.ping_sent.filter(|_| self.is_doubtful(seen.last_read)) {
            let is_gone = now.saturating_duration_since(sent) >= timeout && silence >= after.saturating_add(timeout);
            return if is_gone && !seen.is_idle { Check::Gone } else { Check::Keep };
        }
        let is_long_silent = silence >= after && !seen.is_idle;
        if !is_long_silent && !self.may_ask(now, &seen) {
            return Check::Keep;
        }
        self.ping_sent = Some(now);
        Check::Ping
    }

    /// Returns whether a PING may be sent because of a short silence. If so, counts the PING.
    fn may_ask(&mut self, now: Instant, seen: &Seen) -> bool {
        let waits_since = self.waits_since.filter(|since| *since >= seen.last_read);
        let is_silent = waits_since.is_some_and(|since| now.saturating_duration_since(since) >= SILENT_AFTER);
        if !is_silent || !seen.is_avoidable {
            return false;
        }
        if self.highest_with_content != seen.highest_with_content {
            (self.highest_with_content, self.pings) = (seen.highest_with_content, 0);
        }
        let may_ask = self.pings < PINGS_MAX;
        self.pings += u8::from(may_ask);
        may_ask
    }
}

#[cfg(test)]
#[path = "liveness_tests.rs"]
mod tests;
