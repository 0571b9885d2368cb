use std::time::SystemTime;

use k8s_openapi::ByteString;
use leno_identity::authority::Authority;
use leno_install::names::HELM_RELEASE;
use serde_json::json;

use super::*;
use crate::cluster::connect::tests::with_api_server;

fn installed_with(values: &Value) -> Running {
    let config = json!({"metadata": {"name": CONFIG, "annotations": {VALUES_ANNOTATION: values.to_string()}}});
    Running { config: Some(serde_json::from_value(config).expect("a ConfigMap")), ..Running::default() }
}

fn refused(running: &Running, chosen: &Value) -> Option<String> {
    let defaults = json!({"control": {"replicas": 2, "logLevel": "info"}, "webhook": {"excludedNamespaces": []}});
    running.refuse_reset(chosen, &defaults).err().map(|refusal| refusal.to_string())
}

#[test]
fn an_installation_over_another_does_not_reset_its_values() {
    let running = installed_with(&json!({"control": {"replicas": 3}, "webhook": {"excludedNamespaces": ["ci"]}}));
    assert_eq!(
        refused(&running, &json!({})).as_deref(),
        Some(
            "Leno is installed here with other values: control.replicas: 3 would become 2. webhook.excludedNamespaces: [\"ci\"] would \
             become []; leno upgrade keeps them and takes --set too, leno upgrade --reset-values begins with the chart's"
        )
    );
    assert!(refused(&running, &json!({"control": {"replicas": 3}})).is_some_and(|why| !why.contains("replicas")));
}

#[test]
fn an_installation_with_the_same_values_or_over_nothing_is_written() {
    let chosen = json!({"control": {"replicas": 3}});
    assert_eq!(refused(&installed_with(&chosen), &chosen), None);
    // The installation sets a value to the chart's default, and the command does not set it. This is no difference.
    assert_eq!(refused(&installed_with(&json!({"control": {"logLevel": "info"}})), &json!({})), None);
    assert_eq!(refused(&Running::default(), &chosen), None);
}

#[test]
fn what_helm_or_nobody_knows_installed_is_not_written_over() {
    let annotated = |annotations: Value| {
        let config = json!({"metadata": {"name": CONFIG, "annotations": annotations}});
        Running { config: Some(serde_json::from_value(config).expect("a ConfigMap")), ..Running::default() }
    };
    let helms = annotated(json!({HELM_RELEASE: "mesh"}));
    let refusal = helms.refuse_reset(&json!({}), &json!({})).expect_err("it is Helm's");
    assert_eq!(refusal, Refusal::Helms(Installer::Helm("mesh".to_owned())));
    assert_eq!(
        refusal.to_string(),
        "Helm installed this; to upgrade it: helm upgrade mesh charts/leno --namespace leno; to change a value: helm upgrade mesh \
         charts/leno --namespace leno --reset-then-reuse-values --set NAME=VALUE"
    );
    assert_eq!(annotated(json!({})).refuse_reset(&json!({}), &json!({})), Err(Refusal::NoValues));
}

#[test]
fn images_that_helm_pinned_are_not_compared_with_versions_of_leno() {
    let config = |annotations: Value| {
        let config = json!({"metadata": {"name": CONFIG, "annotations": annotations}});
        serde_json::from_value(config).expect("a ConfigMap")
    };
    let deployment =
        json!({"metadata": {"labels": {VERSION_LABEL: "2024.1.5"}}, "spec": {"selector": {}, "template": {}}});
    let running = |annotations: Value| Running {
        config: Some(config(annotations)),
        deployment: Some(serde_json::from_value(deployment.clone()).expect("a Deployment")),
        ..Running::default()
    };
    let ours = Versions { objects: "0.1.0".to_owned(), images: "0.1.0".to_owned() };
    let helm =
        |version: &str| json!({HELM_RELEASE: "leno", PINNED_ANNOTATION: "2024.1.5", VERSION_ANNOTATION: version});
    assert_eq!(running(helm("0.1.0")).refuse_older(&ours), Ok(()));
    // The chart's own version still compares.
    assert!(running(helm("0.2.0")).refuse_older(&ours).is_err());
    assert!(running(json!({HELM_RELEASE: "leno"})).refuse_older(&ours).is_err());
}

#[test]
fn a_trust_domain_that_the_authority_does_not_have_is_refused_with_the_value_to_set() {
    let running = Running { trust_domain: Some("cluster.local".to_owned()), ..Running::default() };
    let refused = |domain: &str| {
        running.refuse_trust_domain(&json!({"trustDomain": domain})).err().map(|refusal| refusal.to_string())
    };
    assert_eq!(refused("cluster.local"), None);
    let line = refused("example.org").expect("it is refused");
    assert!(line.starts_with("trustDomain would be example.org, and the issuing authority"), "{line}");
    assert!(line.contains("so the rollout would not finish: no new replica of the control plane would become ready; "));
    assert!(line.contains("; --set trustDomain=cluster.local, or "), "{line}");
    assert_eq!(Running::default().refuse_trust_domain(&json!({"trustDomain": "example.org"})), Ok(()));
}

