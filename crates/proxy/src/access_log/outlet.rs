//! A worker's connection to the writer thread of the access log.

use std::sync::Arc;
use std::time::Instant;

use leno_relay::access_log::AccessLog;

use super::writer::{Offer, Pending};

/// Passes the lines of one worker to the writer; does nothing if the log is off.
#[derive(Debug, Default)]
pub struct Outlet(Option<Arc<Pending>>);

impl Outlet {
    pub(super) fn to(pending: Arc<Pending>) -> Self {
        Self(Some(pending))
    }

    /// Passes the lines of this turn of the event loop to the writer, without waiting. Call it at the end of every
    /// turn.
    pub fn hand_over(&self, log: &mut AccessLog, now: Instant) {
        let Some((pending, lines)) = self.0.as_ref().zip(log.lines()) else { return };
        if !lines.text.is_empty() {
            match pending.offer(&mut lines.text) {
                Offer::Taken => lines.note_taken(),
                // The writer or another worker holds the lock; retry in the next turn.
                Offer::Busy => {}
                Offer::Full => lines.drop_all(),
            }
        }
        lines.note_lost(pending.take_lost());
        lines.tell_of_dropped(now);
    }

    /// Passes the last lines to the writer when the worker ends; may wait.
    pub fn finish(&self, log: &mut AccessLog) {
        let Some((pending, lines)) = self.0.as_ref().zip(log.lines()) else { return };
        if !lines.text.is_empty() && pending.take_last(&mut lines.text) != Offer::Taken {
            lines.drop_all();
        }
    }
}

#[cfg(test)]
#[path = "outlet_tests.rs"]
mod tests;
