//! A healthy installation, for tests that break one part of it.

use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use leno_identity::authority::Authority;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::read::{ControlAnswer, Installed};
use super::report::{Check, Checklist};
use super::trial::Trial;
use leno_lab::http::Answer;

pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// A Pod of the control plane.
pub(super) fn pod(status: &Value) -> Pod {
    object(
        json!({"metadata": {"name": "leno-control-1"}, "spec": {"nodeName": "n", "containers": []}, "status": status}),
    )
}

/// The Secret of an authority that is valid for 90 days from `now`, and the authority's anchor in PEM.
pub(super) fn secret(now: SystemTime) -> (Secret, String) {
    let anchor = Authority::create_anchor("cluster.local".parse().expect("a trust domain"), now).expect("an anchor");
    let issuer = anchor.delegate(now, 90 * DAY).expect("an authority");
    let texts = [("tls.crt", issuer.certificate_pem()), ("ca.crt", anchor.certificate_pem()), ("ca.key", "a key")];
    let data = texts.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
    (Secret { data: Some(data.into()), ..Secret::default() }, anchor.certificate_pem().to_owned())
}

/// A complete and healthy installation.
pub(super) fn installed(now: SystemTime) -> Installed {
    let (secret, anchors) = secret(now);
    let bundle = |namespace: &str| {
        object(json!({"metadata": {"name": "leno-trust-bundle", "namespace": namespace}, "data": {"ca.crt": anchors}}))
    };
    let ca_bundle = serde_json::to_value(ByteString(anchors.as_bytes().to_vec())).expect("base64");
    let webhooks = json!({"webhooks": [{
        "name": "a.leno.dev", "failurePolicy": "Ignore", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"caBundle": ca_bundle},
    }]});
    let answer = |body: &str| Ok(Answer { status: 200, body: body.to_owned() });
    Installed {
        version: Ok(object(json!({
            "major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "", "buildDate": "",
            "goVersion": "", "compiler": "", "platform": "",
        }))),
        cilium: None,
        namespace: Ok(Some(object(json!({"metadata": {"name": "leno"}})))),
        definitions: Ok(vec![Some(object(json!({
            "spec": {"group": "leno.dev", "scope": "Namespaced", "versions": [], "names": {"kind": "A", "plural": "as"}},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        })))]),
        deployment: Ok(Some(object(json!({
            "metadata": {"name": "leno-control", "labels": {"app.kubernetes.io/version": env!("CARGO_PKG_VERSION")}},
            "spec": {"replicas": 1, "selector": {}, "template": {}},
            "status": {"availableReplicas": 1},
        })))),
        config: Some(object(json!({
            "metadata": {"name": "leno-config"}, "data": {"inject.yaml": "trustDomain: cluster.local"},
        }))),
        pods: Ok(vec![pod(&json!({"conditions": [{"type": "Ready", "status": "True"}]}))]),
        issuer: Ok(Some(secret)),
        namespaces: Ok(vec![object(
            json!({"metadata": {"name": "shop", "annotations": {"leno.dev/inject": "enabled"}}}),
        )]),
        meshed: Ok(Vec::new()),
        services: Ok(Some(Vec::new())),
        bundles: Ok(vec![bundle("leno"), bundle("shop")]),
        injector: Ok(Some(object(webhooks.clone()))),
        validator: Ok(Some(object(webhooks))),
        guard: Ok(Some(object(json!({"metadata": {"name": "leno-guard"}, "spec": {"policyName": "leno-guard"}})))),
        answers: vec![ControlAnswer {
            pod: "leno-control-1".to_owned(),
            ready: answer("ready\n"),
            config: answer(r#"{"problems": []}"#),
        }],
        routes: Ok(Default::default()),
        trial: Some(Trial::accepted("shop", &["leno-init", "leno-proxy"])),
    }
}

/// Returns the checks with the name `name`.
pub(super) fn named(list: &Checklist, name: &str) -> Vec<Check> {
    list.checks().iter().filter(|check| check.name == name).cloned().collect()
}
