//! The latest readings of each proxy, with its counts per second. No I/O, no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::reader::News;
use super::scrape::Scrape;
use super::source::{Growth, Measured, ProxyAt};

/// The stored growth is the growth in this time. Proxies are read at different times, so each proxy's growth is divided
/// by its own time between two readings.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The readings of all selected proxies.
#[derive(Default)]
pub(crate) struct Readings {
    /// The workloads, by namespace and name.
    workloads: BTreeMap<(String, String), Workload>,
    /// Time constant of the moving means. `None`: no means, only the growth between the last two readings.
    mean_over: Option<Duration>,
}

struct Workload {
    /// The counts per second of the proxies in `members`, in the same order.
    measured: Measured,
    members: Vec<Member>,
}

/// One proxy.
pub(crate) struct Member {
    pub(crate) proxy: ProxyAt,
    /// When the last page arrived.
    read_at: Option<Instant>,
    /// Whether two pages have arrived.
    pub(crate) is_counted: bool,
    /// Why the proxy does not answer.
    pub(crate) silent: Option<String>,
}

impl Readings {
    /// Creates readings whose growth is a moving mean with the time constant `mean_over`.
    pub(crate) fn with_means(mean_over: Duration) -> Self {
        Self { mean_over: Some(mean_over), ..Self::default() }
    }

    pub(crate) fn take(&mut self, news: News) {
        match news {
            News::Proxies(proxies) => self.list(&proxies),
            News::Page(proxy, page, at) => self.page(&proxy, page, at),
            News::Silent(proxy, why) => {
                if let Some((member, growth)) = self.member(&proxy) {
                    member.silent = Some(why);
                    // Keep the last page, so that the calls during the silence are counted when the proxy answers
                    // again.
                    growth.grown = Scrape::default();
                }
            }
        }
    }

    /// The growth per second of the proxies of each workload.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Measured> {
        self.workloads.values().map(|workload| &workload.measured)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.workloads.values().flat_map(|workload| &workload.members)
    }

    /// All proxies, each with its growth.
    pub(crate) fn proxies(&self) -> impl Iterator<Item = (&Member, &Growth)> {
        self.workloads.values().flat_map(|workload| workload.members.iter().zip(&workload.measured.proxies))
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
            measured: Measured { namespace, name, pods: None, meshed_pods: 0, proxies: Vec::new() },
            members: Vec::new(),
        });
        workload.members.push(Member { proxy, read_at: None, is_counted: false, silent: None });
        workload.measured.proxies.push(Growth { grown: Scrape::default(), now: Scrape::default() });
    }

    fn page(&mut self, proxy: &ProxyAt, page: Scrape, at: Instant) {
        let mean_over = self.mean_over;
        let Some((member, growth)) = self.member(proxy) else { return };
        if let Some(before) = member.read_at.replace(at) {
            let elapsed = (at - before).max(Duration::from_millis(1));
            let grown = page.since(&growth.now).times(SECOND.as_secs_f64() / elapsed.as_secs_f64());
            growth.grown = match mean_over.filter(|_| member.is_counted) {
                Some(mean_over) => {
                    let weight = 1.0 - (-elapsed.as_secs_f64() / mean_over.as_secs_f64()).exp();
                    grown.mixed(&growth.grown, weight)
                }
                None => grown,
            };
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
}

#[cfg(test)]
#[path = "readings_tests.rs"]
mod tests;
