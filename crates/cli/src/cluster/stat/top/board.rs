//! The last reading of each proxy, and the figures of all proxies together. No I/O, no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::reader::News;
use crate::cluster::scrape::Scrape;
use crate::cluster::source::{Growth, Measured, ProxyAt};
use crate::cluster::stat::counts::{Counts, Figures, METHODS};
use crate::cluster::stat::methods::{Key, Row, rows};

/// The unit of the stored growth: proxies are read at different times, so each proxy's growth is divided by its own
/// time between two readings.
const SECOND: Duration = Duration::from_secs(1);

/// All selected proxies.
#[derive(Default)]
pub(super) struct Board {
    /// By namespace and name.
    workloads: BTreeMap<(String, String), Workload>,
    /// The methods that have had a call or a message since the start. They stay in the table while they are idle:
    /// otherwise rare calls would appear for one reading only.
    seen: BTreeSet<Key>,
}

struct Workload {
    /// What the proxies of `members` count in a second, in the same order.
    measured: Measured,
    members: Vec<Member>,
}

struct Member {
    proxy: ProxyAt,
    /// When the last page arrived.
    read_at: Option<Instant>,
    /// Whether two pages have arrived.
    is_counted: bool,
    /// Why the proxy does not answer.
    silent: Option<String>,
}

/// All figures at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The methods that have had a call or a message.
    pub(super) rows: Vec<Row>,
    /// All calls to the workloads; `None` without metrics of such calls.
    pub(super) inbound: Option<Figures>,
    /// All calls that the workloads make.
    pub(super) outbound: Option<Figures>,
    pub(super) proxies: usize,
    /// Proxies that have been read twice.
    pub(super) counted: usize,
    /// Why each proxy that does not answer gave no answer.
    pub(super) silent: Vec<String>,
}

impl Board {
    pub(super) fn take(&mut self, news: News) {
        match news {
            News::Proxies(proxies) => self.list(&proxies),
            News::Page(proxy, page, at) => self.page(&proxy, page, at),
            News::Silent(proxy, why) => {
                if let Some((member, growth)) = self.member(&proxy) {
                    member.silent = Some(why);
                    // The page stays, so that calls in the silence count when the proxy answers again.
                    growth.grown = Scrape::default();
                }
            }
        }
    }

    fn list(&mut self, proxies: &BTreeSet<ProxyAt>) {
        for workload in self.workloads.values_mut() {
            let members = std::mem::take(&mut workload.members).into_iter();
            let both = members.zip(std::mem::take(&mut workload.measured.proxies));
            let (members, growths) = both.filter(|(member, _)| proxies.contains(&member.proxy)).unzip();
            (workload.members, workload.measured.proxies) = (members, growths);
        }
        self.workloads.retain(|_, workload| !workload.members.is_empty());
        for proxy in proxies {
            if self.member(proxy).is_none() {
                self.add(proxy.clone());
            }
        }
    }

    fn add(&mut self, proxy: ProxyAt) {
        let (namespace, name) = (proxy.namespace.clone(), proxy.name.clone());
        let workload = self.workloads.entry((namespace.clone(), name.clone())).or_insert_with(|| Workload {
            measured: Measured { namespace, name, pods: 0, meshed_pods: 0, proxies: Vec::new() },
            members: Vec::new(),
        });
        workload.members.push(Member { proxy, read_at: None, is_counted: false, silent: None });
        workload.measured.proxies.push(Growth { grown: Scrape::default(), now: Scrape::default() });
    }

    fn page(&mut self, proxy: &ProxyAt, page: Scrape, at: Instant) {
        let Some((member, growth)) = self.member(proxy) else { return };
        if let Some(before) = member.read_at.replace(at) {
            let elapsed = (at - before).max(Duration::from_millis(1));
            growth.grown = page.since(&growth.now).times(SECOND.as_secs_f64() / elapsed.as_secs_f64());
            member.is_counted = true;
        }
        growth.now = page;
        member.silent = None;
    }

    fn member(&mut self, proxy: &ProxyAt) -> Option<(&mut Member, &mut Growth)> {
        let workload = self.workloads.get_mut(&(proxy.namespace.clone(), proxy.name.clone()))?;
        let mut both = workload.members.iter_mut().zip(&mut workload.measured.proxies);
        both.find(|(member, _)| member.proxy == *proxy)
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        let measured = || self.workloads.values().map(|workload| &workload.measured);
        let mut found: Vec<Row> = measured().flat_map(|measured| rows(measured, None, SECOND)).collect();
        self.seen.extend(found.iter().filter(|row| !is_idle(row)).map(|row| row.key.clone()));
        found.retain(|row| self.seen.contains(&row.key));
        let growths = measured().flat_map(|measured| &measured.proxies);
        let totals = Counts::by(METHODS, growths, |sample| Some(sample.label("direction") == "inbound"));
        let members = || self.workloads.values().flat_map(|workload| &workload.members);
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

/// Whether no call began or ended, and no message passed, between the last two readings.
pub(super) fn is_idle(row: &Row) -> bool {
    let figures = &row.figures;
    figures.calls_per_second == 0.0 && figures.success_rate.is_none() && row.messages_per_second().is_none()
}

#[cfg(test)]
#[path = "board_tests.rs"]
pub(super) mod tests;
