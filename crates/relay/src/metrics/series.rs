//! Series whose labels are only known at run time, and their lifetime.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a series is still exported after the first scrape at which it is not in use. A series is in use if it
/// has a holder, or has had one since the scrape before. A holder is a part of the relay that keeps a handle of the
/// series. A client that returns within this time continues its counts, so that Prometheus sees no reset.
pub(super) const KEEP_UNHELD: Duration = Duration::from_secs(600);

/// A table with a limited number of series. `L` are the labels of a series, and `M` are its numbers. `R` is the *rest*:
/// the numbers that the table keeps from series that have ended.
///
/// A thread locks the table to fetch the handle of a series, for a new connection, cluster or target of a client. A
/// scrape locks the table, too. Later calls use the handle and need no lock.
#[derive(Debug)]
pub(super) struct SeriesTable<L, M, R = ()> {
    limit: usize,
    /// Adds the numbers of a series that ends to the rest.
    keep_rest: fn(&mut R, &L, &M),
    content: Mutex<Content<L, M, R>>,
}

/// Invariant: each call is counted either in a series or in the rest, never in both.
#[derive(Debug)]
struct Content<L, M, R> {
    series: HashMap<L, Series<M>>,
    rest: R,
}

/// One worker's series in an export.
#[derive(Debug)]
pub(super) struct Part<L, M> {
    pub(super) labels: L,
    pub(super) metrics: Arc<M>,
    /// Whether the worker may still count calls in the series.
    pub(super) is_held: bool,
}

#[derive(Debug)]
struct Series<M> {
    metrics: Arc<M>,
    /// Whether a handle was fetched since the last scrape. A holder may keep its handle only between two scrapes, for
    /// example for a short connection.
    is_fetched: bool,
    /// Time of the first scrape at which the series was not in use.
    unheld_since: Option<Instant>,
}

impl<M> Series<M> {
    /// Returns whether a handle exists outside the table. If no such handle exists, only the table can create one. So
    /// the answer holds as long as the table is locked.
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.metrics) > 1
    }

    /// Returns whether the series has a holder, or has had one since the last scrape.
    fn is_used(&self) -> bool {
        self.is_held() || self.is_fetched
    }

    /// Returns whether to keep the series after a scrape at `now`. `is_sum_used`: this series is in use, or another
    /// series that is added to the same exported counter is (see [`take_sums`]).
    fn stays(&mut self, now: Instant, is_sum_used: bool) -> bool {
        self.is_fetched = false;
        if is_sum_used {
            self.unheld_since = None;
            return true;
        }
        now.duration_since(*self.unheld_since.get_or_insert(now)) < KEEP_UNHELD
    }
}

impl<L: Clone + Eq + Hash, M: Default> SeriesTable<L, M> {
    /// Creates a table for `limit` series.
    pub(super) fn new(limit: usize) -> Self {
        Self::with_rest(limit, |(), _, _| {})
    }
}

impl<L: Clone + Eq + Hash, M: Default, R: Clone + Default> SeriesTable<L, M, R> {
    /// Creates a table for `limit` series. `keep_rest` adds the numbers of a series that ends to the rest.
    pub(super) fn with_rest(limit: usize, keep_rest: fn(&mut R, &L, &M)) -> Self {
        Self { limit, keep_rest, content: Mutex::new(Content { series: HashMap::new(), rest: R::default() }) }
    }

    /// Returns the series with these labels.
    ///
    /// If the table is full, returns the series of `beyond_limit`, which the table accepts above its limit. So
    /// `beyond_limit` must map all possible labels to a few sets of labels.
    pub(super) fn get(&self, labels: &L, beyond_limit: impl FnOnce(&L) -> L) -> Arc<M> {
        let mut content = self.lock();
        if let Some(series) = content.series.get_mut(labels) {
            series.is_fetched = true;
            return series.metrics.clone();
        }
        if content.series.len() >= self.limit {
            self.end_series(&mut content, |_, series| series.is_held());
        }
        let labels = if content.series.len() < self.limit { labels.clone() } else { beyond_limit(labels) };
        let create = || Series { metrics: Arc::default(), is_fetched: false, unheld_since: None };
        let series = content.series.entry(labels).or_insert_with(create);
        series.is_fetched = true;
        series.metrics.clone()
    }

