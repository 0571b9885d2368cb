//! Tells every meshed namespace whom to trust: a ConfigMap, which Pods mount. The replica that leads writes it.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::signing::Signing;
use super::{BUNDLE, BUNDLE_KEY, FIELD_MANAGER};

/// How long to wait after something failed.
const RETRY: Duration = Duration::from_secs(2);

/// Keeps the ConfigMap in `namespaces` and in `own` as it should be, for ever, while `leads` says that this is ours to do.
pub(crate) async fn keep_bundles(
    client: kube::Client,
    own: String,
    mut leads: watch::Receiver<bool>,
    mut signing: watch::Receiver<Arc<Signing>>,
    mut namespaces: watch::Receiver<BTreeSet<Box<str>>>,
) -> Infallible {
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let mut events = pin!(watcher(maps, Config::default().fields(&format!("metadata.name={BUNDLE}"))));
    // What each namespace's ConfigMap says.
    let mut known: HashMap<Box<str>, Option<String>> = HashMap::new();
    let mut was_listed = false;
    let mut is_failing = false;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Init)) => (known, was_listed) = (HashMap::new(), false),
                Some(Ok(Event::InitApply(map) | Event::Apply(map))) => {
                    let text = map.data.and_then(|mut data| data.remove(BUNDLE_KEY));
                    known.insert(map.metadata.namespace.unwrap_or_default().into(), text);
                }
                Some(Ok(Event::InitDone)) => was_listed = true,
                Some(Ok(Event::Delete(map))) => {
                    known.remove(map.metadata.namespace.unwrap_or_default().as_str());
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "ConfigMaps {BUNDLE} cannot be watched");
                    sleep(RETRY).await;
                }
                None => sleep(RETRY).await,
            },
            _ = leads.changed() => {}
            _ = signing.changed() => {}
            _ = namespaces.changed() => {}
            () = sleep(RETRY), if is_failing => {}
        }
        is_failing = false;
        if !was_listed || !*leads.borrow_and_update() {
            continue;
        }
        let anchors = signing.borrow_and_update().anchors_pem.clone();
        let wanted: BTreeSet<Box<str>> =
            namespaces.borrow_and_update().iter().cloned().chain([own.as_str().into()]).collect();
        for namespace in wanted {
            if known.get(&namespace).is_some_and(|text| text.as_ref() == Some(&anchors)) {
                continue;
            }
            match write(&client, &namespace, &anchors).await {
                Ok(()) => {
                    known.insert(namespace, Some(anchors.clone()));
                }
                // A namespace that is about to go takes nothing new.
                Err(error) => {
                    tracing::debug!(%namespace, %error, "ConfigMap {BUNDLE} could not be written");
                    is_failing = true;
                }
            }
        }
    }
}

async fn write(client: &kube::Client, namespace: &str, anchors: &str) -> Result<(), kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": BUNDLE, "labels": { "app.kubernetes.io/managed-by": FIELD_MANAGER } },
        "data": { BUNDLE_KEY: anchors },
    });
    maps.patch(BUNDLE, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&map)).await?;
    tracing::info!(%namespace, "the trust bundle was written");
    Ok(())
}
