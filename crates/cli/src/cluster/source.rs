//! The proxies whose metrics the tool reads: proxies of workloads in a cluster, or proxies at admin addresses that this
//! machine can reach. `prometheus` takes the same counts from Prometheus instead.

mod taps;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use leno_lab::http;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::cluster::clock::BootInstant;
use crate::cluster::connect::{Cluster, ClusterError, Connect};
use crate::cluster::forward::{self, FORWARDS_MAX, Forwarded};
use crate::cluster::metrics::{self, Pages, PodKey, Reading};
use crate::cluster::pods;
use crate::cluster::printable::proxies;
use crate::cluster::progress::sign_of_life_or_line;
use crate::cluster::scrape::Scrape;
use crate::cluster::select::{Choice, Group, Kind};
use crate::cluster::stat::seconds;
use crate::run::running::{self, Running};

pub(crate) use taps::Tapped;

/// Maximum time for a proxy on this machine to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Options that select proxies.
#[derive(Args)]
pub(crate) struct Source {
    #[command(flatten)]
    choice: Choice,
    /// Proxies to use instead of a cluster: admin addresses that this machine can reach, for example 127.0.0.1:4191
    #[arg(
        long, value_name = "ADDR,...", value_delimiter = ',',
        conflicts_with_all = ["selection", "namespace", "all_namespaces", "context"]
    )]
    admin: Vec<SocketAddr>,
    #[command(flatten)]
    connect: Connect,
}

/// A proxy, and how the tool reaches its admin pages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProxyAt {
    /// The namespace of the proxy's workload; empty if the user named the proxy by its address.
    pub(crate) namespace: String,
    /// The workload's name, or the proxy's address. The dashboard uses the name to find the proxies of a Service, so it
    /// never contains the workload's kind.
    pub(crate) name: String,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    /// The name of a Pod, and its proxy's admin port.
    Pod(String, u16),
    Address(SocketAddr),
    /// The default admin port in a network namespace; the path of the namespace's file.
    Namespace(PathBuf),
}

/// The selected proxies, and the cluster through which to reach them.
pub(crate) struct Proxies {
    /// `None` if this machine reaches the proxies without a cluster.
    cluster: Option<Cluster>,
    proxies: Vec<ProxyAt>,
}

/// The counts of a group's proxies. A group is a workload, a Pod, a namespace or a proxy at an address.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The namespace; empty for a proxy that was named by its address.
    pub(crate) namespace: String,
    /// The workload's name, or the proxy's address. A single measurement of a cluster has [`Group::shown`] here.
    pub(crate) name: String,
    /// Number of Pods; `None` if only the Pods with a proxy are known.
    pub(crate) pods: Option<usize>,
    /// Number of Pods that have a proxy.
    pub(crate) meshed_pods: usize,
    pub(crate) proxies: Vec<Growth>,
}

/// The counts of one proxy.
#[derive(Debug)]
pub(crate) struct Growth {
    /// How much each counter grows in the window's length. The time between the two readings may differ from the
    /// window, so the growth is scaled.
    pub(crate) grown: Scrape,
    /// The metrics at the end of the window.
    pub(crate) now: Scrape,
}

impl Source {
    /// Reads the metrics of all selected proxies before and after `window`, and returns the growth of their counters.
    ///
    /// # Errors
    /// If the cluster does not answer, no Pod has the given name, or no proxy at the given addresses answers.
    pub(crate) async fn measure(&self, window: Duration) -> Result<Vec<Measured>, ClusterError> {
        if self.admin.is_empty() { self.measure_cluster(window).await } else { self.measure_local(window).await }
    }

    /// The selected workloads.
    pub(crate) fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Whether the user chose workloads, a cluster or addresses.
    pub(crate) fn is_explicit(&self) -> bool {
        !self.admin.is_empty() || self.choice.is_explicit() || self.connect.is_explicit()
    }

    /// Returns the arguments with which another command reads the same proxies, each after a space.
    pub(crate) fn options(&self) -> String {
        match self.admin.is_empty() {
            true => self.choice.options() + &self.connect.options(),
            false => admin_option(&self.admin),
        }
    }

    /// Returns the selected proxies that are running.
    ///
    /// # Errors
    /// If the cluster does not answer, or no Pod has the given name.
    pub(crate) async fn proxies(&self) -> Result<Proxies, ClusterError> {
        if !self.admin.is_empty() {
            return Ok(Proxies::on_this_machine(self.admin.iter().copied().map(ProxyAt::address).collect()));
        }
        let cluster = self.connect.cluster().await?;
        let groups = self.choice.or_all(Kind::Workloads)?.groups(&cluster, &self.choice.scope).await?;
        Ok(Proxies { cluster: Some(cluster), proxies: running_proxies(&groups) })
    }

