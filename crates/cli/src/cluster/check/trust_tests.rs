use std::time::UNIX_EPOCH;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::super::fixtures::{DAY, installed, named, object, secret};
use super::super::report::{Check, Verdict};
use super::*;

fn now() -> SystemTime {
    UNIX_EPOCH + 20_000 * DAY
}

fn checked(facts: &Installed, at: SystemTime, name: &str) -> Vec<Check> {
    let mut list = Checklist::default();
    conclude(&mut list, facts, at);
    named(&list, name)
}

#[test]
fn an_authority_that_was_not_renewed_warns_and_then_fails() {
    let facts = installed(now());
    let at = |days: u32| checked(&facts, now() + days * DAY, AUTHORITY).remove(0);
    assert_eq!(at(80).verdict, Verdict::Ok);
    let late = at(84);
    assert_eq!(late.verdict, Verdict::Warning);
    assert!(late.why.starts_with("the issuing authority expires in 6 days"), "{}", late.why);
    assert!(late.why.ends_with("Z"), "{}", late.why);
    assert_eq!(at(89).verdict, Verdict::Warning);
    let nearly = checked(&facts, now() + 89 * DAY + DAY / 2, AUTHORITY).remove(0);
    assert_eq!(nearly.verdict, Verdict::Failed, "{}", nearly.why);
    let gone = at(91);
    assert_eq!((gone.verdict, gone.why.as_str()), (Verdict::Failed, "the issuing authority expired 24 h ago"));
}

#[test]
fn an_authority_that_somebody_else_keeps_is_theirs_to_renew() {
    let mut facts = installed(now());
    let Ok(Some(secret)) = &mut facts.issuer else { panic!("there is one") };
    secret.data.as_mut().expect("data").remove("ca.key");
    let check = checked(&facts, now() + 84 * DAY, AUTHORITY).remove(0);
    assert!(check.fix.is_some_and(|fix| fix.starts_with("renew it where it was issued: Secret")));
}

#[test]
fn a_secret_that_holds_something_else_is_told_by_its_key() {
    let mut facts = installed(now());
    let Ok(Some(secret)) = &mut facts.issuer else { panic!("there is one") };
    secret.data.as_mut().expect("data").remove("tls.crt");
    let check = checked(&facts, now(), AUTHORITY).remove(0);
    assert_eq!(check.why, "tls.crt of Secret leno-identity-issuer: it has no certificate");
}

#[test]
fn an_authority_of_another_trust_domain_than_the_installations_fails() {
    let with = |text: &str| {
        let config = json!({"metadata": {"name": "leno-config"}, "data": {"inject.yaml": text}});
        checked(&Installed { config: Some(object(config)), ..installed(now()) }, now(), AUTHORITY).remove(0)
    };
    assert_eq!(with("trustDomain: cluster.local").verdict, Verdict::Ok);
    let check = with("trustDomain: example.org");
    assert_eq!(check.verdict, Verdict::Failed);
    let told =
        "the issuing authority has the trust domain cluster.local, and ConfigMap leno/leno-config has example.org";
    assert!(check.why.starts_with(told), "{}", check.why);
    let fix = check.fix.expect("what to type");
    assert!(check.why.ends_with("no new replica of the control plane becomes ready, so no upgrade finishes"));
    assert!(fix.starts_with("leno upgrade --set trustDomain=cluster.local | kubectl apply -f -; or "), "{fix}");
    // A user may lack the right to read the ConfigMap.
    let unknown = Installed { config: None, ..installed(now()) };
    assert_eq!(checked(&unknown, now(), AUTHORITY)[0].verdict, Verdict::Ok);
}

/// A Pod that has the label of meshed Pods and this container.
fn labelled(namespace: &str, container: &str, phase: &str) -> Pod {
    object(json!({
        "metadata": {"name": "a", "namespace": namespace, "labels": {"leno.dev/injected": "true"}},
        "spec": {"containers": [{"name": container}]},
        "status": {"phase": phase},
    }))
}

#[test]
fn every_meshed_namespace_must_have_the_anchors() {
    let facts = Installed { meshed: Ok(vec![labelled("lonely", "leno-proxy", "Running")]), ..installed(now()) };
    let check = checked(&facts, now(), "trust bundles").remove(0);
    assert_eq!(check.verdict, Verdict::Failed);
    assert!(check.why.starts_with("namespace lonely has no ConfigMap leno-trust-bundle"), "{}", check.why);
}

