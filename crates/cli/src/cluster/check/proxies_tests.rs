use std::time::UNIX_EPOCH;

use serde_json::json;

use super::super::fixtures::{DAY, installed, named, object};
use super::super::refused::Creators;
use super::super::report::{Check, Verdict};
use super::*;

fn now() -> SystemTime {
    UNIX_EPOCH + 20_000 * DAY
}

/// A Pod of a Deployment in the namespace shop, which is annotated for injection.
fn web(name: &str, annotations: &Value, is_meshed: bool, is_ready: bool) -> Pod {
    let image = format!("leno-proxy:{}", env!("CARGO_PKG_VERSION"));
    let proxies = if is_meshed { json!([{"name": "leno-proxy", "image": image}]) } else { json!([]) };
    object(json!({
        "metadata": {
            "name": name, "namespace": "shop", "annotations": annotations,
            "labels": {"pod-template-hash": "5f", "leno.dev/injected": is_meshed.to_string()},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5f", "uid": "1", "controller": true}],
        },
        "spec": {"nodeName": "n", "initContainers": proxies, "containers": [{"name": "app", "image": "app"}]},
        "status": {"phase": "Running", "initContainerStatuses": [
            {"name": "leno-proxy", "ready": is_ready, "restartCount": 0, "image": "", "imageID": ""},
        ]},
    }))
}

fn checked(installed: &Installed, proxies: &Proxies, name: &str) -> Vec<Check> {
    let mut list = Checklist::default();
    conclude(&mut list, installed, proxies, now());
    named(&list, name)
}

fn of(pods: Vec<Pod>) -> Proxies {
    Proxies {
        pods: Ok(pods),
        creators: Ok(Creators::default()),
        services: Ok(Vec::new()),
        metrics: Default::default(),
        shown: Ok(Vec::new()),
        policies: Ok(Vec::new()),
    }
}

#[test]
fn a_pod_older_than_the_annotation_is_to_be_restarted_by_its_owner() {
    let proxies = of(vec![web("web-1", &json!({}), false, true), web("web-2", &json!({}), true, true)]);
    let checks = checked(&installed(now()), &proxies, EXPECTED);
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].verdict, Verdict::Warning);
    assert!(checks[0].why.starts_with("shop/web-1 has none"), "{}", checks[0].why);
    assert_eq!(checks[0].fix.as_deref(), Some("kubectl rollout restart -n shop deployment/web"));
}

#[test]
fn a_pod_of_the_control_plane_that_does_not_run_is_told_there_and_not_again() {
    let mut control = web("leno-control-1", &json!({}), true, false);
    assert_eq!(checked(&installed(now()), &of(vec![control.clone()]), READY)[0].verdict, Verdict::Failed);
    control.metadata.namespace = Some("leno".to_owned());
    let labels = control.metadata.labels.as_mut().expect("it has some");
    labels.insert("app.kubernetes.io/name".to_owned(), "leno-control".to_owned());
    assert_eq!(checked(&installed(now()), &of(vec![control]), READY)[0].verdict, Verdict::Ok);
}

#[test]
fn a_pod_that_wants_none_or_whose_namespace_is_left_out_needs_none() {
    let disabled = of(vec![web("web-1", &json!({"leno.dev/inject": "disabled"}), false, true)]);
    assert_eq!(checked(&installed(now()), &disabled, EXPECTED)[0].verdict, Verdict::Ok);
    let mut facts = installed(now());
    let Ok(Some(injector)) = &mut facts.injector else { panic!("there is one") };
    injector.webhooks.as_mut().expect("webhooks")[0].namespace_selector = Some(object(
        json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["shop"]}]}),
    ));
    assert_eq!(checked(&facts, &of(vec![web("web-1", &json!({}), false, true)]), EXPECTED)[0].verdict, Verdict::Ok);
}

#[test]
fn a_pod_whose_annotations_are_wrong_can_have_none_and_says_which() {
    let proxies = of(vec![web("web-1", &json!({"leno.dev/proxy-workers": "many"}), false, true)]);
    let check = checked(&installed(now()), &proxies, EXPECTED).remove(0);
    assert_eq!(check.verdict, Verdict::Failed);
    assert!(check.why.contains("leno.dev/proxy-workers"), "{}", check.why);
}

#[test]
fn the_installations_own_options_decide_which_pod_can_have_none() {
    let pod = || web("web-1", &json!({"leno.dev/skip-inbound-ports": "22"}), false, true);
    assert_eq!(checked(&installed(now()), &of(vec![pod()]), EXPECTED)[0].verdict, Verdict::Warning);
    let options = json!({"inject.yaml": "namespaceOnly: [leno.dev/skip-inbound-ports]"});
    let config = Some(object(json!({"metadata": {"name": "leno-config"}, "data": options})));
    let check = checked(&Installed { config, ..installed(now()) }, &of(vec![pod()]), EXPECTED).remove(0);
    assert_eq!(check.verdict, Verdict::Failed);
    assert!(check.why.contains("only a namespace may have it"), "{}", check.why);
}

