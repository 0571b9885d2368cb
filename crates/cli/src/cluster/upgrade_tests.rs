use clap::Parser;
use leno_install::names::{CONFIG, HELM_RELEASE};
use leno_install::yaml;
use serde_json::{Value, json};

use super::*;
use crate::install::{PINNED_ANNOTATION, VALUES_ANNOTATION, VERSION_ANNOTATION};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// Renders the upgrade of `running` with these arguments.
fn upgrade(arguments: &[&str], running: &Running) -> Result<Rendered, Box<dyn Error>> {
    let line = Line::parse_from(["upgrade"].iter().chain(arguments));
    rendered(running, &line.options.chosen(running)?)
}

fn upgraded(arguments: &[&str], running: &Running) -> Result<Vec<Value>, String> {
    let text = upgrade(arguments, running).map_err(|error| error.to_string())?.text;
    Ok(yaml::split(&text).expect("it is YAML").into_iter().map(|document| document.value).collect())
}

/// An installation of this version, with these annotations on its ConfigMap.
fn running(version: &str, annotations: &Value) -> Running {
    let config = json!({"metadata": {"name": "leno-config", "annotations": annotations}});
    let deployment = json!({
        "metadata": {"labels": {"app.kubernetes.io/version": version}}, "spec": {"selector": {}, "template": {}},
    });
    Running {
        config: Some(serde_json::from_value(config).expect("a ConfigMap")),
        deployment: Some(serde_json::from_value(deployment).expect("a Deployment")),
        ..Running::default()
    }
}

fn with_values(values: &Value) -> Running {
    running("0.1.0", &json!({VALUES_ANNOTATION: values.to_string()}))
}

fn replicas(objects: &[Value]) -> &Value {
    &objects.iter().find(|object| object["kind"] == "Deployment").expect("a Deployment")["spec"]["replicas"]
}

#[test]
fn what_was_chosen_at_the_installation_stays_and_what_is_set_now_comes_over_it() {
    let chosen = with_values(&json!({"control": {"replicas": 5, "logLevel": "debug"}}));
    let objects = upgraded(&[], &chosen).expect("it renders");
    assert_eq!(replicas(&objects), 5);
    assert!(objects.iter().any(|object| object["kind"] == "CustomResourceDefinition"));
    let objects = upgraded(&["--set", "control.replicas=2"], &chosen).expect("it renders");
    assert_eq!(replicas(&objects), 2);
    assert!(objects.iter().any(|object| object.to_string().contains("--log=debug")));
}

#[test]
fn an_upgrade_does_not_change_the_trust_domain_of_the_authority() {
    let running = Running { trust_domain: Some("cluster.local".to_owned()), ..with_values(&json!({})) };
    let error = upgraded(&["--set", "trustDomain=example.org"], &running).expect_err("it is refused");
    assert!(error.starts_with("trustDomain would be example.org"), "{error}");
    assert!(upgraded(&["--set", "trustDomain=cluster.local"], &running).is_ok());
    // The authority already has the new trust domain.
    let running = Running { trust_domain: Some("example.org".to_owned()), ..running };
    assert!(upgraded(&["--set", "trustDomain=example.org"], &running).is_ok());
}

#[test]
fn values_can_be_forgotten() {
    let chosen = with_values(&json!({"control": {"replicas": 5}}));
    assert_eq!(replicas(&upgraded(&["--reset-values"], &chosen).expect("it renders")), 2);
    assert_eq!(replicas(&upgraded(&["--reset-values", "--ha"], &chosen).expect("it renders")), 3);
}

#[test]
fn an_upgrade_is_told_by_the_next_upgrade() {
    let objects = upgraded(&["--set", "control.replicas=4"], &with_values(&json!({"trustDomain": "a.example"})))
        .expect("it renders");
    let config = objects.into_iter().find(|object| object["metadata"]["name"] == CONFIG).expect("the ConfigMap");
    let next = Running { config: Some(serde_json::from_value(config).expect("a ConfigMap")), ..Running::default() };
    assert_eq!(next.values(false), Ok(Some(json!({"trustDomain": "a.example", "control": {"replicas": 4}}))));
}

#[test]
fn what_cannot_be_upgraded_says_what_to_type_instead() {
    let refused = |running: &Running| upgraded(&[], running).expect_err("it is refused");
    assert!(refused(&Running::default()).starts_with("Leno is not installed here; leno install"));
    let helms = running("0.1.0", &json!({HELM_RELEASE: "leno"}));
    assert!(refused(&helms).starts_with("Helm installed this; to upgrade it: helm upgrade leno charts/leno"));
    assert!(upgraded(&["--reset-values"], &helms).is_err());
    assert!(refused(&running("0.1.0", &json!({}))).contains("leno upgrade --reset-values"));
    assert!(upgraded(&["--reset-values"], &running("0.1.0", &json!({}))).is_ok());
    assert!(refused(&running("0.1.0", &json!({VALUES_ANNOTATION: "{"}))).contains("is not JSON"));
    let unknown = with_values(&json!({"controll": {}}));
    assert!(refused(&unknown).starts_with("controll: there is no such field"), "{}", refused(&unknown));
}

