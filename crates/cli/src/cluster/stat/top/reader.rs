//! Reads the metrics of all proxies again and again: of each proxy one page at a time.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::cluster::forward::FORWARDS_MAX;
use crate::cluster::scrape::Scrape;
use crate::cluster::source::{Proxies, ProxyAt, Source};

/// Prefix of the metrics that count calls by method. Parsing the other metrics would take most of the time.
const PREFIX: &str = "leno_method_";
/// A proxy that takes longer than this to answer counts as silent until it answers.
const LATE: Duration = Duration::from_secs(3);
/// Interval between two lists of the selected proxies.
const LIST_EVERY: Duration = Duration::from_secs(10);

/// A result of the reading.
pub(super) enum News {
    /// The proxies that are selected from now on.
    Proxies(BTreeSet<ProxyAt>),
    /// What a proxy has counted so far, and when its answer arrived.
    Page(ProxyAt, Scrape, Instant),
    /// A proxy gave no answer, and why.
    Silent(ProxyAt, String),
}

/// Reads the proxies and never ends. The interval between two readings of a proxy is `every`, or longer if
/// the proxy is slow.
pub(super) async fn read(
    source: &Source,
    proxies: &Proxies,
    every: Duration,
    news: &UnboundedSender<News>,
) -> Infallible {
    let permits = Semaphore::new(FORWARDS_MAX);
    let permits = &permits;
    let turn = |proxy: ProxyAt| async move {
        let start = Instant::now();
        read_once(proxies, &proxy, permits, news).await;
        sleep_until((start + every).max(Instant::now() + every / 2)).await;
        proxy
    };
    let mut lists = pin!(stream::unfold((), |()| async move {
        sleep(LIST_EVERY).await;
        // If the list fails, the readings fail too, and report it.
        Some((proxies.list_again(source).await.ok(), ()))
    }));
    let mut listed: BTreeSet<ProxyAt> = proxies.iter().cloned().collect();
    let mut running = listed.clone();
    let mut turns: FuturesUnordered<_> = listed.iter().cloned().map(turn).collect();
    loop {
        tokio::select! {
            Some(proxy) = turns.next() => {
                if listed.contains(&proxy) {
                    turns.push(turn(proxy));
                } else {
                    running.remove(&proxy);
                }
            }
            list = lists.next() => {
                let Some(Some(list)) = list else { continue };
                listed = list.into_iter().collect();
                for proxy in &listed {
                    if running.insert(proxy.clone()) {
                        turns.push(turn(proxy.clone()));
                    }
                }
                // The receiver lives as long as this future, here and below.
                let _ = news.send(News::Proxies(listed.clone()));
            }
        }
    }
}

async fn read_once(proxies: &Proxies, proxy: &ProxyAt, permits: &Semaphore, news: &UnboundedSender<News>) {
    let permit = permits.acquire().await;
    let mut asking = pin!(proxies.page(proxy, "/metrics"));
    let answer = match timeout(LATE, &mut asking).await {
        Ok(answer) => answer,
        Err(_) => {
            // Others may ask meanwhile. So many proxies that hang do not delay those that answer.
            drop(permit);
            let why = format!("{} has not answered for {} s", proxy.name, LATE.as_secs());
            let _ = news.send(News::Silent(proxy.clone(), why));
            asking.await
        }
    };
    let _ = news.send(match answer {
        Ok(page) => News::Page(proxy.clone(), Scrape::parse_only(&page, PREFIX), Instant::now()),
        Err(error) => News::Silent(proxy.clone(), error.what),
    });
}
