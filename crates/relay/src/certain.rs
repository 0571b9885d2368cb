//! Lookups that cannot fail, because an invariant says that the entry exists. If a lookup fails nevertheless, this
//! program has a fault. A debug build then panics, so that tests find the fault. A release build counts and logs the
//! fault, and goes on.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of faults that are logged; further faults are only counted.
const LOGGED_MAX: u64 = 20;

static FAULTS: AtomicU64 = AtomicU64::new(0);

/// Returns how many lookups have failed although an invariant says that they cannot.
pub(crate) fn faults() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// The result of a lookup that cannot fail.
pub(crate) trait Certain {
    /// Returns the result unchanged, and reports a fault if nothing was found.
    fn certain(self) -> Self;
}

impl<T> Certain for Option<T> {
    #[inline]
    #[track_caller]
    fn certain(self) -> Self {
        if self.is_none() {
            report(Location::caller());
        }
        self
    }
}

#[cold]
fn report(place: &Location<'_>) {
    debug_assert!(false, "{place}: nothing was found where something must be");
    if FAULTS.fetch_add(1, Ordering::Relaxed) < LOGGED_MAX {
        tracing::error!("{place}: nothing was found where something must be; please report this fault");
    }
}

#[cfg(test)]
#[path = "certain_tests.rs"]
mod tests;
