//! Keeps the latest reading of each proxy, and computes the growth of its counters per second. No I/O, no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::clock::BootInstant;
use super::reader::News;
use super::scrape::Scrape;
use super::source::{Growth, Measured, ProxyAt};

/// The period to which growth is converted: the readings store how much each counter grows in one second. They divide
/// the growth of each proxy's counters by the time between that proxy's own two pages, which differs from proxy to
/// proxy.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The readings of all selected proxies.
#[derive(Default)]
pub(crate) struct Readings {
    /// The workloads, by namespace and name.
    workloads: BTreeMap<(String, String), Workload>,
    period: Period,
}

/// The period over which the growth per second is averaged.
#[derive(Clone, Copy, Debug, Default)]
enum Period {
    /// The time between the last two `/metrics` responses of the proxy.
    #[default]
    LastTwoPages,
    /// A moving mean with this time constant.
    Moving(Duration),
    /// The time between the first and the last `/metrics` response of the proxy.
    SinceStart,
}

struct Workload {
    /// The counts per second of the proxies in `members`, in the same order.
    measured: Measured,
    members: Vec<Member>,
}

/// One proxy.
pub(crate) struct Member {
    pub(crate) proxy: ProxyAt,
    /// The time at which the proxy's first `/metrics` response arrived.
    first_read_at: Option<BootInstant>,
    /// The time at which the proxy's latest `/metrics` response arrived.
    read_at: Option<BootInstant>,
    /// Whether the proxy has been read at least twice, so that growth is known.
    pub(crate) is_counted: bool,
    /// Whether the next growth can be averaged with the stored growth. False before the second reading. Also false
    /// after the proxy was silent, except with [`Period::SinceStart`].
    has_mean: bool,
    /// The reason why the proxy does not answer; `None` if it answers.
    pub(crate) silent: Option<String>,
}

impl Readings {
    /// Creates readings whose growth is a moving mean with the time constant `mean_over`.
    pub(crate) fn with_means(mean_over: Duration) -> Self {
        Self { period: Period::Moving(mean_over), ..Self::default() }
    }

    /// Creates readings whose growth is the mean since the first reading of each proxy.
    pub(crate) fn since_start() -> Self {
        Self { period: Period::SinceStart, ..Self::default() }
    }

    pub(crate) fn take(&mut self, news: News) {
        match news {
            News::Proxies(proxies) => self.list(&proxies),
            News::Page(proxy, page, at) => self.page(&proxy, page, at),
            News::Silent(proxy, why) => self.silence(&proxy, why),
        }
    }

    /// The growth per second of the counters of each workload's proxies.
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
        workload.members.push(Member {
            proxy,
            first_read_at: None,
            read_at: None,
            is_counted: false,
            has_mean: false,
            silent: None,
        });
        workload.measured.proxies.push(Growth { grown: Scrape::default(), now: Scrape::default() });
    }

    /// Marks a proxy as silent. Keeps its last page, so that the calls during the silence are counted once the proxy
    /// answers again.
    fn silence(&mut self, proxy: &ProxyAt, why: String) {
        let period = self.period;
        let Some((member, growth)) = self.member(proxy) else { return };
        member.silent = Some(why);
        // Drop the growth: the current rates of a silent proxy are unknown. A mean since the first page remains valid.
        if !matches!(period, Period::SinceStart) {
            growth.grown = Scrape::default();
            member.has_mean = false;
        }
    }

    fn page(&mut self, proxy: &ProxyAt, page: Scrape, at: BootInstant) {
        let period = self.period;
        let Some((member, growth)) = self.member(proxy) else { return };
        let first_read_at = *member.first_read_at.get_or_insert(at);
        if let Some(before) = member.read_at.replace(at) {
            let elapsed = (at - before).max(Duration::from_millis(1));
            let grown = page.since(&growth.now).times(SECOND.as_secs_f64() / elapsed.as_secs_f64());
            let weight = period.weight(elapsed, (at - first_read_at).max(elapsed));
            growth.grown = match weight.filter(|_| member.has_mean) {
                Some(weight) => grown.mixed(&growth.grown, weight),
                None => grown,
            };
            member.is_counted = true;
            member.has_mean = true;
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

impl Period {
    /// Returns the weight of the newest growth in the mean, 0 to 1; `None` if the newest growth replaces the mean.
    /// `elapsed` is the time between the last two readings, and `total` the time since the first reading.
    fn weight(self, elapsed: Duration, total: Duration) -> Option<f64> {
        match self {
            Self::LastTwoPages => None,
            Self::Moving(mean_over) => Some(1.0 - (-elapsed.as_secs_f64() / mean_over.as_secs_f64()).exp()),
            Self::SinceStart => Some(elapsed.as_secs_f64() / total.as_secs_f64()),
        }
    }
}

#[cfg(test)]
#[path = "readings_tests.rs"]
mod tests;
