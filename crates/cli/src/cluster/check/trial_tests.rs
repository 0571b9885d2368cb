use std::cell::RefCell;
use std::time::UNIX_EPOCH;

use serde_json::Value;

use super::super::fixtures::{DAY, installed, object};
use super::super::report::Verdict;
use super::*;
use crate::cluster::connect::tests::with_api_server;

fn facts() -> Installed {
    installed(UNIX_EPOCH + 20_000 * DAY)
}

fn namespace(name: &str, word: &str) -> Namespace {
    object(json!({"metadata": {"name": name, "annotations": {"leno.dev/inject": word}}}))
}

fn refused(message: &str) -> Finding {
    Trial { namespace: "shop".to_owned(), is_meshed: true, answer: Answer::Refused(message.to_owned()) }.finding()
}

/// Runs the trial with an API server that answers every request with this status and message. Returns the finding and
/// the paths of the requests.
fn tried(facts: &Installed, status: u16, message: &str) -> (Option<Finding>, Vec<String>) {
    let paths = RefCell::new(Vec::new());
    let reply = |path: &str| {
        paths.borrow_mut().push(path.to_owned());
        (status, json!({"kind": "Status", "status": "Failure", "message": message, "code": status}))
    };
    let trial = with_api_server(reply, async |cluster| read(&cluster, facts).await);
    (trial.map(|trial| trial.finding()), paths.into_inner())
}

#[test]
fn a_pod_with_its_proxy_shows_that_the_webhook_answers() {
    assert_eq!(Trial::accepted("shop", &["leno-init", "leno-proxy"]).finding().verdict, Verdict::Ok);
    assert_eq!(Trial::accepted("shop", &["leno-grpc"]).finding().verdict, Verdict::Ok);
    let without = Trial::accepted("shop", &[]).finding();
    assert_eq!(without.verdict, Verdict::Failed);
    assert!(without.why.starts_with("a new Pod in namespace shop would start without a proxy"), "{}", without.why);
    assert!(
        without
            .fix
            .is_some_and(|fix| fix.starts_with("if the check webhooks is ok: let the API servers reach port 15017"))
    );
}

#[test]
fn a_webhook_that_the_api_server_does_not_reach_is_told_in_its_words() {
    let guard = "pods \"leno-check-x\" is forbidden: ValidatingAdmissionPolicy 'leno-guard' with binding 'leno-guard' denied request: no";
    let late = "Internal error occurred: failed calling webhook \"inject.leno.dev\": failed to call webhook: Post \
                \"https://leno-control.leno.svc:15017/inject?timeout=5s\": context deadline exceeded";
    // The guard refuses the Pod whatever the reason is, so another check must first exclude a wrong caBundle.
    for (message, fix_start) in
        [(guard, "if the check webhooks is ok: let the API servers"), (late, "let the API servers")]
    {
        let finding = refused(message);
        assert_eq!(finding.verdict, Verdict::Failed);
        assert_eq!(finding.why, format!("the API server refuses a new Pod in namespace shop: {message}"));
        assert!(finding.fix.is_some_and(|fix| fix.starts_with(fix_start)));
    }
}

#[test]
fn a_webhook_that_refuses_the_pod_answers() {
    let finding = refused("admission webhook \"inject.leno.dev\" denied the request: leno.dev/proxy-workers: many");
    assert_eq!(finding.verdict, Verdict::Warning);
    assert!(finding.fix.is_some_and(|fix| fix.starts_with("the webhook answers")));
    // In a namespace that is not meshed, the trial's own annotation may be the reason.
    let message =
        "admission webhook \"inject.leno.dev\" denied the request: leno.dev/inject: only a namespace may have it";
    let answer = Answer::Refused(message.to_owned());
    let trial = Trial { namespace: "default".to_owned(), is_meshed: false, answer };
    assert_eq!(trial.finding().verdict, Verdict::Ok);
}

#[test]
fn a_certificate_that_the_api_server_does_not_accept_is_no_firewall() {
    let finding = refused(
        "Internal error occurred: failed calling webhook \"inject.leno.dev\": failed to call webhook: Post \
         \"https://leno-control.leno.svc:15017/inject?timeout=5s\": tls: failed to verify certificate: x509: certificate signed by \
         unknown authority",
    );
    assert_eq!(finding.verdict, Verdict::Failed);
    assert!(finding.fix.is_some_and(|fix| fix.contains("webhook's certificate")));
}