    async fn measure_cluster(&self, window: Duration) -> Result<Vec<Measured>, ClusterError> {
        let selection = self.choice.or_all(Kind::Workloads)?;
        let cluster = self.connect.cluster().await?;
        let groups = selection.groups(&cluster, &self.choice.scope).await?;
        let (before, after) = pages(&cluster, &groups, window).await;
        Ok(groups.iter().map(|group| Measured::of(group, &before, &after, window)).collect())
    }

    async fn measure_local(&self, window: Duration) -> Result<Vec<Measured>, ClusterError> {
        let proxies = self.proxies().await?;
        let before = proxies.scrape().await?;
        let progress = sign_of_life_or_line(&counting(before.len(), window));
        sleep(window).await;
        let after = proxies.scrape().await?;
        progress.finish_and_clear();
        // Skip proxies that did not answer the first query; they were reported after that query.
        let measured = after.into_iter().filter_map(|(proxy, now)| {
            let before = before.get(proxy)?;
            Some(Measured {
                namespace: proxy.namespace.clone(),
                name: proxy.name.clone(),
                pods: Some(1),
                meshed_pods: 1,
                proxies: vec![Growth::between(before, &now, window)],
            })
        });
        Ok(measured.collect())
    }
}

/// Returns the running proxies of the groups' Pods.
fn running_proxies(groups: &[Group]) -> Vec<ProxyAt> {
    let mut proxies = Vec::new();
    for group in groups {
        let running = group.pods.iter().filter(|pod| pods::is_meshed(pod) && pods::has_proxy_started(pod));
        proxies.extend(running.map(|pod| ProxyAt {
            namespace: group.namespace.clone(),
            name: group.name.clone(),
            place: Place::Pod(pod.name_any(), pods::admin_port(pod)),
        }));
    }
    proxies
}

fn admin_option(addresses: &[SocketAddr]) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    format!(" --admin {}", addresses.join(","))
}

impl ProxyAt {
    /// A proxy at an admin address.
    pub(crate) fn address(address: SocketAddr) -> Self {
        Self { namespace: String::new(), name: address.to_string(), place: Place::Address(address) }
    }

    /// A proxy of `leno run`.
    pub(crate) fn of_run(run: Running) -> Self {
        Self { namespace: run.namespace, name: run.service, place: Place::Namespace(run.network) }
    }

    /// Returns the options with which another command reads this proxy on this machine, each after a space; `None` if
    /// only `leno dashboard` and `leno problems` reach it.
    pub(crate) fn options(&self) -> Option<String> {
        match self.place {
            Place::Address(address) => Some(admin_option(&[address])),
            Place::Pod(..) | Place::Namespace(_) => None,
        }
    }

    /// The name of the proxy's Pod; `None` for a proxy outside a cluster.
    pub(crate) fn pod(&self) -> Option<&str> {
        match &self.place {
            Place::Pod(pod, _) => Some(pod),
            Place::Address(_) | Place::Namespace(_) => None,
        }
    }

