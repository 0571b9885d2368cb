//! Finds the installed kinds by the names of the cluster's CustomResourceDefinitions.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Instant;

use futures_util::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio::time::sleep;

use super::backoff::Outage;

/// The names of the definitions; `None` before they have been listed.
pub(super) type Definitions = Option<HashSet<String>>;

/// Watches the definitions for as long as the process runs.
pub(super) async fn follow(client: Client, known: watch::Sender<Definitions>) {
    let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client);
    let mut events = pin!(watcher(definitions, Config::default()));
    let mut listing = HashSet::new();
    let mut outage: Option<Outage> = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listing.clear(),
            Ok(Event::InitApply(definition)) => {
                listing.insert(definition.name_any());
            }
            Ok(Event::InitDone) => {
                known.send_replace(Some(std::mem::take(&mut listing)));
            }
            Ok(Event::Apply(definition)) => {
                let add =
                    |known: &mut Definitions| known.as_mut().is_some_and(|names| names.insert(definition.name_any()));
                known.send_if_modified(add);
            }
            Ok(Event::Delete(definition)) => {
                let remove =
                    |known: &mut Definitions| known.as_mut().is_some_and(|names| names.remove(&definition.name_any()));
                known.send_if_modified(remove);
            }
            Err(error) => {
                let outage = outage.get_or_insert_with(|| Outage::new(Instant::now()));
                let wait = outage.wait();
                if outage.is_new() {
                    tracing::warn!(%error, "CustomResourceDefinitions cannot be watched");
                }
                sleep(wait).await;
                continue;
            }
        }
        outage = None;
    }
}
