//! Exemplars: the latest traced call in each bucket of a histogram (OpenMetrics 1.0, section Exemplars).
//!
//! The encoder of the metrics accepts only exemplars of its own types, so our exemplars are added to the encoder's
//! text.

use std::fmt::Write as _;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::trace::TraceId;

/// A traced call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    pub trace: TraceId,
    pub duration: Duration,
    /// When the call ended.
    pub at: SystemTime,
}

/// The latest exemplar of each bucket, if there is one.
pub(super) type Latest<const BUCKETS: usize> = [Option<Exemplar>; BUCKETS];

/// The exemplars of one series. They take no memory before the first exemplar.
#[derive(Debug)]
pub(super) struct Exemplars<const BUCKETS: usize>(OnceLock<Box<Mutex<Latest<BUCKETS>>>>);

impl<const BUCKETS: usize> Default for Exemplars<BUCKETS> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<const BUCKETS: usize> Exemplars<BUCKETS> {
    /// Replaces the exemplar of a bucket. If a scrape is reading the exemplars at this moment, keeps the old exemplar,
    /// so that a worker never waits.
    pub(super) fn record(&self, bucket: usize, exemplar: Exemplar) {
        let all = self.0.get_or_init(|| Box::new(Mutex::new([None; BUCKETS])));
        if let Ok(mut all) = all.try_lock()
            && let Some(latest) = all.get_mut(bucket)
        {
            *latest = Some(exemplar);
        }
    }

    /// Replaces the exemplars in `latest` that are older than the exemplars of this series.
    pub(super) fn add_to(&self, latest: &mut Option<Box<Latest<BUCKETS>>>) {
        let Some(own) = self.0.get().and_then(|all| all.lock().ok()) else { return };
        let latest = latest.get_or_insert_with(|| Box::new([None; BUCKETS]));
        for (latest, own) in latest.iter_mut().zip(own.iter()) {
            let is_newer = |own: &&Exemplar| latest.is_none_or(|latest| latest.at < own.at);
            if let Some(newer) = own.as_ref().filter(is_newer) {
                *latest = Some(*newer);
            }
        }
    }
}

/// The exemplars of a histogram, in the order of its lines. Each exemplar has the index of its bucket's line among the
/// lines that begin with `prefix`.
#[derive(Debug, Default)]
pub struct ExemplarLines {
    /// The beginning of the lines of the histogram's buckets.
    pub(super) prefix: &'static str,
    pub(super) exemplars: Vec<(usize, Exemplar)>,
}

impl ExemplarLines {
    /// Adds the exemplars to a text of OpenMetrics.
    pub fn add_to(&self, text: String) -> String {
        let mut exemplars = self.exemplars.iter().peekable();
        if exemplars.peek().is_none() {
            return text;
        }
        let mut out = String::with_capacity(text.len() + self.exemplars.len() * 96);
        let mut line_number = 0;
        for line in text.lines() {
            out.push_str(line);
            if line.starts_with(self.prefix) {
                if let Some((_, exemplar)) = exemplars.next_if(|(number, _)| *number == line_number) {
                    let (trace, seconds) = (exemplar.trace, exemplar.duration.as_secs_f64());
                    let at = exemplar.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
                    // Writing to a string cannot fail.
                    let _ = write!(out, " # {{trace_id=\"{trace}\"}} {seconds} {at:.3}");
                }
                line_number += 1;
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
#[path = "exemplars_tests.rs"]
mod tests;