#[test]
fn a_pod_with_another_meshs_proxy_is_named() {
    let mut other = web("web-1", &json!({}), false, true);
    other.spec.as_mut().expect("a spec").containers[0].name = "istio-proxy".to_owned();
    let check = checked(&installed(now()), &of(vec![other]), EXPECTED).remove(0);
    assert_eq!(check.verdict, Verdict::Warning);
    assert!(check.why.starts_with("shop/web-1 has none: it has istio-proxy"), "{}", check.why);
}

#[test]
fn typos_on_pods_and_labels_that_should_be_annotations_are_found() {
    let mut labelled = web("web-2", &json!({}), true, true);
    labelled.metadata.labels.as_mut().expect("it has some").insert("leno.dev/inject".to_owned(), "enabled".to_owned());
    let proxies = of(vec![web("web-1", &json!({"leno.dev/opaque-port": "1"}), true, true), labelled]);
    let checks = checked(&installed(now()), &proxies, ANNOTATIONS);
    assert_eq!(checks.len(), 2, "{checks:?}");
    assert!(
        checks[0].why.starts_with("shop/web-1: ") && checks[0].why.ends_with("did you mean leno.dev/opaque-ports?")
    );
    assert!(checks[1].why.starts_with("shop/web-2: label leno.dev/inject: it has no effect"), "{}", checks[1].why);
}

#[test]
fn a_proxy_that_is_not_ready_is_named() {
    let proxies = of(vec![web("web-1", &json!({}), true, false), web("web-2", &json!({}), true, true)]);
    let checks = checked(&installed(now()), &proxies, READY);
    assert_eq!(checks.len(), 1);
    assert!(checks[0].why.starts_with("shop/web-1: it is Running, and not ready: leno-proxy"), "{}", checks[0].why);
}

#[test]
fn a_proxy_of_another_version_is_a_warning() {
    let mut facts = installed(now());
    let Ok(Some(deployment)) = &mut facts.deployment else { panic!("there is one") };
    deployment.labels_mut().insert(VERSION_LABEL.to_owned(), "99.0.0".to_owned());
    let check = checked(&facts, &of(vec![web("web-1", &json!({}), true, true)]), VERSIONS).remove(0);
    assert_eq!(check.verdict, Verdict::Warning);
    assert!(check.why.ends_with("and the control plane 99.0.0"), "{}", check.why);
    assert_eq!(check.fix.as_deref(), Some("kubectl rollout restart -n shop deployment/web"));
}

#[test]
fn an_annotation_that_pins_another_version_is_named_because_a_restart_changes_nothing() {
    let fix = |of_pod: &Value, of_namespace: &Value| {
        let mut facts = installed(now());
        let Ok(Some(deployment)) = &mut facts.deployment else { panic!("there is one") };
        deployment.labels_mut().insert(VERSION_LABEL.to_owned(), "99.0.0".to_owned());
        facts.namespaces = Ok(vec![object(json!({"metadata": {"name": "shop", "annotations": of_namespace}}))]);
        let check = checked(&facts, &of(vec![web("web-1", of_pod, true, true)]), VERSIONS).remove(0);
        assert_eq!(check.verdict, Verdict::Warning);
        check.fix.expect("what to type")
    };
    let restart = "kubectl rollout restart -n shop deployment/web";
    let pin = |version: &str| json!({"leno.dev/proxy-version": version});
    assert_eq!(
        fix(&pin("0.1.0"), &json!({})),
        format!("remove or raise the annotation leno.dev/proxy-version: 0.1.0 in its Pod template, then {restart}")
    );
    assert_eq!(
        fix(&json!({}), &pin("0.1.0")),
        format!(
            "remove or raise the annotation leno.dev/proxy-version: 0.1.0 of its namespace: kubectl annotate namespace \
             shop leno.dev/proxy-version-, then {restart}"
        )
    );
    // The Pod's annotation takes precedence. If the annotation names the wanted version, a restart suffices.
    for (of_pod, of_namespace) in [
        (json!({}), json!({})),
        (pin("99.0.0"), json!({})),
        (pin("99.0.0"), pin("0.1.0")),
        (json!({}), pin("99.0.0@sha256:0123")),
    ] {
        assert_eq!(fix(&of_pod, &of_namespace), restart, "{of_pod} {of_namespace}");
    }
}

