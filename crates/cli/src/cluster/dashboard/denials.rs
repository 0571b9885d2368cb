//! Counts the calls that policies denied, by policy and caller. No I/O; the current time is an argument.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::mesh::id;
use crate::cluster::readings::Readings;
use crate::cluster::scrape::{Sample, Scrape};
use crate::cluster::source::{Growth, Measured};
use crate::cluster::stat::counts::DENIALS;
use crate::cluster::stat::peer::caller_name;

/// Maximum number of [`Key`]s whose denials the dashboard remembers. It ignores the denials of further keys.
const DENIALS_MAX: usize = 1_000;
/// Time for which the page marks a denial as recent.
const RECENT: Duration = Duration::from_secs(300);

/// A caller whose calls were denied, the workload and port that it called, and the policy that denied the calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Key {
    /// The workload that was called.
    pub(super) workload: String,
    pub(super) port: String,
    pub(super) caller: String,
    pub(super) policy: Policy,
}

/// The policy that denied a call. Its text is `AuthorizationPolicy shop/only-web`, or `the default policy deny`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Policy {
    /// An AuthorizationPolicy, named as `shop/only-web`.
    Authorization(String),
    /// The proxy's default inbound policy, for example `deny`. It applies where no AuthorizationPolicy does.
    Default(String),
    /// Unknown policies: the proxy reached its limit of metric series, and counts all further denials in one common
    /// series.
    Others,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authorization(name) => write!(f, "AuthorizationPolicy {name}"),
            Self::Default(name) => write!(f, "the default policy {name}"),
            Self::Others => f.write_str("other policies"),
        }
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The denials of all workloads.
#[derive(Default)]
pub(super) struct Denials {
    known: BTreeMap<Key, Known>,
}

struct Known {
    /// Number of denials that the running proxies have counted. A proxy drops the count of a caller about 10 minutes
    /// after the caller's last connection.
    total: f64,
    /// The time at which the dashboard last saw `total` grow, counted from the start of the dashboard. `None` if the
    /// dashboard has not seen `total` grow.
    grew_at: Option<Duration>,
}

/// A row of the table of denials.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) key: Key,
    pub(super) total: f64,
    /// Seconds since the last denial; `None` if the dashboard has not seen a denial happen.
    pub(super) last_s: Option<u64>,
    pub(super) is_recent: bool,
}

impl Denials {
    /// Updates the denials with the latest counts of all proxies.
    pub(super) fn take(&mut self, readings: &Readings, now: Duration) {
        let totals = sums(readings, |proxy| &proxy.now);
        let grown = sums(readings, |proxy| &proxy.grown);
        // When a proxy ends, its counts disappear from the readings. Keep its recent denials nevertheless.
        self.known.retain(|key, known| totals.contains_key(key) || known.is_recent(now));
        for (key, total) in totals {
            // The first reading of a proxy adds its old denials to the total, which does not make them recent. In the
            // first 30 s, most readings are first readings, so trust only the growth between two readings of the same
            // proxy.
            let may_be_recent = grown.contains_key(&key) || now > RECENT / 10;
            let has_room = self.known.len() < DENIALS_MAX;
            match self.known.get_mut(&key) {
                Some(known) => {
                    if may_be_recent && total > known.total {
                        known.grew_at = Some(now);
                    }
                    known.total = total;
                }
                None if has_room => {
                    self.known.insert(key, Known { total, grew_at: may_be_recent.then_some(now) });
                }
                None => {}
            }
        }
    }

    /// Returns the rows that `wanted` selects: first the recent denials, then the older denials. Within each group, the
    /// row with the most denials comes first.
    pub(super) fn rows(&self, now: Duration, wanted: impl Fn(&Key) -> bool) -> Vec<Row> {
        let row = |(key, known): (&Key, &Known)| Row {
            key: key.clone(),
            total: known.total,
            last_s: known.grew_at.map(|at| now.saturating_sub(at).as_secs()),
            is_recent: known.is_recent(now),
        };
        let mut rows: Vec<Row> = self.known.iter().filter(|(key, _)| wanted(key)).map(row).collect();
        rows.sort_by(|a, b| b.is_recent.cmp(&a.is_recent).then(b.total.total_cmp(&a.total)));
        rows
    }
}

impl Known {
    fn is_recent(&self, now: Duration) -> bool {
        self.grew_at.is_some_and(|at| now.saturating_sub(at) < RECENT)
    }
}

/// Adds up the denials of each [`Key`] over all proxies. `page` selects what to add: a proxy's latest counts, or their
/// growth. Omits sums that are 0.
fn sums(readings: &Readings, page: impl Fn(&Growth) -> &Scrape) -> BTreeMap<Key, f64> {
    let mut sums = BTreeMap::<Key, f64>::new();
    for measured in readings.measured() {
        let samples =
            measured.proxies.iter().flat_map(|proxy| DENIALS.iter().flat_map(|name| page(proxy).all(name, &[])));
        for sample in samples.filter(|sample| sample.value > 0.0) {
            *sums.entry(key(measured, sample)).or_default() += sample.value;
        }
    }
    sums
}

fn key(measured: &Measured, sample: &Sample) -> Key {
    let name = sample.label("authz_name");
    let policy = match sample.label("authz_kind") {
        "authorizationpolicy" => Policy::Authorization(name.to_owned()),
        "default" => Policy::Default(name.to_owned()),
        _ => Policy::Others,
    };
    Key {
        workload: id(&measured.namespace, &measured.name),
        port: sample.label("target_port").to_owned(),
        caller: caller_name(sample),
        policy,
    }
}

#[cfg(test)]
#[path = "denials_tests.rs"]
mod tests;
