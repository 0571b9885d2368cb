//! Series whose labels are only known at run time, and their lifetime.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a series without a holder is still exported. A client that returns within this time continues its
/// counts, so that Prometheus sees no reset.
const KEEP_UNHELD: Duration = Duration::from_secs(600);

/// A limited number of series; each has an `M` with its numbers.
///
/// The table is locked when a connection, a cluster or a client with a new target fetches its handle, and at a scrape.
/// The next calls need no lock.
#[derive(Debug)]
pub(super) struct SeriesTable<L, M> {
    limit: usize,
    series: Mutex<HashMap<L, Series<M>>>,
}

#[derive(Debug)]
struct Series<M> {
    metrics: Arc<M>,
    /// Time of the first scrape without a holder.
    unheld_since: Option<Instant>,
}

impl<M> Series<M> {
    /// Whether a handle exists outside the table. If not, only the table can create one, so the answer holds as long as
    /// the table is locked.
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.metrics) > 1
    }

    /// Whether to keep the series after a scrape at `now`.
    fn stays(&mut self, now: Instant) -> bool {
        if self.is_held() {
            self.unheld_since = None;
            return true;
        }
        now.duration_since(*self.unheld_since.get_or_insert(now)) < KEEP_UNHELD
    }
}

impl<L: Clone + Eq + Hash, M: Default> SeriesTable<L, M> {
    /// A table for `limit` series.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, series: Mutex::default() }
    }

    /// The series with these labels.
    ///
    /// If the table is full, returns the series of `beyond_limit`, for which there is always room. So `beyond_limit`
    /// must map all possible labels to a few.
    pub(super) fn get(&self, labels: &L, beyond_limit: impl FnOnce(&L) -> L) -> Arc<M> {
        let mut table = self.lock();
        if let Some(series) = table.get(labels) {
            return series.metrics.clone();
        }
        if table.len() >= self.limit {
            table.retain(|_, series| series.is_held());
        }
        let labels = if table.len() < self.limit { labels.clone() } else { beyond_limit(labels) };
        let create = || Series { metrics: Arc::default(), unheld_since: None };
        table.entry(labels).or_insert_with(create).metrics.clone()
    }

    /// Every series, for an export. Drops the series that have had no holder for [`KEEP_UNHELD`].
    pub(super) fn take(&self, now: Instant) -> Vec<(L, Arc<M>)> {
        let mut table = self.lock();
        let mut taken = Vec::with_capacity(table.len());
        table.retain(|labels, series| {
            let stays = series.stays(now);
            taken.push((labels.clone(), series.metrics.clone()));
            stays
        });
        taken
    }

    /// The sum of a number over the current series. It wraps around.
    pub(super) fn sum(&self, number: impl Fn(&L, &M) -> u64) -> u64 {
        self.lock().iter().fold(0, |sum, (labels, series)| sum.wrapping_add(number(labels, &series.metrics)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<L, Series<M>>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;
