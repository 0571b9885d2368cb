//! The figures of all proxies together. No I/O, no clock.

use std::collections::BTreeSet;

use crate::cluster::reader::News;
use crate::cluster::readings::{Readings, SECOND};
use crate::cluster::stat::counts::{Counts, Figures, METHODS};
use crate::cluster::stat::methods::{Key, Row, rows};

/// The figures of all selected proxies.
#[derive(Default)]
pub(super) struct Board {
    readings: Readings,
    /// The methods that have had a call or a message since the start. The table keeps these methods while they are
    /// idle: otherwise rare calls would appear for one reading only.
    seen: BTreeSet<Key>,
}

/// All figures at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// A row for each method that has had a call or a message.
    pub(super) rows: Vec<Row>,
    /// Figures of all calls to the workloads; `None` if there are no metrics of such calls.
    pub(super) inbound: Option<Figures>,
    /// Figures of all calls that the workloads make.
    pub(super) outbound: Option<Figures>,
    pub(super) proxies: usize,
    /// Number of proxies that have been read at least twice.
    pub(super) counted: usize,
    /// For each proxy that does not answer, the reason.
    pub(super) silent: Vec<String>,
}

impl Board {
    pub(super) fn take(&mut self, news: News) {
        self.readings.take(news);
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        let mut found: Vec<Row> = self.readings.measured().flat_map(|measured| rows(measured, None, SECOND)).collect();
        self.seen.extend(found.iter().filter(|row| !row.is_idle()).map(|row| row.key.clone()));
        found.retain(|row| self.seen.contains(&row.key));
        let growths = self.readings.measured().flat_map(|measured| &measured.proxies);
        let totals = Counts::by(METHODS, growths, |sample| Some(sample.label("direction") == "inbound"));
        let members = || self.readings.members();
        Snapshot {
            rows: found,
            inbound: totals.get(&true).map(|counts| counts.figures(SECOND)),
            outbound: totals.get(&false).map(|counts| counts.figures(SECOND)),
            proxies: members().count(),
            counted: members().filter(|member| member.is_counted).count(),
            silent: members().filter_map(|member| member.silent.clone()).collect(),
        }
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
pub(super) mod tests;
