use serde_json::json;

use super::super::report::{Check, Verdict};
use super::*;
use crate::cluster::connect::tests::with_api_server;

/// A node that already has the images of the installation.
fn node() -> Node {
    let images = images::images(&plan(&[]).values);
    serde_json::from_value(json!({"status": {"images": [{"names": images, "sizeBytes": 1}]}})).expect("a Node")
}

fn plan(set: &[&str]) -> Plan {
    Plan::new(&set.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("the chart accepts the values")
}

/// The kinds of objects that the plan creates, each with its namespace.
fn created(plan: &Plan) -> Vec<String> {
    let words = |creation: &Creation| format!("{} {}", creation.name(), creation.namespace.as_deref().unwrap_or("-"));
    plan.creations.iter().map(words).collect()
}

fn facts() -> Facts {
    let info =
        Info { major: "1".to_owned(), minor: "34".to_owned(), git_version: "v1.34.4".to_owned(), ..Info::default() };
    Facts {
        version: Ok(info),
        cilium: None,
        lacks: Ok(Lacks::default()),
        deployment: Ok(None),
        webhooks: Ok(Vec::new()),
        nodes: Ok(vec![node()]),
        routes: Ok(Default::default()),
    }
}

fn found(facts: &Facts, name: &str) -> Check {
    conclude(facts, &plan(&[])).checks().iter().find(|check| check.name == name).expect("the check").clone()
}

#[test]
fn an_empty_cluster_is_ready() {
    assert!(conclude(&facts(), &plan(&[])).checks().iter().all(|check| check.verdict == Verdict::Ok));
}

#[test]
fn rights_that_are_missing_are_named_with_the_question_to_ask() {
    let verbs = vec![
        ("create", vec!["clusterroles.rbac.authorization.k8s.io".to_owned(), "namespaces".to_owned()]),
        ("patch", vec!["services".to_owned()]),
    ];
    let facts = Facts { lacks: Ok(Lacks { verbs, ..Lacks::default() }), ..facts() };
    let list = conclude(&facts, &plan(&[]));
    let checks: Vec<&Check> = list.checks().iter().filter(|check| check.name == "rights").collect();
    assert!(checks.iter().all(|check| check.verdict == Verdict::Failed), "{checks:?}");
    assert_eq!(checks[0].why, "you may not create clusterroles.rbac.authorization.k8s.io, namespaces");
    let fix = checks[0].fix.as_deref().expect("what to type");
    assert!(fix.ends_with("kubectl auth can-i create clusterroles.rbac.authorization.k8s.io"), "{fix}");
    assert_eq!(checks[1].why, "you may not patch services");
}

const ESCALATION: &str = "clusterroles.rbac.authorization.k8s.io \"leno-control\" is forbidden: user \"jane\" (groups=[]) is attempting \
                          to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}";

/// Returns the rights that a user lacks in a cluster without the namespace leno. The API server answers each question
/// for a right with `is_allowed`, and each dry run of a ClusterRole with this status and message.
fn lacking(is_allowed: bool, status: u16, message: &str) -> Lacks {
    let plan = plan(&[]);
    let refusal = |code: u16, message: &str| {
        (code, json!({"kind": "Status", "status": "Failure", "message": message, "code": code}))
    };
    let reply = |path: &str| match path {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
            (201, json!({"metadata": {}, "spec": {}, "status": {"allowed": is_allowed}}))
        }
        "/apis/rbac.authorization.k8s.io/v1/namespaces/leno/roles" => refusal(404, "namespaces \"leno\" not found"),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles" if status == 201 => (201, json!({"metadata": {}})),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles" => refusal(status, message),
        other => panic!("{other}"),
    };
    with_api_server(reply, async |cluster| lacks(&cluster, &plan).await).expect("the rights")
}

#[test]
fn a_user_with_all_rights_lacks_none() {
    for (status, message) in [(201, ""), (409, "clusterroles \"leno-control\" already exists")] {
        let lacks = lacking(true, status, message);
        assert!(lacks.verbs.is_empty() && lacks.roles.is_empty(), "{lacks:?}");
        assert_eq!(rights(&lacks)[0].verdict, Verdict::Ok);
    }
}

#[test]
fn a_user_without_rights_lacks_each_verb_for_each_kind() {
    let lacks = lacking(false, 403, "clusterroles is forbidden: User \"jane\" cannot create resource \"clusterroles\"");
    assert_eq!(lacks.verbs.iter().map(|(verb, _)| *verb).collect::<Vec<_>>(), VERBS);
    assert!(lacks.verbs.iter().all(|(_, kinds)| kinds.len() == plan(&[]).creations.len()), "{lacks:?}");
    assert!(lacks.roles.is_empty(), "{lacks:?}");
}

