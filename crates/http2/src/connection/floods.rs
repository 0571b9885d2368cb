//! Counts events that a correct peer causes rarely, and closes the connection of a peer that causes them constantly.

use std::time::Instant;

use crate::error::{ConnectionError, Flood};
use crate::limits::{EARNED_RESETS_FACTOR, FLOOD_WINDOW, Limits};

/// Usual peers return credit for at least this many bytes at a time (Go's `inflowMinRefresh`). They send two
/// WINDOW_UPDATE frames for it: one for the stream, one for the connection.
const CREDIT_BYTES: u64 = 4 << 10;
/// Largest amount of sent content for which the peer may still return credit, in bytes: more than the windows of usual
/// peers.
const UNCREDITED_MAX_BYTES: u64 = 256 << 20;

/// The state of one connection: counters that are reset every [`FLOOD_WINDOW`], a budget of rapid resets, and the
/// amount of content for which the peer may still return credit.
#[derive(Debug)]
pub(super) struct Floods {
    /// Time of the latest batch of input.
    advanced: Instant,
    window_began: Instant,
    counts: [u32; Flood::COUNT],
    /// Streams opened since `window_began`.
    opened: u32,
    /// DATA and HEADERS frames sent since `window_began`.
    sent: u32,
    /// DATA and HEADERS frames sent since `window_began` that RST_STREAM frames on closed streams may still answer.
    unanswered: u32,
    /// Like `unanswered`, but the frames were sent in the period before `window_began`.
    unanswered_before: u32,
    /// Number of RST_STREAM frames that may still arrive late: one for each stream that was closed, in any period.
    late_resets_left: u32,
    /// Number of our PING frames that the peer has not acknowledged.
    pings_unanswered: u32,
    /// Content that was sent, and for which the peer may still return credit, in bytes. The peer's application may read
    /// the content long after it was sent.
    uncredited_bytes: u64,
    /// Number of rapid resets that the peer may still make, in thousandths of a reset.
    resets_left: u64,
    refilled: Instant,
}

impl Floods {
    pub(super) fn new(now: Instant, limits: &Limits) -> Self {
        let resets_left = u64::from(limits.max_rapid_resets) * 1_000;
        Self {
            advanced: now,
            window_began: now,
            counts: [0; Flood::COUNT],
            opened: 0,
            sent: 0,
            unanswered: 0,
            unanswered_before: 0,
            late_resets_left: 0,
            pings_unanswered: 0,
            uncredited_bytes: 0,
            resets_left,
            refilled: now,
        }
    }

    /// Restarts the counters if [`FLOOD_WINDOW`] has passed since their last start, and refills the budget of rapid
    /// resets. Call it for each batch of input. It does nothing if `now` is the same as in the last call.
    pub(super) fn advance(&mut self, now: Instant, limits: &Limits) {
        if now == self.advanced {
            return;
        }
        self.advanced = now;
        if now.saturating_duration_since(self.window_began) >= FLOOD_WINDOW {
            (self.window_began, self.counts) = (now, [0; Flood::COUNT]);
            self.unanswered_before = std::mem::take(&mut self.unanswered);
            (self.opened, self.sent) = (0, 0);
        }
        let elapsed_ms = u64::try_from(now.saturating_duration_since(self.refilled).as_millis()).unwrap_or(u64::MAX);
        if elapsed_ms > 0 {
            self.refilled = now;
            // `resets_left` counts thousandths of a reset. A rate of n resets per second is n thousandths per
            // millisecond, so the rate needs no conversion.
            let refill = elapsed_ms.saturating_mul(limits.rapid_resets_per_second.into());
            let full = u64::from(limits.max_rapid_resets) * 1_000;
            self.resets_left = self.resets_left.max(self.resets_left.saturating_add(refill).min(full));
        }
    }

    /// Records that a stream of the peer was answered. Each answered stream allows the peer another rapid reset.
    pub(super) fn stream_answered(&mut self, limits: &Limits) {
        let most = u64::from(limits.max_rapid_resets) * u64::from(EARNED_RESETS_FACTOR) * 1_000;
        self.resets_left = self.resets_left.max(self.resets_left.saturating_add(1_000).min(most));
    }

    pub(super) fn stream_opened(&mut self) {
        self.opened = self.opened.saturating_add(1);
    }

    /// Records that a stream was closed or refused. Each such stream allows the peer one late RST_STREAM.
    pub(super) fn stream_closed(&mut self) {
        self.late_resets_left = self.late_resets_left.saturating_add(1);
    }

