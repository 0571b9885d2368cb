//! Watches the cluster and turns events into [`Change`]s for the index.
//!
//! Each kind has its own watch, so that a failing watch does not delay the other watches. `lasting` keeps a watch
//! going, and `hearing` measures how long the watch has been silent; other parts of the control plane use `lasting` and
//! `hearing` too. Objects are parsed as they arrive, and unneeded parts are dropped at once. Objects of kinds from
//! CustomResourceDefinitions are parsed one by one, so that an object with an unknown field affects no other object.

mod backoff;
mod definitions;
mod follow;
mod hearing;
mod kinds;
mod lasting;

use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Config;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::api_server::ApiServer;
use crate::index::{Change, Kind};
use definitions::Definitions;
use follow::Follower;
pub(crate) use hearing::{Hearing, is_list_or_watch};
pub(crate) use kinds::resource;
pub(crate) use lasting::Lasting;

/// Capacity of the channel for changes from the watches to the index. The watches pause while the channel is full.
pub(crate) const CHANGES_MAX: usize = 1_024;

/// Number of objects in one page of a list. A page stays in memory, unparsed, until it has been read.
const PAGE_SIZE: u32 = 200;

/// Starts every watch. The watches run until the returned set is dropped.
pub(crate) fn start(api_server: &ApiServer, changes: &mpsc::Sender<(Kind, Change)>) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let follower = |kind| Follower::new(kind, changes.clone());
    let client = || api_server.client();

    let services: Api<Service> = Api::all(client());
    watches.spawn(follower(Kind::Service).run(api_server.watch(services, everything()), kinds::service));
    let slices: Api<EndpointSlice> = Api::all(client());
    watches.spawn(follower(Kind::EndpointSlice).run(api_server.watch(slices, everything()), kinds::endpoint_slice));
    let pods: Api<kinds::Pod> = Api::all(client());
    watches.spawn(follower(Kind::Pod).run(api_server.watch(pods, living()), kinds::pod));
    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(client());
    watches.spawn(follower(Kind::Namespace).run(api_server.watch(namespaces, everything()), kinds::namespace));
    let accounts: Api<PartialObjectMeta<ServiceAccount>> = Api::all(client());
    watches.spawn(follower(Kind::ServiceAccount).run(api_server.watch(accounts, everything()), kinds::service_account));

    let (publisher, definitions) = watch::channel(Definitions::None);
    watches.spawn(definitions::follow(api_server.clone(), publisher));
    for custom in kinds::CUSTOM {
        watches.spawn(follow_custom(custom, api_server.clone(), definitions.clone(), changes.clone()));
    }
    watches
}

/// Watches a kind while its CustomResourceDefinition is installed, for as long as the process runs.
async fn follow_custom(
    custom: kinds::Custom,
    api_server: ApiServer,
    mut definitions: watch::Receiver<Definitions>,
    changes: mpsc::Sender<(Kind, Change)>,
) {
    let objects: Api<DynamicObject> = Api::all_with(api_server.client(), &custom.resource());
    let definition = custom.definition();
    loop {
        let has = |known: &Definitions| known.as_ref().map(|names| names.contains(&definition));
        let Ok(is_installed) = definitions.wait_for(|known| has(known).is_some()).await.map(|known| has(&known)) else {
            return;
        };
        let follower = Follower::new(custom.kind, changes.clone());
        if is_installed == Some(true) {
            let watch = api_server.watch(objects.clone(), everything());
            tracing::info!(kind = %custom.kind, "the kind is installed and watched now");
            tokio::select! {
                () = follower.run(watch, custom.read()) => return,
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
