//! Reads the metrics pages of many proxies at the same time.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::clock::BootInstant;
use super::connect::{Cluster, ClusterError};
use super::forward::{self, FORWARDS_MAX};
use super::pods;
use super::scrape::Scrape;

/// Namespace and name of a Pod.
pub(crate) type PodKey = (String, String);

/// The parsed metrics page of a proxy, and when it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The time at which the page arrived.
    pub(crate) at: BootInstant,
    pub(crate) page: Scrape,
}

/// The metrics page of each Pod.
pub(crate) type Pages = BTreeMap<PodKey, Reading>;

/// The answer of each Pod's proxy, with the time at which it arrived.
type Answers = BTreeMap<PodKey, (BootInstant, Result<String, ClusterError>)>;

pub(crate) fn key(pod: &Pod) -> PodKey {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

/// Reads the metrics page of each Pod's proxy. If a page cannot be read, its entry has the error.
pub(crate) async fn texts<'a>(
    cluster: &Cluster,
    pods: impl Iterator<Item = &'a Pod>,
) -> BTreeMap<PodKey, Result<String, ClusterError>> {
    ask(cluster, pods).await.into_iter().map(|(key, (_, text))| (key, text)).collect()
}

async fn ask<'a>(cluster: &Cluster, pods: impl Iterator<Item = &'a Pod>) -> Answers {
    let targets: Vec<(PodKey, u16)> = pods.map(|pod| (key(pod), pods::admin_port(pod))).collect();
    let ask = |(key, port): (PodKey, u16)| async move {
        let text = forward::page(cluster, &key.0, &key.1, port, "/metrics").await;
        (key, (BootInstant::now(), text))
    };
    stream::iter(targets).map(ask).buffer_unordered(FORWARDS_MAX).collect().await
}

/// Reads and parses the metrics pages. Omits Pods that do not answer, and reports them on standard error.
pub(crate) async fn pages<'a>(cluster: &Cluster, pods: impl Iterator<Item = &'a Pod>) -> Pages {
    let (pages, silent) = parsed(ask(cluster, pods).await);
    for (_, error) in silent {
        eprintln!("leno: {error}");
    }
    pages
}

/// Reads the metrics pages of proxies that were still starting when the window began. Reports the proxies that do not
/// answer yet in a single line.
pub(crate) async fn pages_of_started(cluster: &Cluster, pods: &[&Pod]) -> Pages {
    let (pages, silent) = parsed(ask(cluster, pods.iter().copied()).await);
    if let Some(((namespace, pod), error)) = silent.first() {
        let more = match silent.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        eprintln!(
            "leno: Pods that were starting are not counted, because their proxies do not answer yet: {namespace}/{pod}{more}; {error}"
        );
    }
    pages
}

/// Parses the pages of the Pods that answered, and returns the errors of the other Pods separately.
fn parsed(answers: Answers) -> (Pages, Vec<(PodKey, ClusterError)>) {
    let (mut pages, mut silent) = (Pages::new(), Vec::new());
    for (key, (at, text)) in answers {
        match text {
            Ok(text) => drop(pages.insert(key, Reading { at, page: Scrape::parse(&text) })),
            Err(error) => silent.push((key, error)),
        }
    }
    (pages, silent)
}
