//! Reads the metrics of all proxies periodically. Has at most one request to each proxy open at a time.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::cluster::clock::BootInstant;
use crate::cluster::forward::FORWARDS_MAX;
use crate::cluster::scrape::Scrape;
use crate::cluster::source::{Proxies, ProxyAt, Source};

/// If a proxy has not answered after this time, the reader reports the proxy as silent until it answers.
const LATE: Duration = Duration::from_secs(3);
/// Interval at which the reader lists the selected proxies again, as `leno tap` does.
pub(crate) const LIST_EVERY: Duration = Duration::from_secs(10);
/// Time between a failed reading and the next list of the proxies. Short, because the proxy's Pod may have ended, and
/// the new list then omits it.
const LIST_SOON: Duration = Duration::from_secs(1);
/// Maximum number of times that the pause between two readings of a proxy is doubled: each consecutive failed reading
/// doubles it once.
const DOUBLINGS_MAX: u32 = 3;

/// A message from [`read`].
pub(crate) enum News {
    /// The complete new list of the selected proxies.
    Proxies(BTreeSet<ProxyAt>),
    /// The metrics of a proxy, and the time at which they arrived.
    Page(ProxyAt, Scrape, BootInstant),
    /// A proxy that gave no answer, and the reason.
    Silent(ProxyAt, String),
}

/// Reads the proxies and never ends. The interval between two readings of a proxy is `every`, or longer if the proxy is
/// slow or gives no answer. Parses only the metrics whose names begin with one of the `prefixes`: parsing the other
/// metrics would take most of the time.
pub(crate) async fn read(
    source: &Source,
    proxies: &Proxies,
    every: Duration,
    prefixes: &[&str],
    news: &UnboundedSender<News>,
) -> Infallible {
    let permits = Semaphore::new(FORWARDS_MAX);
    let permits = &permits;
    let failed = Notify::new();
    let failed = &failed;
    let turn = |proxy: ProxyAt, failures: u32| async move {
        let start = Instant::now();
        let failures = match read_once(proxies, &proxy, permits, prefixes, news).await {
            Ok(()) => 0,
            // Do not report the first failure. The Pod may be ending; then the next list omits it before its next
            // reading.
            Err(_) if failures == 0 => {
                failed.notify_one();
                1
            }
            Err(why) => {
                let _ = news.send(News::Silent(proxy.clone(), why));
                failures.saturating_add(1)
            }
        };
        let every = every * (1 << failures.min(DOUBLINGS_MAX));
        sleep_until((start + every).max(Instant::now() + every / 2)).await;
        (proxy, failures)
    };
    let mut lists = pin!(stream::unfold((), |()| async move {
        let soon = async {
            failed.notified().await;
            sleep(LIST_SOON).await;
        };
        tokio::select! {
            () = sleep(LIST_EVERY) => {}
            () = soon => {}
        }
        // Ignore an error: if the cluster does not answer, the readings fail too, and the reader reports those
        // failures.
        Some((proxies.list_again(source).await.ok(), ()))
    }));
    let mut listed: BTreeSet<ProxyAt> = proxies.iter().cloned().collect();
    let mut running = listed.clone();
    let mut turns: FuturesUnordered<_> = listed.iter().cloned().map(|proxy| turn(proxy, 0)).collect();
    loop {
        tokio::select! {
            Some((proxy, failures)) = turns.next() => {
                if listed.contains(&proxy) {
                    turns.push(turn(proxy, failures));
                } else {
                    running.remove(&proxy);
                }
            }
            list = lists.next() => {
                let Some(Some(list)) = list else { continue };
                listed = list.into_iter().collect();
                for proxy in &listed {
                    if running.insert(proxy.clone()) {
                        turns.push(turn(proxy.clone(), 0));
                    }
                }
                // Sending cannot fail, here and below, because the receiver lives as long as this future.
                let _ = news.send(News::Proxies(listed.clone()));
            }
        }
    }
}

/// Reads the metrics of a proxy once. If the proxy has not answered after [`LATE`], reports it as silent and continues
/// to wait.
///
/// # Errors
/// The reason why the proxy gave no answer.
async fn read_once(
    proxies: &Proxies,
    proxy: &ProxyAt,
    permits: &Semaphore,
    prefixes: &[&str],
    news: &UnboundedSender<News>,
) -> Result<(), String> {
    let permit = permits.acquire().await;
    let mut asking = pin!(proxies.page(proxy, "/metrics"));
    let answer = match timeout(LATE, &mut asking).await {
        Ok(answer) => answer,
        Err(_) => {
            // Release the permit while waiting, so that proxies that hang do not delay the reading of other proxies.
            drop(permit);
            let why = format!("{} has not answered for {} s", proxy.name, LATE.as_secs());
            let _ = news.send(News::Silent(proxy.clone(), why));
            asking.await
        }
    };
    let page = answer.map_err(|error| error.what)?;
    let _ = news.send(News::Page(proxy.clone(), Scrape::parse_only(&page, prefixes), BootInstant::now()));
    Ok(())
}