const RESTRICTED: &str = "pods \"leno-check-x\" is forbidden: violates PodSecurity \"baseline:latest\": non-default capabilities \
                          (container \"leno-init\" must not include \"NET_ADMIN\" in securityContext.capabilities.add)";

#[test]
fn a_pod_that_is_refused_with_its_proxy_fails_with_the_remedy() {
    let finding = refused(RESTRICTED);
    assert_eq!(finding.verdict, Verdict::Failed);
    assert!(finding.fix.is_some_and(|fix| fix.contains("pod-security.kubernetes.io/enforce=privileged")));
}

#[test]
fn a_namespace_without_proxies_that_refuses_the_proxys_containers_shows_that_the_webhook_answers() {
    let quota =
        "pods \"leno-check-x\" is forbidden: failed quota: small: must specify limits.cpu for: leno-init,leno-proxy";
    for message in [RESTRICTED, quota] {
        let answer = Answer::Refused(message.to_owned());
        assert!(answer.is_conclusive());
        let finding = Trial { namespace: "default".to_owned(), is_meshed: false, answer }.finding();
        assert_eq!(finding.verdict, Verdict::Ok, "{}", finding.why);
        let told =
            "the API server reaches the webhook; namespace default admits no Pod with a proxy, and is not meshed";
        assert_eq!((&*finding.why, finding.fix), (told, None));
    }
    let guard =
        "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'leno-guard' denied request: neither a proxy nor leno-grpc";
    let answer = Answer::Refused(guard.to_owned());
    let finding = Trial { namespace: "default".to_owned(), is_meshed: false, answer }.finding();
    assert_eq!(finding.verdict, Verdict::Failed, "the guard's message names leno-grpc");
}

#[test]
fn what_shows_nothing_about_the_webhook_is_skipped_aloud() {
    let finding = refused("admission webhook \"images.example\" denied the request: leave out leno-check");
    assert_eq!(finding.verdict, Verdict::NotRun);
    assert!(finding.why.ends_with("so leno check cannot test the webhook there"), "{}", finding.why);
    let message =
        "pods is forbidden: User \"jane\" cannot create resource \"pods\" in API group \"\" in the namespace \"shop\"";
    let (finding, _) = tried(&facts(), 403, message);
    let finding = finding.expect("a trial");
    assert_eq!(finding.verdict, Verdict::NotRun);
    assert!(finding.why.starts_with("you may not create Pods in namespace shop"), "{}", finding.why);
}

#[test]
fn other_namespaces_are_tried_until_one_shows_something() {
    let mut facts = facts();
    facts.namespaces = Ok(vec![namespace("a", "enabled"), namespace("b", "grpc"), namespace("c", "disabled")]);
    let (_, paths) = tried(&facts, 403, "exceeded quota: small");
    assert_eq!(paths, ["/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods"]);
    let (_, paths) = tried(&facts, 500, "failed calling webhook \"inject.leno.dev\": no route to host");
    assert_eq!(paths, ["/api/v1/namespaces/a/pods"]);
}

#[test]
fn only_living_namespaces_whose_pods_may_have_proxies_are_tried() {
    let mut facts = facts();
    let leaving = object(json!({"metadata": {
        "name": "left", "annotations": {"leno.dev/inject": "enabled"}, "deletionTimestamp": "2024-01-01T00:00:00Z",
    }}));
    facts.namespaces = Ok(vec![leaving, namespace("kube-system", "enabled"), namespace("plain", "disabled")]);
    assert_eq!(namespaces(&facts), [("default".to_owned(), false)]);
    let asks = template(false).annotations().get("leno.dev/inject").cloned();
    assert_eq!(asks.as_deref(), Some("enabled"));
    facts.injector = Ok(None);
    assert!(namespaces(&facts).is_empty());
    let no_pod = Installed { pods: Ok(Vec::new()), ..self::facts() };
    assert!(namespaces(&no_pod).is_empty());
}

#[test]
fn without_a_control_plane_nothing_is_tried() {
    let facts = Installed { pods: Ok(Vec::new()), ..facts() };
    let (finding, paths) = tried(&facts, 500, "no");
    assert_eq!((finding, paths), (None, Vec::<String>::new()));
    let body: Value = serde_json::to_value(template(true)).expect("JSON");
    assert_eq!(body["metadata"]["annotations"], json!({}));
}
