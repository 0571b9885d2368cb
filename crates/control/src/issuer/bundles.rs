//! Writes the trust bundle into a ConfigMap in every meshed namespace, for Pods to mount.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch};
use leno_install::names::{ANCHORS, CONTROL, MANAGED_BY_LABEL, TRUST_BUNDLE};
use serde_json::{Value, json};

use super::anchors::Carrier;

impl Carrier for ConfigMap {
    fn api(client: Client, namespace: &str) -> Api<Self> {
        Api::namespaced(client, namespace)
    }

    fn correction(found: Option<&Self>, anchors: &str) -> Option<Patch<Value>> {
        let said = found.and_then(|map| map.data.as_ref()?.get(ANCHORS));
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": TRUST_BUNDLE, "labels": { MANAGED_BY_LABEL: CONTROL } },
            "data": { ANCHORS: anchors },
        });
        said.is_none_or(|said| said != anchors).then_some(Patch::Apply(map))
    }
}

#[cfg(test)]
#[path = "bundles_tests.rs"]
mod tests;
