use serde_json::json;

use super::*;

fn options() -> Options {
    Options {
        values: ValueOptions::default(),
        crds: false,
        skip_crds: false,
        offline: true,
        connect: Connect::default(),
    }
}

/// The versions of an installation that pins no images.
fn versions(version: &str) -> Versions {
    Versions { objects: version.to_owned(), images: version.to_owned() }
}

fn text(options: &Options) -> Result<String, Box<dyn Error>> {
    Ok(render(&options.chosen()?, options.parts())?.text)
}

fn kinds(options: &Options) -> Vec<String> {
    let text = text(options).expect("it renders");
    let documents = yaml::split(&text).expect("it is YAML").into_iter();
    documents.filter_map(|document| Some(document.value["kind"].as_str()?.to_owned())).collect()
}

#[test]
fn definitions_can_be_written_alone_or_left_out() {
    const CRD: &str = "CustomResourceDefinition";
    let all = kinds(&options());
    assert_eq!(all[..3], ["Namespace", CRD, CRD]);
    assert_eq!(kinds(&Options { crds: true, ..options() }), [CRD, CRD]);
    let rest = kinds(&Options { skip_crds: true, ..options() });
    assert_eq!(rest.len(), all.len() - 2);
    assert!(rest.iter().all(|kind| kind != CRD));
}

#[test]
fn single_values_come_over_files_and_files_over_defaults() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("values.yaml");
    std::fs::write(&file, "control:\n  replicas: 5\n  logLevel: debug\n").expect("it is written");
    let set = vec!["control.replicas=2".to_owned()];
    let values = ValueOptions { ha: true, values: vec![file], set };
    let text = text(&Options { values, ..options() }).expect("it renders");
    assert!(text.contains("  replicas: 2\n") && text.contains("--log=debug"), "{text}");
    assert!(text.contains("kind: PodDisruptionBudget") && text.contains("kind: ResourceQuota"), "{text}");
}

#[test]
fn a_file_that_is_no_values_file_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("v.yaml");
    std::fs::write(&file, "control: [").expect("it is written");
    let values = ValueOptions { values: vec![file], ..ValueOptions::default() };
    let error = text(&Options { values, ..options() }).expect_err("it is not YAML").to_string();
    assert!(error.contains("v.yaml: line"), "{error}");
}

#[test]
fn what_was_chosen_is_written_down_and_nothing_else() {
    let chosen = |values: ValueOptions| {
        let text = text(&Options { values, ..options() }).expect("it renders");
        let documents = yaml::split(&text).expect("it is YAML").into_iter().map(|document| document.value);
        let config = documents.into_iter().find(|object| object["metadata"]["name"] == CONFIG).expect("the ConfigMap");
        assert_eq!(config["metadata"]["annotations"][VERSION_ANNOTATION], env!("CARGO_PKG_VERSION"));
        let chosen = config["metadata"]["annotations"][VALUES_ANNOTATION].as_str().expect("an annotation");
        serde_json::from_str::<Value>(chosen).expect("JSON")
    };
    assert_eq!(chosen(ValueOptions::default()), json!({}));
    let set =
        vec!["control.replicas=4".to_owned(), "image.registry=r.example".to_owned(), "proxy.workers=1".to_owned()];
    let expected = json!({"image": {"registry": "r.example"}, "control": {"replicas": 4}});
    assert_eq!(chosen(ValueOptions { set, ..ValueOptions::default() }), expected);
    let ha = chosen(ValueOptions { ha: true, ..ValueOptions::default() });
    assert_eq!((&ha["control"]["replicas"], &ha["proxy"]["memoryRequest"]), (&json!(3), &json!("20Mi")));
}

#[test]
fn the_chart_records_a_pinned_version_of_the_images() {
    let pinned = |set: &[&str]| {
        let set = set.iter().map(|set| (*set).to_owned()).collect();
        let values = ValueOptions { set, ..ValueOptions::default() };
        let rendered =
            render(&Options { values, ..options() }.chosen().expect("values"), Parts::All).expect("it renders");
        let config = rendered.objects.into_iter().find(|object| object["metadata"]["name"] == CONFIG);
        config.expect("the ConfigMap")["metadata"]["annotations"][PINNED_ANNOTATION].clone()
    };
    assert_eq!(pinned(&[]), json!(null));
    assert_eq!(pinned(&["image.version=built-by-me"]), json!("built-by-me"));
}

#[test]
fn an_installation_needs_the_trust_domain_of_an_authority_that_is_there() {
    let running = Running { trust_domain: Some("example.org".to_owned()), ..Running::default() };
    let refused = |options: &Options| {
        let values = options.chosen().expect("values");
        options.refuse(&running, &values, &versions("0.1.0")).err().map(|refusal| refusal.to_string())
    };
    let line = refused(&options()).expect("it is refused");
    assert!(line.contains("--set trustDomain=example.org"), "{line}");
    let set = vec!["trustDomain=example.org".to_owned()];
    let values = ValueOptions { set, ..ValueOptions::default() };
    assert_eq!(refused(&Options { values, ..options() }), None);
    assert_eq!(refused(&Options { crds: true, ..options() }), None);
}

#[test]
fn definitions_alone_do_not_depend_on_values_but_on_the_version() {
    let deployment = json!({"metadata": {"name": "leno-control", "labels": {VERSION_LABEL: "0.2.0"}}});
    let config =
        json!({"metadata": {"name": CONFIG, "annotations": {VALUES_ANNOTATION: "{\"control\":{\"replicas\":3}}"}}});
    let running = Running {
        config: Some(serde_json::from_value(config).expect("a ConfigMap")),
        deployment: Some(serde_json::from_value(deployment).expect("a Deployment")),
        ..Running::default()
    };
    let refused = |crds: bool, version: &str| {
        let options = Options { crds, ..options() };
        let values = options.chosen().expect("values");
        options
            .refuse(&running, &values, &versions(version))
            .err()
            .map(|refusal| refusal.to_string())
            .unwrap_or_default()
    };
    assert_eq!(refused(true, "0.2.0"), "");
    assert!(refused(true, "0.1.0").starts_with("version 0.2.0 is installed"));
    assert!(refused(false, "0.2.0").starts_with("Leno is installed here with other values"));
}