    /// Returns a name that distinguishes this proxy from the other proxies of its workload.
    pub(crate) fn instance(&self) -> String {
        match &self.place {
            Place::Pod(pod, _) => pod.clone(),
            Place::Address(address) => address.to_string(),
            Place::Namespace(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

impl Proxies {
    /// Proxies that this machine reaches without a cluster.
    pub(crate) fn on_this_machine(proxies: Vec<ProxyAt>) -> Self {
        Self { cluster: None, proxies }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProxyAt> {
        self.proxies.iter()
    }

    /// Opens a tap at a proxy, and passes each line that the proxy sends to `each`. `selection` is JSON.
    ///
    /// A proxy ends a tap after an hour, or if the tool reads nothing for some time. A connection through the API
    /// server may break off sooner. Then this function first passes a [`Tapped::Ended`] to `each`, and tries to open
    /// another tap. Calls that end between the two taps are missing. If the proxy closes the tap without an error, this
    /// function passes a [`Tapped::Ended`] to `each`, and returns.
    ///
    /// # Errors
    /// If the proxy does not answer or rejects a tap, or a tap ends within a minute.
    pub(crate) async fn tap(
        &self,
        proxy: &ProxyAt,
        selection: &str,
        each: impl Fn(Tapped<'_>),
    ) -> Result<(), ClusterError> {
        let tap = async || self.tap_once(proxy, selection.to_owned(), |line| each(Tapped::Line(line))).await;
        taps::keep_open(proxy.pod().unwrap_or(&proxy.name), tap, |ended| each(Tapped::Ended(ended))).await
    }

    /// Opens a tap at a proxy, and calls `line` with each line when the line arrives, until the tap ends. Returns the
    /// reason for the end if the proxy names one.
    ///
    /// # Errors
    /// If the proxy does not answer, or answers with a status other than 200.
    async fn tap_once(
        &self,
        proxy: &ProxyAt,
        json: String,
        mut line: impl FnMut(&str),
    ) -> Result<Option<String>, ClusterError> {
        let mut reason = None;
        let line = |text: &str| {
            reason = reason.take().or_else(|| taps::reason(text));
            line(text);
        };
        let path = "/tap";
        let answer = match (&self.cluster, &proxy.place) {
            (Some(cluster), Place::Pod(pod, port)) => {
                let ask = async |stream: &mut Forwarded| {
                    http::post_for_lines(stream, path, json, line).await.map_err(|unreadable| unreadable.to_string())
                };
                forward::converse_long(cluster, &proxy.namespace, pod, *port, ask).await?
            }
            (None, Place::Pod(pod, _)) => return Err(no_cluster(pod)),
            (_, Place::Address(_) | Place::Namespace(_)) => {
                let failed = |why: String| no_page(proxy, path, &why);
                let connecting = timeout(ANSWER_MAX, connect(&proxy.place)).await;
                let late = || failed(format!("nothing within {} s", ANSWER_MAX.as_secs()));
                let stream = connecting.map_err(|_| late())?.map_err(failed)?;
                let answer = http::post_for_lines(stream, path, json, line).await;
                answer.map_err(|unreadable| failed(unreadable.to_string()))?
            }
        };
        match answer.status {
            200 => Ok(reason),
            status => {
                let what = format!("the proxy of {} answered {status} to {path}: {}", proxy.name, answer.body.trim());
                Err(ClusterError::new(
                    what,
                    "do as it says, or see whether the proxy has another version: leno version",
                ))
            }
        }
    }

    pub(crate) fn are_of_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.proxies.len()
    }

    /// Reads a page of every proxy, and returns each page with the time at which it arrived. Prints the proxies that do
    /// not answer.
    pub(crate) async fn read(&self, path: &str) -> Vec<(&ProxyAt, BootInstant, String)> {
        let (pages, silent) = self.ask(path).await;
        silent.iter().for_each(|error| eprintln!("leno: {error}"));
        pages
    }

    /// Reads the metrics of every proxy. Prints the proxies that do not answer.
    ///
    /// # Errors
    /// If no proxy answers. The error explains the failure of one proxy.
    async fn scrape(&self) -> Result<BTreeMap<&ProxyAt, Reading>, ClusterError> {
        let (pages, mut silent) = self.ask("/metrics").await;
        let last = silent.pop_if(|_| pages.is_empty());
        silent.iter().for_each(|error| eprintln!("leno: {error}"));
        match last {
            Some(error) => Err(error),
            None => {
                let reading = |(proxy, at, page): (_, _, String)| (proxy, Reading { at, page: Scrape::parse(&page) });
                Ok(pages.into_iter().map(reading).collect())
            }
        }
    }

    /// Reads a page of every proxy. Returns each page with the time at which it arrived, and the errors of the other
    /// proxies.
    pub(crate) async fn ask(&self, path: &str) -> (Vec<(&ProxyAt, BootInstant, String)>, Vec<ClusterError>) {
        let ask = |proxy| async move {
            let page = self.page(proxy, path).await;
            (proxy, BootInstant::now(), page)
        };
        let answers: Vec<_> = stream::iter(&self.proxies).map(ask).buffer_unordered(FORWARDS_MAX).collect().await;
        let (mut pages, mut silent) = (Vec::new(), Vec::new());
        for (proxy, at, answer) in answers {
            match answer {
                Ok(page) => pages.push((proxy, at, page)),
                Err(error) => silent.push(error),
            }
        }
        (pages, silent)
    }

    /// Lists the proxies that `source` selects once more, because Pods may have started or ended since the first list.
    /// The list may be empty: between the end of a workload's only Pod and its successor, no Pod has the given name.
    ///
    /// # Errors
    /// If the cluster does not answer.
    pub(crate) async fn list_again(&self, source: &Source) -> Result<Vec<ProxyAt>, ClusterError> {
        let Some(cluster) = &self.cluster else { return Ok(self.proxies.clone()) };
        let selection = source.choice.or_all(Kind::Workloads)?;
        Ok(running_proxies(&selection.groups_or_none(cluster, &source.choice.scope).await?))
    }

    /// Reads a page of one proxy.
    ///
    /// # Errors
    /// If the proxy does not answer, or answers with a status other than 200.
    pub(crate) async fn page(&self, proxy: &ProxyAt, path: &str) -> Result<String, ClusterError> {
        match (&self.cluster, &proxy.place) {
            (Some(cluster), Place::Pod(pod, port)) => forward::page(cluster, &proxy.namespace, pod, *port, path).await,
            (None, Place::Pod(pod, _)) => Err(no_cluster(pod)),
            (_, Place::Address(_) | Place::Namespace(_)) => page(proxy, path).await,
        }
    }
}

impl Growth {
    /// Returns the growth between two readings of a proxy, scaled to the length of `window`. The time between the two
    /// readings differs from proxy to proxy, because a slow proxy delays the readings of others.
    fn between(before: &Reading, now: &Reading, window: Duration) -> Self {
        let elapsed = (now.at - before.at).max(Duration::from_millis(1));
        let grown = now.page.since(&before.page).times(window.as_secs_f64() / elapsed.as_secs_f64());
        Self { grown, now: now.page.clone() }
    }
}

impl Measured {
    fn of(group: &Group, before: &Pages, after: &Pages, window: Duration) -> Self {
        let grown = group.pods.iter().filter_map(|pod| {
            let key: PodKey = metrics::key(pod);
            let (before, now) = (before.get(&key)?, after.get(&key)?);
            Some(Growth::between(before, now, window))
        });
        Self {
            namespace: group.namespace.clone(),
            name: group.shown.clone(),
            pods: Some(group.pods.len()),
            meshed_pods: group.pods.iter().filter(|pod| pods::is_meshed(pod)).count(),
            proxies: grown.collect(),
        }
    }
}

/// Reads the metrics pages of the groups' proxies before and after `window`. The window begins only when all proxies
/// have been read once, so that the time between a proxy's two pages is not much shorter than `window`.
async fn pages(cluster: &Cluster, groups: &[Group], window: Duration) -> (Pages, Pages) {
    let meshed = || groups.iter().flat_map(|group| &group.pods).filter(|pod| pods::is_meshed(pod));
    let progress = sign_of_life_or_line(&counting(meshed().count(), window));
    let start = BootInstant::now();
    let (running, starting): (Vec<&Pod>, Vec<&Pod>) = meshed().partition(|pod| pods::has_proxy_started(pod));
    let mut before = metrics::pages(cluster, running.iter().copied()).await;
    sleep(window).await;
    // Skip proxies that did not answer the first query; they were reported after that query.
    let answered = running.into_iter().filter(|pod| before.contains_key(&metrics::key(pod)));
    let mut after = metrics::pages(cluster, answered).await;
    let started = metrics::pages_of_started(cluster, &starting).await;
    // Compare the page of a proxy that started within the window with an empty page: its counters began at zero.
    before.extend(started.keys().map(|key| (key.clone(), Reading { at: start, page: Scrape::default() })));
    after.extend(started);
    progress.finish_and_clear();
    (before, after)
}

fn counting(count: usize, window: Duration) -> String {
    format!("counting the calls of {} for {}", proxies(count), seconds(window))
}

/// Reads a page of a proxy on this machine.
async fn page(proxy: &ProxyAt, path: &str) -> Result<String, ClusterError> {
    let ask = async {
        let answer =
            http::get(connect(&proxy.place).await?, path).await.map_err(|unreadable| unreadable.to_string())?;
        match answer.status {
            200 => Ok(answer.body),
            status => Err(format!("it answered {status}")),
        }
    };
    let late = || Err(format!("nothing within {} s", ANSWER_MAX.as_secs()));
    timeout(ANSWER_MAX, ask).await.unwrap_or_else(|_| late()).map_err(|why| no_page(proxy, path, &why))
}

/// Connects to a proxy on this machine.
async fn connect(place: &Place) -> Result<TcpStream, String> {
    match place {
        Place::Address(address) => TcpStream::connect(address).await.map_err(|error| error.to_string()),
        Place::Namespace(network) => running::connect(network.clone()).await.map_err(|error| error.to_string()),
        Place::Pod(pod, _) => Err(format!("{pod} is a Pod")),
    }
}

fn no_page(proxy: &ProxyAt, path: &str, why: &str) -> ClusterError {
    match &proxy.place {
        Place::Address(address) => ClusterError::new(
            format!("the admin address {address} gave no page {path}: {why}"),
            "check that a proxy runs with --admin at this address, and which version it has",
        ),
        _ => ClusterError::new(
            format!("the proxy of {} gave no page {path}: {why}", proxy.name),
            "see its log, which leno run names at its start",
        ),
    }
}

fn no_cluster(pod: &str) -> ClusterError {
    ClusterError::new(format!("no cluster is known that has the Pod {pod}"), "name the cluster with --context")
}

#[cfg(test)]
#[path = "source_tests.rs"]
pub(crate) mod tests;