    pub(super) fn ping_sent(&mut self) {
        self.pings_unanswered = self.pings_unanswered.saturating_add(1);
    }

    pub(super) fn frame_sent(&mut self) {
        self.sent = self.sent.saturating_add(1);
        self.unanswered = self.unanswered.saturating_add(1);
    }

    pub(super) fn content_sent(&mut self, bytes: usize) {
        self.uncredited_bytes = self.uncredited_bytes.saturating_add(bytes as u64).min(UNCREDITED_MAX_BYTES);
    }

    /// Counts an acknowledgement of a PING, unless it answers one of our own.
    pub(super) fn count_ping_answer(&mut self, limits: &Limits) -> Result<(), ConnectionError> {
        if take_one(&mut self.pings_unanswered) {
            return Ok(());
        }
        self.count(Flood::Ping, limits)
    }

    /// Counts RST_STREAM on a closed stream as an empty frame, unless a correct peer may have sent it. There are two
    /// such cases, and both may happen to all streams of a connection at once:
    /// - The peer reset the stream before it learned that the stream was closed, for example because the same deadline
    ///   passed on both sides.
    /// - The peer answers each of our frames on a stream that it has closed (Go's `net/http` does so). The answers to
    ///   the last frames of a period may arrive in the next period.
    pub(super) fn count_late_reset(&mut self, limits: &Limits) -> Result<(), ConnectionError> {
        let allowances = [&mut self.late_resets_left, &mut self.unanswered_before, &mut self.unanswered];
        if allowances.into_iter().any(take_one) {
            return Ok(());
        }
        self.count(Flood::EmptyFrames, limits)
    }

    /// Counts one event of the kind `flood`. Returns an error if the peer caused more of them than the limit allows.
    pub(super) fn count(&mut self, flood: Flood, limits: &Limits) -> Result<(), ConnectionError> {
        if flood == Flood::RapidReset {
            return self.count_rapid_reset();
        }
        let Some(count) = self.counts.get_mut(flood as usize) else { return Ok(()) };
        *count = count.saturating_add(1);
        let allowed = match flood {
            Flood::RapidReset => 0,
            Flood::MadeYouReset => limits.max_stream_errors,
            Flood::Continuation => limits.max_continuation_frames,
            // gRPC measures the bandwidth with a PING for each batch of DATA that it receives, so each frame that we
            // sent allows one PING.
            Flood::Ping => limits.max_pings.saturating_add(self.sent),
            Flood::Settings => limits.max_settings,
            // Browsers send PRIORITY_UPDATE, a frame type unknown here, with each request (RFC 9218 section 7.1), so
            // each stream allows one such frame.
            Flood::EmptyFrames => limits.max_empty_frames.saturating_add(self.opened),
            Flood::Priority => limits.max_priority_frames,
            Flood::WindowUpdate => {
                let allowed = limits.max_window_updates.saturating_add(self.sent.saturating_mul(4));
                // A peer whose application reads small pieces returns credit for each piece. So every 2 KiB of sent
                // content allows one more frame.
                if *count > allowed
                    && let Some(left) = self.uncredited_bytes.checked_sub(CREDIT_BYTES / 2)
                {
                    self.uncredited_bytes = left;
                    *count = allowed;
                }
                allowed
            }
            Flood::DataDribble => limits.max_dribbled_frames.saturating_add(self.opened.saturating_mul(8)),
            Flood::UnreadOutput => 0,
            Flood::HeaderList => limits.max_oversize_sections,
            Flood::GoAway => limits.max_goaways,
        };
        if *count > allowed { Err(ConnectionError::flood(flood)) } else { Ok(()) }
    }

    /// Takes one reset from the budget; returns an error if the budget is empty. A client that races or hedges its
    /// calls resets hundreds of young streams a second. An attacker resets tens of thousands.
    fn count_rapid_reset(&mut self) -> Result<(), ConnectionError> {
        match self.resets_left.checked_sub(1_000) {
            Some(left) => {
                self.resets_left = left;
                Ok(())
            }
            None => Err(ConnectionError::flood(Flood::RapidReset)),
        }
    }
}

/// Takes one from an allowance. Returns `false` if nothing is left.
fn take_one(left: &mut u32) -> bool {
    let less = left.checked_sub(1);
    *left = less.unwrap_or(0);
    less.is_some()
}
