use std::time::UNIX_EPOCH;

use serde_json::json;

use super::super::fixtures::{DAY, installed, named, object, pod};
use super::super::report::Verdict;
use super::*;

fn now() -> SystemTime {
    UNIX_EPOCH + 20_000 * DAY
}

#[test]
fn an_installation_that_is_well_has_nothing_but_ok() {
    let list = conclude(&installed(now()), now());
    let other: Vec<_> = list.checks().iter().filter(|check| check.verdict != Verdict::Ok).collect();
    assert!(other.is_empty(), "{other:#?}");
}

#[test]
fn without_the_namespace_one_thing_is_to_be_typed_and_the_rest_is_not_run() {
    let facts = Installed {
        namespace: Ok(None),
        deployment: Ok(None),
        issuer: Ok(None),
        injector: Ok(None),
        guard: Ok(None),
        ..installed(now())
    };
    let list = conclude(&facts, now());
    let failed: Vec<_> = list.checks().iter().filter(|check| check.verdict == Verdict::Failed).collect();
    assert_eq!(failed.len(), 1, "{failed:#?}");
    assert_eq!(failed[0].fix.as_deref(), Some("leno install | kubectl apply -f -"));
    assert_eq!(named(&list, "authority")[0].verdict, Verdict::NotRun);
}

#[test]
fn a_cilium_that_balances_in_pods_fails() {
    let config = object(json!({"data": {"kube-proxy-replacement": "true"}}));
    let list = conclude(&Installed { cilium: Some(config), ..installed(now()) }, now());
    assert_eq!(named(&list, "Cilium")[0].verdict, Verdict::Failed);
    assert!(list.checks().iter().all(|check| check.name == "Cilium" || check.verdict == Verdict::Ok));
}

#[test]
fn a_pod_that_does_not_run_is_named_with_its_reason_and_what_to_type() {
    let why = |status| {
        let list =
            conclude(&Installed { pods: Ok(vec![pod(&status)]), answers: Vec::new(), ..installed(now()) }, now());
        let check = named(&list, PODS).remove(0);
        assert_eq!(check.verdict, Verdict::Failed);
        assert_eq!(named(&list, READY)[0].verdict, Verdict::NotRun);
        (check.why, check.fix.unwrap_or_default())
    };
    let waiting = |reason: &str| {
        json!({"containerStatuses": [{
            "name": "leno-control", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": {"waiting": {"reason": reason}},
        }]})
    };
    let (text, fix) = why(waiting("ImagePullBackOff"));
    assert_eq!(text, "leno-control-1: leno-control: ImagePullBackOff");
    assert!(fix.contains("--set image.registry="), "{fix}");
    let (_, fix) = why(waiting("CrashLoopBackOff"));
    assert_eq!(fix, "kubectl logs -n leno leno-control-1 -c leno-control --previous");
    let (_, fix) = why(waiting("CreateContainerConfigError"));
    assert_eq!(fix, "kubectl describe pod -n leno leno-control-1");
}

#[test]
fn one_replica_of_two_that_is_away_is_a_warning() {
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let facts = Installed { pods: Ok(vec![pod(&ready), pod(&json!({"phase": "Pending"}))]), ..installed(now()) };
    let checks = named(&conclude(&facts, now()), PODS);
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].verdict, Verdict::Warning);
}

#[test]
fn a_deployment_without_a_replica_that_is_available_fails() {
    let deployment = object(json!({"spec": {"replicas": 3, "selector": {}, "template": {}}}));
    let facts = Installed { deployment: Ok(Some(deployment)), ..installed(now()) };
    let check = named(&conclude(&facts, now()), DEPLOYMENT).remove(0);
    assert_eq!(check.verdict, Verdict::Failed);
    assert!(check.why.starts_with("0 of 3 replicas are available"), "{}", check.why);
}

