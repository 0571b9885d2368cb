//! Collects the figures of all proxies for the table. No I/O, no clock.

use std::collections::BTreeSet;

use crate::cluster::reader::News;
use crate::cluster::readings::{Readings, SECOND};
use crate::cluster::stat::counts::{Counts, Figures, METHODS};
use crate::cluster::stat::methods::{Key, Row, rows};

/// The figures of all selected proxies.
#[derive(Default)]
pub(super) struct Board {
    readings: Readings,
    /// The methods that have had a call or a message since the start. The table keeps their rows while they are idle,
    /// because the row of a rarely called method would otherwise appear for one reading only.
    seen: BTreeSet<Key>,
}

/// All figures that the screen shows at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// A row for each method that has had a call or a message.
    pub(super) rows: Vec<Row>,
    /// Total figures of the calls to the workloads; `None` if the proxies have no metrics of inbound calls.
    pub(super) inbound: Option<Figures>,
    /// Total figures of the calls that the workloads make; `None` if the proxies have no metrics of outbound calls.
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
