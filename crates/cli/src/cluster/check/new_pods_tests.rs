use std::time::UNIX_EPOCH;

use serde_json::json;

use super::super::fixtures::{DAY, installed, named, object};
use super::super::report::{Check, Verdict};
use super::*;

/// A healthy installation in which no replica of the control plane runs.
fn away() -> Installed {
    let deployment = object(json!({"spec": {"replicas": 2, "selector": {}, "template": {}}}));
    Installed { deployment: Ok(Some(deployment)), ..installed(UNIX_EPOCH + 20_000 * DAY) }
}

fn with_failure_policy(mut facts: Installed, policy: &str) -> Installed {
    let Ok(Some(injector)) = &mut facts.injector else { panic!("there is one") };
    injector.webhooks.as_mut().expect("webhooks")[0].failure_policy = Some(policy.to_owned());
    facts
}

fn checked(facts: &Installed) -> Vec<Check> {
    let mut list = Checklist::default();
    list.check(API_SERVER, &[], || Finding::ok(""));
    conclude(&mut list, facts);
    named(&list, NEW_PODS)
}

#[test]
fn with_a_control_plane_pods_get_a_proxy_or_are_refused() {
    let facts = installed(UNIX_EPOCH + 20_000 * DAY);
    assert_eq!(checked(&facts)[0].verdict, Verdict::Ok);
    let unguarded = Installed { guard: Ok(None), ..facts };
    let check = checked(&unguarded).remove(0);
    assert_eq!(check.verdict, Verdict::Warning);
    assert!(
        check.why.starts_with("there is no leno-guard: a Pod that is created while no replica answers"),
        "{}",
        check.why
    );
    assert_eq!(checked(&with_failure_policy(unguarded, "Fail"))[0].verdict, Verdict::Ok);
}

#[test]
fn without_a_control_plane_the_guard_is_named_with_the_way_to_let_pods_start() {
    for facts in [away(), Installed { namespace: Ok(None), deployment: Ok(None), ..away() }] {
        let checks = checked(&facts);
        assert_eq!((checks.len(), checks[0].verdict), (1, Verdict::Failed));
        assert!(
            checks[0].why.starts_with("ValidatingAdmissionPolicy leno-guard refuses Pods of meshed namespaces (shop)")
        );
        let fix = checks[0].fix.as_deref().expect("a fix");
        assert!(fix.contains("kubectl delete validatingadmissionpolicybinding leno-guard lets them start"), "{fix}");
    }
    let unmeshed = Installed { namespaces: Ok(Vec::new()), ..away() };
    assert_eq!(checked(&unmeshed)[0].verdict, Verdict::Ok);
}

#[test]
fn a_webhook_that_nobody_answers_and_that_refuses_pods_is_named_with_the_command_that_removes_it() {
    let checks = checked(&with_failure_policy(away(), "Fail"));
    assert!(checks[0].why.starts_with("MutatingWebhookConfiguration leno-injector refuses them"), "{}", checks[0].why);
    assert_eq!(
        checks[0].fix.as_deref(),
        Some("kubectl delete mutatingwebhookconfiguration leno-injector lets them start")
    );
    assert_eq!(checks.len(), 2, "and the guard");
}

#[test]
fn pods_that_start_in_clear_are_a_failure_and_a_cluster_without_leno_is_none() {
    let check = checked(&Installed { guard: Ok(None), ..away() }).remove(0);
    assert_eq!(check.verdict, Verdict::Failed);
    assert!(check.why.contains("(shop) start without a proxy"), "{}", check.why);
    assert!(checked(&Installed { guard: Ok(None), injector: Ok(None), ..away() }).is_empty());
}