#[test]
fn certificates_that_are_missing_late_or_over_are_told_apart() {
    let verdict = |metrics: Result<String, ClusterError>| {
        let metrics = [(("shop".to_owned(), "web-1".to_owned()), metrics)].into();
        let proxies = Proxies { metrics, ..of(Vec::new()) };
        checked(&installed(now()), &proxies, "their certificates")[0].verdict
    };
    let page = |hours: i64| Ok(format!("{EXPIRATION} {}.0\n", 20_000 * 86_400 + hours * 3_600));
    assert_eq!(verdict(page(20)), Verdict::Ok);
    assert_eq!(verdict(page(1)), Verdict::Warning);
    assert_eq!(verdict(page(-1)), Verdict::Failed);
    assert_eq!(verdict(Ok(String::new())), Verdict::Failed);
    assert_eq!(verdict(Err(ClusterError::new("no", "way"))), Verdict::Failed);
}

#[test]
fn certificates_that_expire_with_their_authority_are_one_finding() {
    let facts = installed(now());
    let end = trust::authority_ends(&facts).expect("the facts have an authority");
    let seconds = end.duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    let page = || Ok(format!("{EXPIRATION} {seconds}.0\n"));
    let name = |pod: &str| ("shop".to_owned(), pod.to_owned());
    let metrics = [(name("web-1"), page()), (name("web-2"), page())].into();
    let mut list = Checklist::default();
    let proxies = Proxies { metrics, ..of(Vec::new()) };
    conclude(&mut list, &facts, &proxies, end - Duration::from_secs(60));
    let checks = named(&list, "their certificates");
    assert_eq!(checks.len(), 1, "{checks:?}");
    assert_eq!(checks[0].why, "2 of 2 expire in 1 min, with the issuing authority");
}

#[test]
fn a_certificate_that_no_anchor_vouches_for_fails_however_long_it_is_valid() {
    let shown = |problem: &str| Shown::nothing("shop".to_owned(), "web-1".to_owned(), problem.to_owned());
    let mut believed = shown("");
    believed.problem = None;
    let proxies = Proxies { shown: Ok(vec![believed]), ..of(Vec::new()) };
    let check = checked(&installed(now()), &proxies, BELIEVED).remove(0);
    assert_eq!((check.verdict, check.why.as_str()), (Verdict::Ok, "the trust bundle vouches for 1 of 1"));
    let proxies = Proxies { shown: Ok(vec![shown("no anchor verifies it: unknown issuer")]), ..of(Vec::new()) };
    let check = checked(&installed(now()), &proxies, BELIEVED).remove(0);
    assert_eq!(
        (check.verdict, check.why.as_str()),
        (Verdict::Failed, "shop/web-1: no anchor verifies it: unknown issuer")
    );
    assert!(check.fix.is_some_and(|fix| fix.starts_with("kubectl delete pod -n shop web-1")));
}

#[test]
fn without_a_control_plane_no_pod_is_to_be_deleted() {
    let shown = Shown::nothing("shop".to_owned(), "web-1".to_owned(), "there is no ConfigMap".to_owned());
    let proxies = Proxies { shown: Ok(vec![shown]), ..of(Vec::new()) };
    let mut list = Checklist::default();
    list.check(NAMESPACE, &[], || Finding::failed("it is gone", "leno install | kubectl apply -f -"));
    conclude(&mut list, &installed(now()), &proxies, now());
    let check = named(&list, BELIEVED).remove(0);
    assert_eq!((check.verdict, check.fix), (Verdict::NotRun, None));
}

#[test]
fn a_pod_that_has_ended_shows_that_the_pods_of_its_job_are_not_refused() {
    let job = json!({
        "metadata": {"name": "sync", "namespace": "shop", "uid": "sync"},
        "spec": {"template": {}}, "status": {"failed": 1},
    });
    let event = json!({
        "metadata": {"name": "e", "namespace": "shop"}, "involvedObject": {"uid": "sync"}, "reason": "FailedCreate",
        "lastTimestamp": "2026-01-01T10:00:00Z", "message": "Error creating: pods \"sync-1\" is forbidden: leno-guard",
    });
    let pod = json!({
        "metadata": {
            "name": "sync-2", "namespace": "shop", "creationTimestamp": "2026-01-01T10:01:00Z",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "sync", "uid": "sync"}],
        },
        "status": {"phase": "Failed"},
    });
    let verdict = |pods: Vec<Pod>| {
        let (jobs, events) = (vec![object(job.clone())], vec![object(event.clone())]);
        let proxies = Proxies { creators: Ok(Creators { jobs, events, ..Creators::default() }), ..of(pods) };
        checked(&installed(now()), &proxies, REFUSED)[0].verdict
    };
    assert_eq!(verdict(Vec::new()), Verdict::Failed);
    assert_eq!(verdict(vec![object(pod)]), Verdict::Ok);
}
