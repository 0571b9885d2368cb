//! Sends the changes of one watched kind to the index.

use std::collections::HashSet;

use hyper::StatusCode;
use kube::Resource;
use kube::runtime::watcher::Event;
use tokio::sync::mpsc;

use super::lasting::{Lasting, status};
use crate::index::{Change, Content, Kind, Name};

pub(super) struct Follower {
    kind: Kind,
    changes: mpsc::Sender<(Kind, Change)>,
    /// The objects that the current list has contained so far; empty while no list is being received.
    listing: HashSet<Name>,
    was_listed: bool,
}

impl Follower {
    pub(super) fn new(kind: Kind, changes: mpsc::Sender<(Kind, Change)>) -> Self {
        Self { kind, changes, listing: HashSet::new(), was_listed: false }
    }

    /// Sends every change of the watched objects; `read` extracts the needed part of an object. Returns when the
    /// receiver of the changes has been dropped.
    pub(super) async fn run<K: Resource>(mut self, mut watch: Lasting<K>, read: impl Fn(&Name, K) -> Content) {
        loop {
            let change = match watch.next().await {
                Ok(event) => self.change(event, &read),
                // The kind's definition exists, but the API server does not know the kind: another version is
                // installed, or the API server does not serve the kind yet.
                Err(error) if status(&error) == Some(StatusCode::NOT_FOUND) && !self.was_listed => {
                    self.was_listed = true;
                    Some(Change::NotInstalled)
                }
                // The watch logs its failures and goes on by itself.
                Err(_) => None,
            };
            if let Some(change) = change
                && self.changes.send((self.kind, change)).await.is_err()
            {
                return;
            }
        }
    }

    fn change<K: Resource>(&mut self, event: Event<K>, read: &impl Fn(&Name, K) -> Content) -> Option<Change> {
        Some(match event {
            Event::Init => {
                self.listing.clear();
                return None;
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
        })
    }
}

fn name<K: Resource>(object: &K) -> Name {
    Name::new(object.meta().namespace.as_deref().unwrap_or_default(), object.meta().name.as_deref().unwrap_or_default())
}
