//! Finds the installed kinds by the names of the cluster's CustomResourceDefinitions.

use std::collections::HashSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, ResourceExt};
use tokio::sync::watch;

use crate::api_server::ApiServer;

/// The names of the definitions; `None` before they have been listed.
pub(super) type Definitions = Option<HashSet<String>>;

/// Watches the definitions for as long as the process runs.
pub(super) async fn follow(api_server: ApiServer, known: watch::Sender<Definitions>) {
    let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(api_server.client());
    let mut events = api_server.watch(definitions, Config::default());
    let mut listing = HashSet::new();
    loop {
        // The watch logs its failures and goes on by itself.
        let Ok(event) = events.next().await else { continue };
        match event {
            Event::Init => listing.clear(),
            Event::InitApply(definition) => {
                listing.insert(definition.name_any());
            }
            Event::InitDone => {
                known.send_replace(Some(std::mem::take(&mut listing)));
            }
            Event::Apply(definition) => {
                let add =
                    |known: &mut Definitions| known.as_mut().is_some_and(|names| names.insert(definition.name_any()));
                known.send_if_modified(add);
            }
            Event::Delete(definition) => {
                let remove =
                    |known: &mut Definitions| known.as_mut().is_some_and(|names| names.remove(&definition.name_any()));
                known.send_if_modified(remove);
            }
        }
    }
}
