//! Writes the trust anchors into the Kubernetes objects from which clients read them: ConfigMaps for Pods, webhook
//! configurations for API servers. Only the leading replica writes; it restores anchors that another client changed or
//! removed.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;

use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::{Config, Event};
use kube::{Client, Resource};
use leno_install::names::CONTROL;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use super::lease::while_leading;
use super::signing::Signing;
use crate::api_server::ApiServer;
use crate::retry::FailingNamespaces;

/// A kind of object that contains the trust anchors.
pub(crate) trait Carrier:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
    /// Returns the client for the kind's objects in a namespace; `namespace` is empty for objects of cluster scope.
    fn api(client: Client, namespace: &str) -> Api<Self>;

    /// Returns the patch that puts the anchors (PEM) into the object `found`; `None` if no write is needed.
    fn correction(found: Option<&Self>, anchors: &str) -> Option<Patch<Value>>;
}

/// Keeps the anchors in every existing object called `name`. Also keeps an object of this name with the anchors in each
/// namespace of `needed`. Never returns; writes only while `leads` is true.
pub(crate) async fn keep_anchors<K: Carrier>(
    api_server: &ApiServer,
    name: &str,
    mut needed: watch::Receiver<BTreeSet<Box<str>>>,
    mut leads: watch::Receiver<bool>,
    mut signing: watch::Receiver<Arc<Signing>>,
) -> Infallible {
    let client = api_server.client();
    let config = Config::default().fields(&format!("metadata.name={name}"));
    let mut events = api_server.watch(Api::<K>::all(client.clone()), config);
    // The current object of each namespace.
    let mut known: HashMap<Box<str>, K> = HashMap::new();
    let mut was_listed = false;
    let mut failing = FailingNamespaces::default();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Ok(Event::Init) => (known, was_listed) = (HashMap::new(), false),
                Ok(Event::InitApply(object) | Event::Apply(object)) => keep(&mut known, object),
                Ok(Event::InitDone) => was_listed = true,
                Ok(Event::Delete(object)) => drop(known.remove(namespace(&object))),
                // Ignore an error: the watch logs its failures, and begins again by itself.
                Err(_) => {}
            },
            Ok(()) = needed.changed() => {}
            Ok(()) = leads.changed() => {}
            Ok(()) = signing.changed() => {}
            () = failing.due(), if was_listed => {}
        }
        if !was_listed {
            continue;
        }
        leads.mark_unchanged();
        let anchors = signing.borrow_and_update().anchors_pem.clone();
        let wanted: BTreeSet<Box<str>> = needed.borrow_and_update().iter().chain(known.keys()).cloned().collect();
        let correcting = correct(&client, name, &wanted, &anchors, &mut known, &mut failing);
        if while_leading(leads.clone(), correcting).await.is_none() {
            // Forget the failures: when this replica leads again, it must write at once.
            failing = FailingNamespaces::default();
        }
    }
}

/// Writes the anchors into the object called `name` in each namespace of `wanted`, unless the object already has them
/// or the namespace's next attempt is not due.
async fn correct<K: Carrier>(
    client: &Client,
    name: &str,
    wanted: &BTreeSet<Box<str>>,
    anchors: &str,
    known: &mut HashMap<Box<str>, K>,
    failing: &mut FailingNamespaces,
) {
    let kind = K::kind(&());
    failing.retain(|namespace| wanted.contains(namespace));
    for namespace in wanted {
        let Some(change) = K::correction(known.get(namespace), anchors) else {
            failing.succeeded(namespace);
            continue;
        };
        if !failing.is_due(namespace) {
            continue;
        }
        match write(&K::api(client.clone(), namespace), name, &change).await {
            Ok(written) => {
                tracing::info!(%namespace, "the trust anchors were written into {kind} {name}");
                keep(known, written);
                failing.succeeded(namespace);
            }
            Err(error) => failing.failed(namespace, format_args!("{kind} {name} with the trust anchors"), &error),
        }
    }
}

fn keep<K: Carrier>(known: &mut HashMap<Box<str>, K>, mut object: K) {
    // Drop managedFields: we never read it, and it doubles the object's size.
    object.meta_mut().managed_fields = None;
    known.insert(namespace(&object).into(), object);
}

/// An object's namespace; empty for objects of cluster scope.
fn namespace<K: Carrier>(object: &K) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

async fn write<K: Carrier>(objects: &Api<K>, name: &str, change: &Patch<Value>) -> Result<K, kube::Error> {
    let ours = PatchParams::apply(CONTROL);
    let params = if matches!(change, Patch::Apply(_)) { ours.force() } else { ours };
    objects.patch(name, &params, change).await
}

#[cfg(test)]
#[path = "anchors_tests.rs"]
mod tests;
