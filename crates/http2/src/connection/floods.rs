//! Counts what a peer in good faith does rarely, and closes the connection of one that does it all the time.

use std::time::Instant;

use crate::error::{ConnectionError, Flood};
use crate::limits::{FLOOD_WINDOW, Limits};

/// Counters of one connection, anew every [`FLOOD_WINDOW`].
#[derive(Debug)]
pub(super) struct Floods {
    window_began: Instant,
    counts: [u32; Flood::COUNT],
    /// Streams opened in this window.
    opened: u32,
    /// DATA and HEADERS frames sent in this window.
    sent: u32,
}

impl Floods {
    pub(super) fn new(now: Instant) -> Self {
        Self { window_began: now, counts: [0; Flood::COUNT], opened: 0, sent: 0 }
    }

    /// Starts a new window when the old one is over. Called once for each batch of input.
    pub(super) fn advance(&mut self, now: Instant) {
        if now.saturating_duration_since(self.window_began) >= FLOOD_WINDOW {
            *self = Self::new(now);
        }
    }

    pub(super) fn stream_opened(&mut self) {
        self.opened = self.opened.saturating_add(1);
    }

    pub(super) fn frame_sent(&mut self) {
        self.sent = self.sent.saturating_add(1);
    }

    /// Counts one `flood` event; an error when that is one too many.
    pub(super) fn count(&mut self, flood: Flood, limits: &Limits) -> Result<(), ConnectionError> {
        let Some(count) = self.counts.get_mut(flood as usize) else { return Ok(()) };
        *count = count.saturating_add(1);
        let allowed = match flood {
            // A client that hedges or has short deadlines resets many streams, but not most of them at birth.
            Flood::RapidReset => limits.max_rapid_resets.max(self.opened / 2),
            Flood::MadeYouReset => limits.max_stream_errors,
            Flood::Continuation => limits.max_continuation_frames,
            // gRPC measures the bandwidth with a PING for each batch of DATA that it receives.
            Flood::Ping => limits.max_pings.saturating_add(self.sent),
            Flood::Settings => limits.max_settings,
            // Browsers send PRIORITY_UPDATE, which we do not know, with each request (RFC 9218 section 7.1).
            Flood::EmptyFrames => limits.max_empty_frames.saturating_add(self.opened),
            Flood::Priority => limits.max_priority_frames,
            Flood::WindowUpdate => limits.max_window_updates.saturating_add(self.sent.saturating_mul(4)),
            Flood::DataDribble => limits.max_dribbled_frames.saturating_add(self.opened.saturating_mul(8)),
            Flood::UnreadOutput => 0,
            Flood::HeaderList => limits.max_oversize_sections,
        };
        if *count > allowed { Err(ConnectionError::flood(flood)) } else { Ok(()) }
    }
}
