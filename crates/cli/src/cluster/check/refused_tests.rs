use serde_json::{Value, json};

use super::super::fixtures::object;
use super::super::report::Verdict;
use super::*;

const GUARDED: &str = "pods \"web-1\" is forbidden: ValidatingAdmissionPolicy 'leno-guard' with binding 'leno-guard' denied request: none";
const RESTRICTED: &str = "pods \"db-0\" is forbidden: violates PodSecurity \"baseline:latest\": non-default capabilities \
                          (container \"leno-init\" must not include \"NET_ADMIN\" in securityContext.capabilities.add)";

/// A ReplicaSet of the Deployment `web`, with this reason in its condition.
fn replica_set(namespace: &str, name: &str, message: &str) -> ReplicaSet {
    let condition = json!({"type": "ReplicaFailure", "status": "True", "message": message});
    object(json!({
        "metadata": {
            "name": name, "namespace": namespace, "uid": name,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web"}],
        },
        "spec": {"selector": {}}, "status": {"replicas": 0, "conditions": [condition]},
    }))
}

fn event(uid: &str, at: &str, message: &str) -> Event {
    object(json!({
        "metadata": {"name": at, "namespace": "shop"}, "involvedObject": {"uid": uid}, "reason": "FailedCreate",
        "lastTimestamp": at, "message": message,
    }))
}

/// A StatefulSet that wants two Pods.
fn stateful_set(replicas: i32) -> StatefulSet {
    object(json!({
        "metadata": {"name": "db", "namespace": "shop", "uid": "db"},
        "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": {"replicas": replicas},
    }))
}

fn job(spec: &Value, status: &Value) -> Job {
    let mut spec = spec.clone();
    spec["template"] = json!({});
    object(json!({"metadata": {"name": "sync", "namespace": "shop", "uid": "sync"}, "spec": spec, "status": status}))
}

/// The findings for these objects, with the meshed namespace shop.
fn found(creators: &Creators) -> Vec<(Verdict, String, String)> {
    let findings = findings(creators, &["shop".to_owned()], &[]);
    findings.into_iter().map(|one| (one.verdict, one.why, one.fix.unwrap_or_default())).collect()
}

/// The finding for a Deployment that the API server refuses with this message.
fn told(namespace: &str, message: &str) -> (Verdict, String, String) {
    let replica_sets = vec![replica_set(namespace, "web-5f", message)];
    found(&Creators { replica_sets, ..Creators::default() }).remove(0)
}

#[test]
fn a_deployment_whose_pods_the_guard_refuses_is_named_once() {
    let replica_sets = vec![replica_set("shop", "web-5f", GUARDED), replica_set("shop", "web-6b", GUARDED)];
    let all = found(&Creators { replica_sets, ..Creators::default() });
    assert_eq!(all.len(), 1, "{all:?}");
    let (verdict, why, fix) = &all[0];
    assert_eq!(*verdict, Verdict::Failed);
    assert!(why.starts_with("Pods of deployment shop/web are refused: pods \"web-1\" is forbidden"), "{why}");
    assert!(fix.starts_with("the checks \"new Pods\" and \"injection\" of leno check say why"), "{fix}");
    assert!(fix.ends_with("or at once after kubectl rollout restart -n shop deployment/web"), "{fix}");
}

#[test]
fn refusals_that_do_not_concern_the_mesh_are_not_reported() {
    assert_eq!(told("shop", "serviceaccount \"web\" not found").0, Verdict::Ok);
    let exceeded =
        "pods \"web-1\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=4, limited: pods=4";
    assert_eq!(told("shop", exceeded).0, Verdict::Failed);
    assert_eq!(told("other", exceeded).0, Verdict::Ok, "a quota in a namespace without proxies");
    assert_eq!(told("other", GUARDED).0, Verdict::Failed, "the Pod itself may be annotated");
}

#[test]
fn each_reason_has_its_own_remedy() {
    let fix = |message: &str| told("shop", message).2;
    let quota =
        fix("pods \"web-1\" is forbidden: failed quota: small: must specify limits.cpu for: leno-init,leno-proxy");
    assert!(quota.starts_with("kubectl annotate namespace shop leno.dev/proxy-cpu-limit=1 gives"), "{quota}");
    let exceeded = fix("exceeded quota: small, requested: pods=1, used: pods=4, limited: pods=4");
    assert!(exceeded.starts_with("kubectl describe resourcequota -n shop"), "{exceeded}");
    let security = fix(RESTRICTED);
    let label = "kubectl label namespace shop --overwrite pod-security.kubernetes.io/enforce=privileged";
    assert!(security.contains(label), "{security}");
    let limits = fix(
        "pods \"web-1\" is forbidden: [minimum cpu usage per Container is 50m, but request is 10m, maximum memory usage per Container \
         is 64Mi, but limit is 128Mi, maximum memory usage per Pod is 100Mi, but limit is 128Mi]",
    );
    let annotate =
        "kubectl annotate namespace shop leno.dev/proxy-cpu-request=50m leno.dev/proxy-memory-limit=64Mi sets";
    assert!(limits.contains(annotate), "{limits}");
    let per_pod = fix("pods \"web-1\" is forbidden: maximum memory usage per Pod is 100Mi, but limit is 128Mi");
    assert!(per_pod.starts_with("kubectl describe limitrange -n shop shows the limits"), "{per_pod}");
    let denied = fix("admission webhook \"inject.leno.dev\" denied the request: leno.dev/proxy-workers: many");
    assert!(denied.starts_with("correct what the message names, in the Pod template of the deployment"), "{denied}");
}

