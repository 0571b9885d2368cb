//! Repeats one watch for the life of the process, whatever failures of the API server end it.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Instant;

use futures_util::{Stream, StreamExt};
use hyper::StatusCode;
use kube::Resource;
use kube::runtime::watcher::{self, Event};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::backoff::Outage;
use crate::index::{Change, Content, Kind, Name};

/// Sends the changes of one kind to the index.
pub(super) struct Follower {
    kind: Kind,
    changes: mpsc::Sender<(Kind, Change)>,
    /// The objects that the current list has contained so far; empty while no list is being received.
    listing: HashSet<Name>,
    was_listed: bool,
    outage: Option<Outage>,
}

/// The index is gone.
struct NobodyListens;

impl Follower {
    pub(super) fn new(kind: Kind, changes: mpsc::Sender<(Kind, Change)>) -> Self {
        Self { kind, changes, listing: HashSet::new(), was_listed: false, outage: None }
    }

    /// Runs the streams that `watch` makes, one after the other; `read` extracts the needed part of an object. Returns
    /// when the index is gone.
    pub(super) async fn run<K, S, R>(mut self, watch: impl Fn() -> S, read: R)
    where
        K: Resource,
        S: Stream<Item = watcher::Result<Event<K>>>,
        R: Fn(&Name, K) -> Content,
    {
        loop {
            let mut events = pin!(watch());
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        self.wait_out(&error).await;
                        // The watch cannot continue from its resource version: start a new stream, which begins with a
                        // list.
                        if status(&error) == Some(StatusCode::GONE) {
                            break;
                        }
                        continue;
                    }
                };
                if self.take(event, &read).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn take<K: Resource>(
        &mut self,
        event: Event<K>,
        read: &impl Fn(&Name, K) -> Content,
    ) -> Result<(), NobodyListens> {
        let change = match event {
            Event::Init => {
                self.listing.clear();
                return Ok(());
            }
            Event::InitApply(object) => {
                let name = name(&object);
                self.listing.insert(name.clone());
                let content = read(&name, object);
                Change::Applied(name, content)
            }
            Event::InitDone => {
                self.was_listed = true;
                Change::Listed(std::mem::take(&mut self.listing))
            }
            Event::Apply(object) => {
                let name = name(&object);
                let content = read(&name, object);
                Change::Applied(name, content)
            }
            Event::Delete(object) => Change::Removed(name(&object)),
        };
        if let Some(outage) = self.outage.take() {
            let after_s = outage.lasted(Instant::now()).as_secs_f64();
            tracing::info!(kind = %self.kind, after_s, "watched again");
        }
        self.changes.send((self.kind, change)).await.map_err(|_| NobodyListens)
    }

    async fn wait_out(&mut self, error: &watcher::Error) {
        let outage = self.outage.get_or_insert_with(|| Outage::new(Instant::now()));
        let wait = outage.wait();
        if outage.is_new() && status(error) != Some(StatusCode::GONE) {
            tracing::warn!(kind = %self.kind, %error, "the kind cannot be watched; its known objects stay in force");
        } else {
            tracing::debug!(kind = %self.kind, %error, retry_s = wait.as_secs_f64(), "the kind still cannot be watched");
        }
        // The kind's definition exists, but the API server does not know the kind: another version is installed, or the
        // API server does not serve the kind yet.
        if status(error) == Some(StatusCode::NOT_FOUND) && !self.was_listed {
            self.was_listed = true;
            self.changes.send((self.kind, Change::NotInstalled)).await.ok();
        }
        sleep(wait).await;
    }
}

fn name<K: Resource>(object: &K) -> Name {
    Name::new(object.meta().namespace.as_deref().unwrap_or_default(), object.meta().name.as_deref().unwrap_or_default())
}

/// The HTTP status that the API server answered, if it answered.
fn status(error: &watcher::Error) -> Option<StatusCode> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => StatusCode::from_u16(status.code).ok(),
        _ => None,
    }
}
