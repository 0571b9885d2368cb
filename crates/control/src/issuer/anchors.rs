//! Writes the trust anchors into the Kubernetes objects from which clients read them: ConfigMaps for Pods, webhook
//! configurations for API servers. Only the leading replica writes; it restores anchors that another client changed or
//! removed, at most once a second in each namespace.

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

use super::signing::Signing;
use crate::api_server::ApiServer;
use crate::retry::Writes;

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
    let mut anchors: Arc<str> = "".into();
    let mut writes = Writes::default();
    loop {
        tokio::select! {
            // First see whether this replica still leads: otherwise it must not begin another write.
            biased;
            Ok(()) = leads.changed() => {}
            event = events.next() => match event {
                Ok(Event::Init) => (known, was_listed) = (HashMap::new(), false),
                Ok(Event::InitApply(object) | Event::Apply(object)) => keep(&mut known, object),
                Ok(Event::InitDone) => was_listed = true,
                Ok(Event::Delete(object)) => drop(known.remove(namespace(&object))),
                // Ignore an error: the watch logs its failures, and begins again by itself.
                Err(_) => {}
            },
            Ok(()) = needed.changed() => {}
            Ok(()) = signing.changed() => {}
            (namespace, (before, new_anchors, written)) = writes.next(|namespace| {
                let found = known.get(namespace);
                let change = K::correction(found, &anchors)?;
                let (objects, before) = (K::api(client.clone(), namespace), version(found));
                let new_anchors = anchors.clone();
                Some(async move { (before, new_anchors, write(objects, name, change).await) })
            }) => {
                let kind = K::kind(&());
                let object = format_args!("{kind} {name} with the trust anchors");
                match written {
                    Ok(written) => {
                        // If the watch has told of the object since the write began, it may know more than the answer.
                        let is_undone = K::correction(Some(&written), &new_anchors).is_some();
                        if version(known.get(&namespace)) == before {
                            keep(&mut known, written);
                        }
                        if is_undone {
                            writes.undone(&namespace, object);
                        } else {
                            tracing::info!(%namespace, "the trust anchors were written into {kind} {name}");
                            writes.accepted(&namespace, object);
                        }
                    }
                    Err(error) => writes.failed(&namespace, object, &error),
                }
                continue;
            }
        }
        if !*leads.borrow_and_update() {
            // Cancel the writes, and forget the failures: when this replica leads again, it must write at once.
            writes = Writes::default();
        } else if !was_listed {
            writes.pause();
        } else {
            anchors = signing.borrow_and_update().anchors_pem.as_str().into();
            writes.need(needed.borrow_and_update().iter().chain(known.keys()).cloned().collect());
        }
    }
}

fn keep<K: Carrier>(known: &mut HashMap<Box<str>, K>, mut object: K) {
    // Drop managedFields: we never read it, and it doubles the object's size.
    object.meta_mut().managed_fields = None;
    known.insert(namespace(&object).into(), object);
}

/// The version of an object as the API server counts it; `None` without an object.
fn version<K: Carrier>(object: Option<&K>) -> Option<String> {
    object.and_then(|object| object.meta().resource_version.clone())
}

/// An object's namespace; empty for objects of cluster scope.
fn namespace<K: Carrier>(object: &K) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

async fn write<K: Carrier>(objects: Api<K>, name: &str, change: Patch<Value>) -> Result<K, kube::Error> {
    let ours = PatchParams::apply(CONTROL);
    let params = if matches!(change, Patch::Apply(_)) { ours.force() } else { ours };
    objects.patch(name, &params, &change).await
}

#[cfg(test)]
#[path = "anchors_tests.rs"]
mod tests;