#[test]
fn a_user_who_does_not_hold_the_rights_of_the_control_plane_may_not_grant_them() {
    let findings = rights(&lacking(true, 403, ESCALATION));
    assert_eq!(findings.len(), 2, "the ClusterRole and the Role: {findings:?}");
    for (finding, role) in findings.iter().zip(["ClusterRole leno-control", "Role leno-control"]) {
        assert_eq!(finding.verdict, Verdict::Failed);
        let told = format!("you may not grant the rights of {role}, because you do not hold them all: ");
        assert!(finding.why.starts_with(&told) && !finding.why.contains('\n'), "{}", finding.why);
        assert!(
            finding
                .fix
                .as_deref()
                .is_some_and(|fix| fix.ends_with("the verbs escalate and bind for roles and clusterroles"))
        );
    }
}

#[test]
fn roles_that_may_not_be_bound_or_are_refused_otherwise_are_named() {
    let role = || "Role leno-control".to_owned();
    let long = "x".repeat(2 * MESSAGE_MAX);
    let no_dry_run = "admission webhook \"roles.example\" does not support dry run".to_owned();
    let roles = vec![
        RefusedRole::NotBound { role: role() },
        RefusedRole::Unknown { role: role(), message: long },
        RefusedRole::Unknown { role: role(), message: no_dry_run },
    ];
    let findings = rights(&Lacks { roles, ..Lacks::default() });
    assert_eq!(
        (findings[0].verdict, &*findings[0].why),
        (Verdict::Failed, "you may create Role leno-control, but not bind it")
    );
    assert_eq!(findings[1].verdict, Verdict::Warning);
    assert!(findings[1].why.ends_with("xxx...") && findings[1].why.len() < 2 * MESSAGE_MAX, "{}", findings[1].why);
    assert_eq!(findings[2].verdict, Verdict::Warning);
    let told = "because a webhook of another product does not support dry runs: admission webhook \"roles.example\"";
    assert!(findings[2].why.contains(told), "{}", findings[2].why);
    assert!(findings[2].fix.as_deref().is_some_and(|fix| fix.starts_with("kubectl auth can-i --list")));
}

#[test]
fn an_installation_that_is_there_is_told_with_its_version() {
    let deployment = json!({"metadata": {"labels": {"app.kubernetes.io/version": "0.1.0"}}});
    let deployment = serde_json::from_value(deployment).expect("a Deployment");
    let check = found(&Facts { deployment: Ok(Some(deployment)), ..facts() }, "installation");
    assert_eq!((check.verdict, check.why.as_str()), (Verdict::Warning, "Leno is installed: 0.1.0"));
}

#[test]
fn webhooks_that_an_installation_left_are_to_be_removed() {
    let check = found(
        &Facts { webhooks: Ok(vec!["MutatingWebhookConfiguration leno-injector".to_owned()]), ..facts() },
        "installation",
    );
    assert_eq!(check.verdict, Verdict::Failed);
    assert_eq!(check.fix.as_deref(), Some("leno uninstall | kubectl delete -f -"));
}

#[test]
fn every_kind_of_the_chart_is_asked_for_where_it_is_created() {
    let expected = [
        "configmaps leno",
        "namespaces -",
        "resourcequotas leno",
        "serviceaccounts leno",
        "services leno",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io -",
        "validatingadmissionpolicies.admissionregistration.k8s.io -",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io -",
        "validatingwebhookconfigurations.admissionregistration.k8s.io -",
        "customresourcedefinitions.apiextensions.k8s.io -",
        "deployments.apps leno",
        "poddisruptionbudgets.policy leno",
        "clusterrolebindings.rbac.authorization.k8s.io -",
        "clusterroles.rbac.authorization.k8s.io -",
        "rolebindings.rbac.authorization.k8s.io leno",
        "roles.rbac.authorization.k8s.io leno",
    ];
    assert_eq!(created(&plan(&[])), expected);
}

#[test]
fn the_kinds_that_only_the_set_values_create_are_asked_for_too() {
    let (usual, more) = (created(&plan(&[])), created(&plan(&["monitoring.enabled=true"])));
    let added: Vec<_> = more.iter().filter(|kind| !usual.contains(kind)).collect();
    assert_eq!(added, ["podmonitors.monitoring.coreos.com leno", "prometheusrules.monitoring.coreos.com leno"]);
    assert!(usual.iter().all(|kind| more.contains(kind)), "{more:?}");
    assert!(Plan::new(&["monitoring.enable=true".to_owned()]).is_err(), "there is no such value");
}

#[test]
fn a_cilium_that_balances_in_pods_is_found_before_the_installation() {
    let config = json!({"data": {"kube-proxy-replacement": "true"}});
    let check = found(&Facts { cilium: serde_json::from_value(config).ok(), ..facts() }, "Cilium");
    assert_eq!((check.section, check.verdict), ("Kubernetes", Verdict::Failed));
}

#[test]
fn images_that_no_node_has_are_a_warning_before_pods_wait_for_them() {
    let check = found(&Facts { nodes: Ok(vec![Node::default()]), ..facts() }, "images");
    assert_eq!(check.verdict, Verdict::Warning);
}
