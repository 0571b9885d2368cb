//! Makes API servers trust the webhooks: writes the anchors into `caBundle` of the webhooks' configurations.
//!
//! The other fields are not ours, so the patch names only `caBundle`. `kubectl apply` and `helm upgrade` do not write
//! `caBundle`. So they do not overwrite our field, and we do not overwrite theirs.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::Client;
use kube::api::{Api, Patch};
use serde_json::{Value, json};

use crate::issuer::Carrier;

impl Carrier for MutatingWebhookConfiguration {
    fn api(client: Client, _: &str) -> Api<Self> {
        Api::all(client)
    }

    fn correction(found: Option<&Self>, anchors: &str) -> Option<Patch<Value>> {
        let webhooks = found?.webhooks.iter().flatten();
        correction(webhooks.map(|webhook| (webhook.name.as_str(), &webhook.client_config)), anchors)
    }
}

impl Carrier for ValidatingWebhookConfiguration {
    fn api(client: Client, _: &str) -> Api<Self> {
        Api::all(client)
    }

    fn correction(found: Option<&Self>, anchors: &str) -> Option<Patch<Value>> {
        let webhooks = found?.webhooks.iter().flatten();
        correction(webhooks.map(|webhook| (webhook.name.as_str(), &webhook.client_config)), anchors)
    }
}

/// Makes the patch for the webhooks whose `caBundle` differs; `None` if no `caBundle` differs. API servers merge
/// webhooks by name, so the patch changes the right webhook even if the list's order has changed.
fn correction<'a>(
    webhooks: impl Iterator<Item = (&'a str, &'a WebhookClientConfig)>,
    anchors: &str,
) -> Option<Patch<Value>> {
    let anchors = ByteString(anchors.as_bytes().to_vec());
    let wrong: Vec<Value> = webhooks
        .filter(|(_, client)| client.ca_bundle.as_ref() != Some(&anchors))
        .map(|(name, _)| json!({ "name": name, "clientConfig": { "caBundle": anchors } }))
        .collect();
    (!wrong.is_empty()).then(|| Patch::Strategic(json!({ "webhooks": wrong })))
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