#[test]
fn a_stateful_set_is_told_with_the_reason_of_its_newest_event() {
    let message = format!("create Pod db-0 in StatefulSet db failed error: {RESTRICTED}");
    let older = event("db", "2026-01-01T10:00:00Z", &format!("Error creating: {GUARDED}"));
    let newer = event("db", "2026-01-01T10:05:00Z", &message);
    let with = |replicas: i32| Creators {
        stateful_sets: vec![stateful_set(replicas)],
        events: vec![newer.clone(), older.clone()],
        ..Creators::default()
    };
    let (verdict, why, _) = found(&with(1)).remove(0);
    assert_eq!((verdict, why), (Verdict::Failed, format!("Pods of statefulset shop/db are refused: {RESTRICTED}")));
    assert_eq!(found(&with(2))[0].0, Verdict::Ok, "it has all of its Pods again");
}

#[test]
fn a_workload_that_has_created_a_pod_since_is_not_refused() {
    let creators = Creators {
        stateful_sets: vec![stateful_set(1)],
        events: vec![event("db", "2026-01-01T10:00:00Z", RESTRICTED)],
        ..Creators::default()
    };
    let verdict = |created: &str| {
        let pod: Pod = object(json!({"metadata": {
            "name": "db-0", "namespace": "shop", "creationTimestamp": created,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db"}],
        }}));
        findings(&creators, &["shop".to_owned()], &[pod])[0].verdict
    };
    assert_eq!(verdict("2026-01-01T10:00:01Z"), Verdict::Ok);
    assert_eq!(verdict("2026-01-01T10:00:00Z"), Verdict::Failed);
    assert_eq!(verdict("2026-01-01T09:00:00Z"), Verdict::Failed);
}

#[test]
fn daemon_sets_are_told_too() {
    let status = json!({
        "currentNumberScheduled": 0, "desiredNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 0,
    });
    let set = json!({
        "metadata": {"name": "logs", "namespace": "shop", "uid": "logs"},
        "spec": {"selector": {}, "template": {}}, "status": status,
    });
    let events = vec![event("logs", "2026-01-01T10:00:00Z", &format!("Error creating: {RESTRICTED}"))];
    let creators = Creators { daemon_sets: vec![object(set)], events, ..Creators::default() };
    let (_, why, _) = found(&creators).remove(0);
    assert!(why.starts_with("Pods of daemonset shop/logs are refused: pods \"db-0\""), "{why}");
}

#[test]
fn a_job_is_told_while_it_lacks_pods_and_has_not_ended() {
    let verdict = |spec: Value, status: Value| {
        let events = vec![event("sync", "2026-01-01T10:00:00Z", &format!("Error creating: {GUARDED}"))];
        let (verdict, _, fix) =
            found(&Creators { jobs: vec![job(&spec, &status)], events, ..Creators::default() }).remove(0);
        assert!(!fix.contains("rollout"), "{fix}");
        verdict
    };
    let ended = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
    assert_eq!(verdict(json!({}), json!({})), Verdict::Failed);
    assert_eq!(verdict(json!({}), json!({"active": 1})), Verdict::Ok);
    assert_eq!(verdict(json!({}), ended("Complete")), Verdict::Ok);
    assert_eq!(verdict(json!({}), ended("Suspended")), Verdict::Ok);
    assert_eq!(verdict(json!({"parallelism": 3, "completions": 3}), json!({"active": 1, "succeeded": 2})), Verdict::Ok);
}

#[test]
fn events_that_were_not_read_are_told() {
    let of = |is_of_one_namespace: bool| {
        found(&Creators { has_more_events: true, is_of_one_namespace, ..Creators::default() }).remove(0)
    };
    let (verdict, why, fix) = of(false);
    assert_eq!(verdict, Verdict::Warning);
    assert!(why.starts_with("there are more than 1000 Events FailedCreate"), "{why}");
    assert!(fix.starts_with("leno check --proxy -n NAMESPACE reads"), "{fix}");
    assert!(!of(true).2.contains("-n NAMESPACE"), "the user has already given a namespace");
}

#[test]
fn kinds_that_the_user_may_not_list_are_named_in_one_line_beside_the_findings() {
    let replica_sets = vec![replica_set("shop", "web-5f", GUARDED)];
    let all = found(&Creators { replica_sets, unread: vec!["jobs", "events"], ..Creators::default() });
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!((all[0].0, all[1].0), (Verdict::Failed, Verdict::Warning));
    assert_eq!(all[1].1, "you may not list jobs, events, so this check may miss workloads");
}