/// Reads the authority for values with the trust domain `example.org`, in a cluster whose API server answers the request
/// for the authority's Secret with this answer. The trust bundle has the anchors `anchors`; `None` if it does not exist.
fn read_beside(anchors: Option<&str>, status: u16, answer: &Value) -> Running {
    let missing = json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "NotFound", "code": 404});
    let reply = |path: &str| match (path.rsplit('/').next(), anchors) {
        (Some("leno-identity-issuer"), _) => (status, answer.clone()),
        (Some("leno-trust-bundle"), Some(anchors)) => {
            let metadata = json!({"name": "leno-trust-bundle"});
            let data = json!({"ca.crt": anchors});
            (200, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))
        }
        _ => (404, missing.clone()),
    };
    with_api_server(reply, async |cluster| {
        let mut running = Running::read(&cluster).await.expect("the installation");
        running.read_authority(&cluster, &json!({"trustDomain": "example.org"})).await;
        running
    })
}

fn read(status: u16, answer: &Value) -> Running {
    read_beside(None, status, answer)
}

fn anchor(domain: &str) -> String {
    let domain = domain.parse().expect("a trust domain");
    Authority::create_anchor(domain, SystemTime::now()).expect("an anchor").certificate_pem().to_owned()
}

fn secret(domain: &str) -> Value {
    let data = json!({"tls.crt": ByteString(anchor(domain).into_bytes())});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "leno-identity-issuer"}, "data": data})
}

#[test]
fn the_trust_domain_is_read_from_the_authoritys_certificate() {
    let running = read(200, &secret("example.org"));
    assert_eq!(running.trust_domain.as_deref(), Some("example.org"));
    assert_eq!(running.unchecked_trust_domain(), None);
}

#[test]
fn the_secret_decides_even_if_the_anchors_have_another_trust_domain() {
    // A user has replaced the authority, and the control plane has not accepted the new one yet.
    let wanted = json!({"trustDomain": "example.org"});
    let running = read_beside(Some(&anchor("example.org")), 200, &secret("cluster.local"));
    assert_eq!(running.trust_domain.as_deref(), Some("cluster.local"));
    let refusal = running.refuse_trust_domain(&wanted).expect_err("the authority has another trust domain").to_string();
    assert!(refusal.contains("; --set trustDomain=cluster.local, or "), "{refusal}");
    let running = read_beside(Some(&anchor("cluster.local")), 200, &secret("example.org"));
    assert_eq!(running.trust_domain.as_deref(), Some("example.org"));
    assert_eq!(running.refuse_trust_domain(&wanted), Ok(()));
}

#[test]
fn anchors_of_the_wanted_trust_domain_suffice_if_the_user_may_not_read_the_secret() {
    let forbidden = json!({"kind": "Status", "status": "Failure", "message": "no secrets for jane", "code": 403});
    let running = read_beside(Some(&anchor("example.org")), 403, &forbidden);
    assert_eq!(running.trust_domain.as_deref(), Some("example.org"));
    assert_eq!(running.unchecked_trust_domain(), None);
    let both = anchor("example.org") + &anchor("cluster.local");
    for anchors in [anchor("cluster.local"), both] {
        let running = read_beside(Some(&anchors), 403, &forbidden);
        assert_eq!(running.trust_domain, None);
        assert!(running.unchecked_trust_domain().is_some(), "{anchors}");
    }
}

#[test]
fn an_authority_that_the_user_may_not_read_is_a_warning_and_not_an_error() {
    let refusal = json!({"kind": "Status", "status": "Failure", "message": "no secrets for jane", "code": 403});
    let running = read(403, &refusal);
    assert_eq!(running.trust_domain, None);
    let warning = running.unchecked_trust_domain().expect("a warning");
    assert!(
        warning.starts_with("cannot tell whether trustDomain is the trust domain of the issuing authority: "),
        "{warning}"
    );
    assert!(warning.ends_with("no secrets for jane"), "{warning}");
}

#[test]
fn versions_are_compared_by_their_numbers_and_what_is_before_a_release() {
    use Ordering::{Equal, Greater, Less};
    for (a, b, expected) in [
        ("0.2.0", "0.10.0", Some(Less)),
        ("1.0.0", "1.0.0", Some(Equal)),
        ("1.0.0-rc.1", "1.0.0", Some(Less)),
        ("1.0.1", "1.0.1-rc.1", Some(Greater)),
        ("1.0.0-rc.9", "1.0.0-rc.10", Some(Less)),
        ("1.0.0-rc.1", "1.0.0-1", Some(Greater)),
        ("1.0.0+a", "1.0.0+b", Some(Equal)),
        ("1.0", "1.0.0", None),
        ("latest", "1.0.0", None),
    ] {
        assert_eq!(compare(a, b), expected, "{a} {b}");
    }
}
