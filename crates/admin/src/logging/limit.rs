//! Limits the number of lines that each log statement may write, so that a peer cannot make the log grow without bound.
//!
//! Each log statement in the code has its own limit for lines of level INFO and above. A program has a fixed number of
//! log statements, so these limits bound the whole log. Lines of level DEBUG and TRACE have no limit here: an operator
//! who enables these levels wants all lines. `queue` limits the total bytes of waiting lines of every level.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// Maximum number of lines that one log statement writes in one [`WINDOW`].
pub(super) const LINES_MAX: u32 = 20;
const WINDOW: Duration = Duration::from_secs(1);

/// Decides which lines are written. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Limit(Arc<Mutex<HashMap<Identifier, Place>>>);

/// The number of lines of one log statement in the code (a tracing callsite).
#[derive(Debug)]
struct Place {
    metadata: &'static Metadata<'static>,
    window_began: Instant,
    lines: u32,
    left_out: u64,
}

impl Limit {
    /// Returns whether the log statement with this metadata may write a line now.
    fn allows(&self, metadata: &'static Metadata<'static>, now: Instant) -> bool {
        let mut places = self.lock();
        let place = places.entry(metadata.callsite()).or_insert_with(|| Place {
            metadata,
            window_began: now,
            lines: 0,
            left_out: 0,
        });
        if now.saturating_duration_since(place.window_began) >= WINDOW {
            (place.window_began, place.lines) = (now, 0);
        }
        let is_allowed = place.lines < LINES_MAX;
        match is_allowed {
            true => place.lines += 1,
            false => place.left_out += 1,
        }
        is_allowed
    }

    /// Logs, for each log statement, how many of its lines were left out in the windows that have ended.
    pub(super) fn report(&self) {
        for (metadata, lines) in self.take_left_out(Instant::now()) {
            let (module, line) = (metadata.module_path().unwrap_or_default(), metadata.line().unwrap_or_default());
            tracing::warn!("{lines} more log lines of {module}, line {line}, were left out: it logs too often");
        }
    }

    fn take_left_out(&self, now: Instant) -> Vec<(&'static Metadata<'static>, u64)> {
        let mut places = self.lock();
        let is_over = |place: &Place| now.saturating_duration_since(place.window_began) >= WINDOW;
        let over = places.values_mut().filter(|place| place.left_out > 0 && is_over(place));
        over.map(|place| (place.metadata, std::mem::take(&mut place.left_out))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Identifier, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Subscriber> Filter<S> for Limit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        *metadata.level() > Level::INFO || self.allows(metadata, Instant::now())
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
