use serde_json::json;

use super::super::report::{Check, Verdict};
use super::*;

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
        forbidden: Ok(Vec::new()),
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
    let forbidden = vec!["clusterroles.rbac.authorization.k8s.io".to_owned(), "namespaces".to_owned()];
    let check = found(&Facts { forbidden: Ok(forbidden), ..facts() }, "rights");
    assert_eq!(check.verdict, Verdict::Failed);
    assert_eq!(check.why, "you may not create clusterroles.rbac.authorization.k8s.io, namespaces");
    assert!(
        check.fix.is_some_and(|fix| fix.ends_with("kubectl auth can-i create clusterroles.rbac.authorization.k8s.io"))
    );
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
