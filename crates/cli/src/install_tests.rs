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
    assert!(text.contains("kind: PodDisruptionBudget"));
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