    /// Returns, for an export, every series and the table's rest: the numbers of the series that have ended. Drops the
    /// series that have not been in use for [`KEEP_UNHELD`]. `is_sum_used` returns whether any series that is added to
    /// the same exported counter is in use.
    fn take(&self, now: Instant, is_sum_used: impl Fn(&L) -> bool) -> (Vec<Part<L, M>>, R) {
        let mut content = self.lock();
        let mut parts = Vec::with_capacity(content.series.len());
        // Copy the rest before `end_series` adds the ended series to it. The returned list contains these series, so a
        // later copy would count their numbers twice.
        let rest = content.rest.clone();
        self.end_series(&mut content, |labels, series| {
            let (is_held, is_used) = (series.is_held(), series.is_used());
            let stays = series.stays(now, is_used || is_sum_used(labels));
            parts.push(Part { labels: labels.clone(), metrics: series.metrics.clone(), is_held });
            stays
        });
        (parts, rest)
    }

    /// Drops the series for which `stays` returns `false`, and adds their numbers to the rest.
    fn end_series(&self, content: &mut Content<L, M, R>, mut stays: impl FnMut(&L, &mut Series<M>) -> bool) {
        let Content { series, rest } = content;
        series.retain(|labels, series| {
            let stays = stays(labels, series);
            if !stays {
                (self.keep_rest)(rest, labels, &series.metrics);
            }
            stays
        });
    }

    /// Returns the exported counters to which a series in use is added. `sum_of` maps the labels of a series to its
    /// exported counter.
    fn used_sums<S>(&self, sum_of: impl Fn(&L) -> S) -> Vec<S> {
        let content = self.lock();
        content.series.iter().filter(|(_, series)| series.is_used()).map(|(labels, _)| sum_of(labels)).collect()
    }

    /// Returns the sum of a number over the current series. The sum wraps around.
    pub(super) fn sum(&self, number: impl Fn(&L, &M) -> u64) -> u64 {
        self.lock().series.iter().fold(0, |sum, (labels, series)| sum.wrapping_add(number(labels, &series.metrics)))
    }

    fn lock(&self) -> MutexGuard<'_, Content<L, M, R>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns, for an export, every series of all workers' tables, and the rest of each table: the numbers of the series
/// that have ended.
///
/// Exported counters are sums over series: of all workers, and sometimes of several labels, which `sum_of` maps to the
/// same value. If one of these series ended before the others, the sum would decrease. Prometheus takes a decrease for
/// a reset, and counts the whole remaining value again. So the series of a sum end together, when no series of the sum
/// has been in use for [`KEEP_UNHELD`]. Exception: a full table drops its series without a holder at once, so a sum
/// may decrease.
pub(super) fn take_sums<'a, L, M, R, S>(
    tables: impl Iterator<Item = &'a SeriesTable<L, M, R>>,
    sum_of: impl Fn(&L) -> S,
    now: Instant,
) -> (Vec<Part<L, M>>, Vec<R>)
where
    L: Clone + Eq + Hash + 'a,
    M: Default + 'a,
    R: Clone + Default + 'a,
    S: Eq + Hash,
{
    let tables: Vec<_> = tables.collect();
    let used: HashSet<S> = tables.iter().flat_map(|table| table.used_sums(&sum_of)).collect();
    let (parts, rests): (Vec<_>, Vec<_>) =
        tables.iter().map(|table| table.take(now, |labels| used.contains(&sum_of(labels)))).unzip();
    (parts.into_iter().flatten().collect(), rests)
}

/// Returns every series of all workers' tables, for an export of gauges. For counters, use [`take_sums`].
pub(super) fn take_current<'a, L, M>(
    tables: impl Iterator<Item = &'a SeriesTable<L, M>>,
    now: Instant,
) -> impl Iterator<Item = (L, Arc<M>)>
where
    L: Clone + Eq + Hash + 'a,
    M: Default + 'a,
{
    tables.flat_map(move |table| table.take(now, |_| false).0).map(|part| (part.labels, part.metrics))
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;