#[test]
fn definitions_that_are_missing_or_not_served_are_told_apart() {
    let checks = |definitions| -> Vec<String> {
        let facts = Installed { definitions: Ok(definitions), ..installed(now()) };
        named(&conclude(&facts, now()), "definitions").into_iter().map(|check| check.why).collect()
    };
    let check = |definitions| checks(definitions).remove(0);
    let none = "there is no CustomResourceDefinition";
    assert_eq!(
        checks(vec![None, None]),
        [format!("{none} authorizationpolicies.leno.dev"), format!("{none} trafficpolicies.leno.dev")]
    );
    let spec =
        json!({"group": "leno.dev", "scope": "Namespaced", "versions": [], "names": {"kind": "A", "plural": "as"}});
    let refused = check(vec![Some(object(json!({"spec": spec})))]);
    assert_eq!(refused, "authorizationpolicies.leno.dev exists, but the API server does not serve it");
}

#[test]
fn a_control_plane_of_another_version_is_a_warning() {
    let deployment = object(json!({
        "metadata": {"labels": {"app.kubernetes.io/version": "99.0.0"}},
        "spec": {"selector": {}, "template": {}}, "status": {"availableReplicas": 1},
    }));
    let facts = Installed { deployment: Ok(Some(deployment)), ..installed(now()) };
    let check = named(&conclude(&facts, now()), "its version").remove(0);
    assert_eq!(check.verdict, Verdict::Warning);
    assert!(check.why.starts_with("it is 99.0.0, and this leno is "), "{}", check.why);
}

#[test]
fn an_upgrade_that_would_keep_pinned_images_is_not_advised() {
    let deployment: Deployment = object(json!({
        "metadata": {"labels": {"app.kubernetes.io/version": "0.0.1"}},
        "spec": {"selector": {}, "template": {}}, "status": {"availableReplicas": 1},
    }));
    let pinned = |mut annotations: Value| {
        annotations["leno.dev/image-version"] = json!("0.0.1");
        let config = object(json!({"metadata": {"annotations": annotations}}));
        let facts = Installed { deployment: Ok(Some(deployment.clone())), config: Some(config), ..installed(now()) };
        named(&conclude(&facts, now()), "its version").remove(0)
    };
    let check = pinned(json!({}));
    assert_eq!(check.verdict, Verdict::Warning);
    assert!(check.why.starts_with("image.version pins it to 0.0.1, and this leno is "), "{}", check.why);
    assert!(check.fix.is_some_and(|fix| fix.starts_with("leno upgrade --set image.version= | kubectl apply -f -")));
    let of_helm = pinned(json!({"meta.helm.sh/release-name": "leno"}));
    assert!(of_helm.why.starts_with("image.version pins it to 0.0.1"), "{}", of_helm.why);
    let command =
        "helm upgrade leno charts/leno --namespace leno --reset-then-reuse-values --set image.version= removes";
    assert!(of_helm.fix.as_ref().is_some_and(|fix| fix.starts_with(command)), "{of_helm:?}");
}

#[test]
fn mistakes_that_the_control_plane_found_are_warnings_with_their_fix() {
    let mut facts = installed(now());
    let mut check = |field: &str, object: &str| {
        let problem = json!({"file": "", "field": field, "object": object, "what": "7 is odd", "fix": "use 8"});
        facts.answers[0].config = Ok(Answer { status: 200, body: json!({"problems": [problem]}).to_string() });
        let check = named(&conclude(&facts, now()), "what you configured").remove(0);
        assert_eq!((check.verdict, check.fix.as_deref()), (Verdict::Warning, Some("use 8")));
        check.why
    };
    assert_eq!(check("spec.ports[0]", "Service shop/web"), "spec.ports[0] of Service shop/web: 7 is odd");
    let of_policy = "spec.targetRefs[0] of TrafficPolicy shop/cart: 7 is odd";
    assert_eq!(check("spec.targetRefs[0]", "TrafficPolicy shop/cart"), of_policy);
}

#[test]
fn a_control_plane_that_waits_says_for_what() {
    let mut facts = installed(now());
    facts.answers[0].ready = Ok(Answer { status: 503, body: "waiting for the cluster: Pod\n".to_owned() });
    let check = named(&conclude(&facts, now()), READY).remove(0);
    assert_eq!((check.verdict, check.why.as_str()), (Verdict::Failed, "leno-control-1: waiting for the cluster: Pod"));
}