#[test]
fn pinned_images_are_kept_with_a_warning_and_can_be_unpinned() {
    let values = r#"{"image": {"version": "2024.1.5"}}"#;
    let pinned = running("2024.1.5", &json!({VALUES_ANNOTATION: values, PINNED_ANNOTATION: "2024.1.5"}));
    let versions = |arguments: &[&str]| upgrade(arguments, &pinned).expect("it renders").versions;
    let kept = versions(&[]);
    assert_eq!(kept.images, "2024.1.5");
    let warning = kept_images(&kept).expect("a warning");
    assert!(warning.starts_with("image.version pins the images to 2024.1.5, so this upgrade"), "{warning}");
    assert!(warning.ends_with("--set image.version= installs them"), "{warning}");
    // The tag of a user's own image is not a version of Leno, so any version of Leno may replace it.
    let unpinned = versions(&["--set", "image.version="]);
    assert_eq!(unpinned.images, env!("CARGO_PKG_VERSION"));
    assert_eq!(kept_images(&unpinned), None);
}

#[test]
fn pinned_images_do_not_hide_that_a_newer_leno_installed_the_objects() {
    let values = r#"{"image": {"version": "0.0.1"}}"#;
    let annotations =
        |version: &str| json!({VALUES_ANNOTATION: values, PINNED_ANNOTATION: "0.0.1", VERSION_ANNOTATION: version});
    let newer = running("0.0.1", &annotations("99.0.0"));
    for arguments in [&["--set", "image.version="][..], &[]] {
        let error = upgraded(arguments, &newer).expect_err("a newer leno installed it");
        assert!(error.starts_with("version 99.0.0 is installed, and this command would install "), "{error}");
    }
    assert!(upgraded(&[], &running("0.0.1", &annotations("0.0.1"))).is_ok());
}

#[test]
fn images_are_not_pinned_to_an_older_version_than_the_installed_one() {
    let ours = env!("CARGO_PKG_VERSION");
    let installed = running(ours, &json!({VALUES_ANNOTATION: "{}", VERSION_ANNOTATION: ours}));
    let error = upgraded(&["--set", "image.version=0.0.1"], &installed).expect_err("it is older");
    assert!(
        error.starts_with(&format!("images of version {ours} are installed, and image.version is 0.0.1")),
        "{error}"
    );
    assert!(upgraded(&["--set", "image.version=built-by-me"], &installed).is_ok());
}

/// The objects of an installation with these values, as the API server lists them.
fn installed(sets: &[&str]) -> Vec<Found> {
    let arguments: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let objects = upgraded(&arguments, &with_values(&json!({}))).expect("it renders");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let found = |object: &Value| Found {
        api_version: text(&object["apiVersion"]).expect("a version"),
        kind: text(&object["kind"]).expect("a kind"),
        namespace: text(&object["metadata"]["namespace"]),
        name: text(&object["metadata"]["name"]).expect("a name"),
        is_helms: false,
    };
    objects.iter().map(found).collect()
}

#[test]
fn objects_that_the_values_no_longer_have_are_named_with_the_command_that_deletes_them() {
    let left = |before: &[&str], now: &[&str]| -> Vec<String> {
        let arguments: Vec<&str> = now.iter().flat_map(|set| ["--set", set]).collect();
        leftovers(installed(before), &upgraded(&arguments, &with_values(&json!({}))).expect("it renders"))
    };
    assert_eq!(left(&[], &[]), [""; 0]);
    assert_eq!(
        left(&[], &["guard.enabled=false"]),
        [
            "ValidatingAdmissionPolicyBinding leno-guard is no longer part of this installation, and kubectl apply does not \
             delete it: kubectl delete validatingadmissionpolicybinding leno-guard",
            "ValidatingAdmissionPolicy leno-guard is no longer part of this installation, and kubectl apply does not delete \
             it: kubectl delete validatingadmissionpolicy leno-guard",
        ]
    );
    let limited = ["networkPolicy.enabled=true", "networkPolicy.apiServers=[{podSelector: {}}]"];
    let policy = left(&limited, &[]);
    assert_eq!(policy.len(), 1);
    assert!(policy[0].ends_with(": kubectl delete -n leno networkpolicy leno-control"), "{policy:?}");
    let quota = left(&["control.priorityClassName=system-cluster-critical"], &[]);
    assert_eq!(quota.len(), 1);
    assert!(quota[0].ends_with(": kubectl delete -n leno resourcequota leno-control"), "{quota:?}");
    let monitoring = left(&["monitoring.enabled=true"], &["control.podDisruptionBudget=false"]);
    for command in ["-n leno poddisruptionbudget leno-control", "-n leno podmonitor leno-proxy"] {
        assert!(monitoring.iter().any(|line| line.ends_with(&format!(": kubectl delete {command}"))), "{monitoring:?}");
    }
}

#[test]
fn neither_a_definition_nor_an_object_elsewhere_is_to_be_deleted() {
    let found = |kind: &str, namespace: Option<&str>| Found {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: "older".to_owned(),
        is_helms: false,
    };
    let all = vec![
        found("CustomResourceDefinition", None),
        found("ConfigMap", Some("monitoring")),
        found("ConfigMap", Some("leno")),
    ];
    let lines = leftovers(all, &[]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].ends_with("kubectl delete -n leno configmap older"), "{lines:?}");
}

#[test]
fn nothing_goes_down_a_version() {
    let values = json!({VALUES_ANNOTATION: "{}"});
    let error = upgraded(&[], &running("99.0.0", &values)).expect_err("it is newer");
    assert!(error.starts_with("version 99.0.0 is installed, and this command would install "), "{error}");
    assert!(upgraded(&[], &running("0.0.1", &values)).is_ok());
    assert!(upgraded(&[], &running("built-by-me", &values)).is_ok());
}
