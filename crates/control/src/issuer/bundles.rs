//! Tells every meshed namespace whom to trust: a ConfigMap, which Pods mount.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch};
use serde_json::{Value, json};

use super::anchors::Carrier;
use super::{BUNDLE, BUNDLE_KEY, FIELD_MANAGER};

impl Carrier for ConfigMap {
    fn api(client: Client, namespace: &str) -> Api<Self> {
        Api::namespaced(client, namespace)
    }

    fn correction(found: Option<&Self>, anchors: &str) -> Option<Patch<Value>> {
        let said = found.and_then(|map| map.data.as_ref()?.get(BUNDLE_KEY));
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": BUNDLE, "labels": { "app.kubernetes.io/managed-by": FIELD_MANAGER } },
            "data": { BUNDLE_KEY: anchors },
        });
        said.is_none_or(|said| said != anchors).then_some(Patch::Apply(map))
    }
}

#[cfg(test)]
#[path = "bundles_tests.rs"]
mod tests;
