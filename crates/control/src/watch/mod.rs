//! Watches the cluster and turns events into [`Change`]s for the index.
//!
//! Each kind has its own watch, so that a failing watch does not delay the other watches. Objects are parsed as they
//! arrive, and unneeded parts are dropped at once. Objects of kinds from CustomResourceDefinitions are parsed one by
//! one, so that an object with an unknown field affects no other object.

mod backoff;
mod definitions;
mod follow;
mod kinds;

use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::index::{Change, Kind};
use definitions::Definitions;
use follow::Follower;
pub(crate) use kinds::resource;

/// Limit on changes that wait for the index; watches pause when the channel is full.
pub const CHANGES_MAX: usize = 1_024;

/// Objects in one page of a list. A page stays in memory, unparsed, until it has been read.
const PAGE_SIZE: u32 = 200;

/// Starts every watch. The watches run until the returned set is dropped.
pub fn start(client: &Client, changes: &mpsc::Sender<(Kind, Change)>) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let follower = |kind| Follower::new(kind, changes.clone());

    let services: Api<Service> = Api::all(client.clone());
    watches.spawn(follower(Kind::Service).run(move || watcher(services.clone(), everything()), kinds::service));
    let slices: Api<EndpointSlice> = Api::all(client.clone());
    watches
        .spawn(follower(Kind::EndpointSlice).run(move || watcher(slices.clone(), everything()), kinds::endpoint_slice));
    let pods: Api<kinds::Pod> = Api::all(client.clone());
    watches.spawn(follower(Kind::Pod).run(move || watcher(pods.clone(), living()), kinds::pod));
    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    watches.spawn(follower(Kind::Namespace).run(move || watcher(namespaces.clone(), everything()), kinds::namespace));
    let accounts: Api<PartialObjectMeta<ServiceAccount>> = Api::all(client.clone());
    watches.spawn(
        follower(Kind::ServiceAccount).run(move || watcher(accounts.clone(), everything()), kinds::service_account),
    );

    let (publisher, definitions) = watch::channel(Definitions::None);
    watches.spawn(definitions::follow(client.clone(), publisher));
    for custom in kinds::CUSTOM {
        watches.spawn(follow_custom(custom, client.clone(), definitions.clone(), changes.clone()));
    }
    watches
}

/// Watches a kind whenever it is installed.
async fn follow_custom(
    custom: kinds::Custom,
    client: Client,
    mut definitions: watch::Receiver<Definitions>,
    changes: mpsc::Sender<(Kind, Change)>,
) {
    let objects = Api::all_with(client, &custom.resource());
    let definition = custom.definition();
    loop {
        let has = |known: &Definitions| known.as_ref().map(|names| names.contains(&definition));
        let Ok(is_installed) = definitions.wait_for(|known| has(known).is_some()).await.map(|known| has(&known)) else {
            return;
        };
        let follower = Follower::new(custom.kind, changes.clone());
        if is_installed == Some(true) {
            let objects = objects.clone();
            tracing::info!(kind = %custom.kind, "the kind is installed and watched now");
            tokio::select! {
                () = follower.run(move || watcher(objects.clone(), everything()), custom.read()) => return,
                gone = definitions.wait_for(|known| has(known) == Some(false)) => if gone.is_err() { return },
            }
        }
        tracing::info!(kind = %custom.kind, "the kind is not installed, so it has no objects");
        if changes.send((custom.kind, Change::NotInstalled)).await.is_err() {
            return;
        }
        if definitions.wait_for(|known| has(known) == Some(true)).await.is_err() {
            return;
        }
    }
}

fn everything() -> Config {
    Config::default().page_size(PAGE_SIZE)
}

/// Excludes Pods that have finished: there may be many, and they serve no calls.
fn living() -> Config {
    everything().fields("status.phase!=Succeeded,status.phase!=Failed")
}
