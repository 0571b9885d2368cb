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
use crate::retry::Retry;

/// The API server names this cause if it refuses a new object because the object's namespace is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

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
    // The namespaces in which the latest writes failed, and whether they are being deleted. Only new failures are
    // logged.
    let mut failing: BTreeSet<(Box<str>, bool)> = BTreeSet::new();
    let mut retry = Retry::new();
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
            () = retry.due() => {}
        }
        if !was_listed {
            continue;
        }
        leads.mark_unchanged();
        let anchors = signing.borrow_and_update().anchors_pem.clone();
        let wanted: BTreeSet<Box<str>> = needed.borrow_and_update().iter().chain(known.keys()).cloned().collect();
        let correcting = correct(&client, name, wanted, &anchors, &mut known);
        let failures = while_leading(leads.clone(), correcting).await.unwrap_or_default();
        for failure in failures.iter().filter(|failure| !failing.contains(&failure.place())) {
            // Begin with short delays again: other namespaces may have failed for long.
            retry = Retry::new();
            failure.log::<K>(name);
        }
        retry.attempted(failures.first(), |_| true);
        failing = failures.iter().map(Failure::place).collect();
    }
}

/// An object that could not be written.
struct Failure {
    /// The object's namespace; empty for objects of cluster scope.
    namespace: Box<str>,
    error: kube::Error,
}

impl Failure {
    fn place(&self) -> (Box<str>, bool) {
        (self.namespace.clone(), is_terminating(&self.error))
    }

    fn log<K: Carrier>(&self, name: &str) {
        let (Self { namespace, error }, kind) = (self, K::kind(&()));
        // A namespace that is being deleted accepts no new objects. It is tried again nevertheless, because a namespace
        // of this name may be created soon.
        if is_terminating(error) {
            tracing::debug!(%namespace, "{kind} {name} was not written: the namespace is being deleted");
        } else {
            tracing::warn!(
                %namespace,
                "the trust anchors could not be written into {kind} {name}: {error}; it is tried again until it succeeds"
            );
        }
    }
}

/// Writes the anchors into the object called `name` in each namespace of `wanted`, unless the object already has them.
/// Returns the failed writes.
async fn correct<K: Carrier>(
    client: &Client,
    name: &str,
    wanted: BTreeSet<Box<str>>,
    anchors: &str,
    known: &mut HashMap<Box<str>, K>,
) -> Vec<Failure> {
    let mut failures = Vec::new();
    for namespace in wanted {
        let Some(change) = K::correction(known.get(&namespace), anchors) else {
            continue;
        };
        match write(&K::api(client.clone(), &namespace), name, &change).await {
            Ok(written) => {
                tracing::info!(%namespace, "the trust anchors were written into {} {name}", K::kind(&()));
                keep(known, written);
            }
            Err(error) => failures.push(Failure { namespace, error }),
        }
    }
    failures
}

/// Returns whether the API server refused a write because the object's namespace is being deleted.
fn is_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_forbidden() && causes.any(|cause| cause.reason == NAMESPACE_TERMINATING)
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
