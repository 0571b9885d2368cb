use serde_json::{Value, json};

use super::*;

fn config(annotations: &Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": CONFIG, "annotations": annotations}})).expect("a ConfigMap")
}

#[test]
fn a_release_of_helm_is_changed_with_helm_and_any_other_installation_with_leno() {
    let leno = Installer::of(Some(&config(&json!({}))), None);
    assert_eq!(leno.upgrade(), "leno upgrade | kubectl apply -f -");
    assert_eq!(leno.set("a.b=c"), "leno upgrade --set a.b=c | kubectl apply -f -");
    assert_eq!(leno.install(), "leno install | kubectl apply -f -");
    let helm = Installer::of(Some(&config(&json!({HELM_RELEASE: "mesh"}))), None);
    let upgrade = "helm upgrade mesh charts/leno --namespace leno";
    assert_eq!((helm.upgrade(), helm.install()), (upgrade.to_owned(), upgrade.to_owned()));
    assert_eq!(helm.set("a.b=c"), format!("{upgrade} --reset-then-reuse-values --set a.b=c"));
    // Helm reads a comma as the beginning of another value.
    assert_eq!(leno.set("a.b=c,d"), "leno upgrade --set a.b=c,d | kubectl apply -f -");
    assert_eq!(helm.set("a.b=c,d"), format!("{upgrade} --reset-then-reuse-values --set 'a.b=c\\,d'"));
}

#[test]
fn the_deployment_shows_the_installer_if_the_config_map_cannot_be_read() {
    let deployment = json!({
        "metadata": {"annotations": {HELM_RELEASE: "leno"}}, "spec": {"selector": {}, "template": {}},
    });
    let deployment = serde_json::from_value(deployment).expect("a Deployment");
    assert_eq!(Installer::of(None, Some(&deployment)), Installer::Helm("leno".to_owned()));
    assert_eq!(Installer::of(None, None), Installer::Leno);
}

#[test]
fn a_release_name_that_a_shell_could_misread_is_not_repeated() {
    let of = |release: &str| Installer::of(Some(&config(&json!({HELM_RELEASE: release}))), None);
    for release in ["a; b", "$(a)", "-f", ""] {
        assert_eq!(of(release), Installer::Helm("RELEASE".to_owned()), "{release}");
    }
}

#[test]
fn without_an_installation_to_read_both_commands_are_named() {
    assert_eq!(
        Installer::set_with_either("monitoring.enabled=true"),
        "leno upgrade --set monitoring.enabled=true | kubectl apply -f -, or on an installation by Helm helm upgrade \
         RELEASE charts/leno --namespace leno --reset-then-reuse-values --set monitoring.enabled=true"
    );
}