#[test]
fn every_namespace_for_which_the_control_plane_writes_the_anchors_must_have_them() {
    for (word, is_missing) in [("grpc", true), (" enabled ", true), ("disabled", false), ("true", false)] {
        let mut facts = installed(now());
        let namespace = object(json!({"metadata": {"name": "plain", "annotations": {"leno.dev/inject": word}}}));
        facts.namespaces.as_mut().expect("some").push(namespace);
        let check = checked(&facts, now(), "trust bundles").remove(0);
        let is_failed = check.why.starts_with("namespace plain has no ConfigMap leno-trust-bundle");
        assert_eq!(is_failed, is_missing, "{word}: {}", check.why);
    }
}

#[test]
fn only_living_pods_with_a_proxy_outside_of_leaving_namespaces_need_the_anchors() {
    let leaving = object(json!({"metadata": {
        "name": "left", "annotations": {"leno.dev/inject": "enabled"}, "deletionTimestamp": "2024-01-01T00:00:00Z",
    }}));
    let mut facts = installed(now());
    facts.namespaces.as_mut().expect("some").push(leaving);
    facts.meshed = Ok(vec![
        labelled("left", "leno-proxy", "Running"),
        labelled("done", "leno-proxy", "Succeeded"),
        labelled("bare", "app", "Running"),
    ]);
    let check = checked(&facts, now(), "trust bundles").remove(0);
    assert_eq!((check.verdict, &*check.why), (Verdict::Ok, "the anchors are in 2 of 2 meshed namespaces"));
}

#[test]
fn a_bundle_with_other_anchors_is_to_be_deleted() {
    let mut facts = installed(now());
    let other = secret(now()).1;
    let Ok(bundles) = &mut facts.bundles else { panic!("there are some") };
    bundles[1].data.as_mut().expect("data").insert("ca.crt".to_owned(), other);
    let checks = checked(&facts, now(), "trust bundles");
    assert_eq!(checks.len(), 1);
    assert_eq!(
        checks[0].why,
        "ConfigMap shop/leno-trust-bundle has other anchors than the Secret leno-identity-issuer"
    );
}

#[test]
fn webhooks_without_a_ca_bundle_or_with_another_cannot_be_asked() {
    let mut facts = installed(now());
    let Ok(Some(injector)) = &mut facts.injector else { panic!("there is one") };
    injector.webhooks.as_mut().expect("webhooks")[0].client_config.ca_bundle = None;
    let Ok(Some(validator)) = &mut facts.validator else { panic!("there is one") };
    let other = k8s_openapi::ByteString(secret(now()).1.into_bytes());
    validator.webhooks.as_mut().expect("webhooks")[0].client_config.ca_bundle = Some(other);
    let checks = checked(&facts, now(), "webhooks");
    assert!(
        checks[0].why.starts_with("MutatingWebhookConfiguration leno-injector has no caBundle"),
        "{}",
        checks[0].why
    );
    assert!(checks[1].why.ends_with("has other anchors than the Secret leno-identity-issuer"), "{}", checks[1].why);
    let checks = checked(&Installed { injector: Ok(None), ..installed(now()) }, now(), "webhooks");
    assert_eq!(checks[0].why, "there is no MutatingWebhookConfiguration leno-injector");
}

#[test]
fn without_an_authority_a_missing_ca_bundle_is_found_and_others_are_not_compared() {
    let mut facts = Installed { issuer: Ok(None), ..installed(now()) };
    let Ok(Some(injector)) = &mut facts.injector else { panic!("there is one") };
    injector.webhooks.as_mut().expect("webhooks")[0].client_config.ca_bundle = None;
    let checks = checked(&facts, now(), "webhooks");
    assert_eq!(checks[0].verdict, Verdict::Failed);
    assert!(
        checks[0].why.starts_with("MutatingWebhookConfiguration leno-injector has no caBundle"),
        "{}",
        checks[0].why
    );
    assert_eq!((checks[1].verdict, &*checks[1].why), (Verdict::NotRun, "first: authority"));
}
