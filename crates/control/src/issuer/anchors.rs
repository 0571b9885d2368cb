//! Keeps the anchors in the objects where others read them: in Kubernetes whoever trusts us reads that in an object of its
//! own. The replica that leads writes them, and writes them again when somebody changes or removes them.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Client, Resource};
use leno_install::names::CONTROL;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use super::signing::Signing;

/// How long to wait after something failed.
const RETRY: Duration = Duration::from_secs(2);

/// A kind of object that has the anchors in it.
pub(crate) trait Carrier:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
    /// Where the object of a namespace is written; the namespace is empty for one of the whole cluster.
    fn api(client: Client, namespace: &str) -> Api<Self>;

    /// The change after which an object has the anchors (PEM) in it. None where there is nothing to change.
    fn correction(found: Option<&Self>, anchors: &str) -> Option<Patch<Value>>;
}

/// Keeps the anchors in the objects called `name` that there are, and in one in each namespace of `needed`, for ever, while
/// `leads` says that this is ours to do.
pub(crate) async fn keep_anchors<K: Carrier>(
    client: Client,
    name: &str,
    mut needed: watch::Receiver<BTreeSet<Box<str>>>,
    mut leads: watch::Receiver<bool>,
    mut signing: watch::Receiver<Arc<Signing>>,
) -> Infallible {
    let objects: Api<K> = Api::all(client.clone());
    let mut events = pin!(watcher(objects, Config::default().fields(&format!("metadata.name={name}"))));
    // The object of each namespace, as it is.
    let mut known: HashMap<Box<str>, K> = HashMap::new();
    let mut was_listed = false;
    let mut is_failing = false;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Init)) => (known, was_listed) = (HashMap::new(), false),
                Some(Ok(Event::InitApply(object) | Event::Apply(object))) => keep(&mut known, object),
                Some(Ok(Event::InitDone)) => was_listed = true,
                Some(Ok(Event::Delete(object))) => drop(known.remove(namespace(&object))),
                Some(Err(error)) => {
                    tracing::debug!(%error, "{} {name} cannot be watched", K::kind(&()));
                    sleep(RETRY).await;
                }
                None => sleep(RETRY).await,
            },
            Ok(()) = needed.changed() => {}
            Ok(()) = leads.changed() => {}
            Ok(()) = signing.changed() => {}
            () = sleep(RETRY), if is_failing => {}
        }
        is_failing = false;
        if !was_listed || !*leads.borrow_and_update() {
            continue;
        }
        let anchors = signing.borrow_and_update().anchors_pem.clone();
        let wanted: BTreeSet<Box<str>> = needed.borrow_and_update().iter().chain(known.keys()).cloned().collect();
        for namespace in wanted {
            let Some(change) = K::correction(known.get(&namespace), &anchors) else {
                continue;
            };
            match write(&K::api(client.clone(), &namespace), name, &change).await {
                Ok(written) => {
                    tracing::info!(%namespace, "the trust anchors were written into {} {name}", K::kind(&()));
                    keep(&mut known, written);
                }
                // A namespace that is about to go takes nothing new.
                Err(error) => {
                    tracing::debug!(%namespace, %error, "{} {name} could not be written", K::kind(&()));
                    is_failing = true;
                }
            }
        }
    }
}

fn keep<K: Carrier>(known: &mut HashMap<Box<str>, K>, mut object: K) {
    // Nobody here wants it, and it is as long as the rest.
    object.meta_mut().managed_fields = None;
    known.insert(namespace(&object).into(), object);
}

/// An object's namespace; empty for one of the whole cluster.
fn namespace<K: Carrier>(object: &K) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

async fn write<K: Carrier>(objects: &Api<K>, name: &str, change: &Patch<Value>) -> Result<K, kube::Error> {
    let ours = PatchParams::apply(CONTROL);
    let params = if matches!(change, Patch::Apply(_)) { ours.force() } else { ours };
    objects.patch(name, &params, change).await
}
