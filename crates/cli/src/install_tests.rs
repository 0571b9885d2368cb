use super::*;

fn options() -> Options {
    Options { ha: false, values: Vec::new(), set: Vec::new(), crds: false, skip_crds: false }
}

fn kinds(options: &Options) -> Vec<String> {
    let text = options.text().expect("it renders");
    let documents = yaml::split(&text).expect("it is YAML").into_iter();
    documents.filter_map(|document| Some(document.value["kind"].as_str()?.to_owned())).collect()
}

#[test]
fn definitions_can_be_written_alone_or_left_out() {
    const CRD: &str = "CustomResourceDefinition";
    let all = kinds(&options());
    assert_eq!(all[..2], ["Namespace", CRD]);
    assert_eq!(kinds(&Options { crds: true, ..options() }), [CRD]);
    let rest = kinds(&Options { skip_crds: true, ..options() });
    assert_eq!(rest.len(), all.len() - 1);
    assert!(rest.iter().all(|kind| kind != CRD));
}

#[test]
fn single_values_come_over_files_and_files_over_defaults() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("values.yaml");
    std::fs::write(&file, "control:\n  replicas: 5\n  logLevel: debug\n").expect("it is written");
    let set = vec!["control.replicas=2".to_owned()];
    let text = Options { ha: true, values: vec![file], set, ..options() }.text().expect("it renders");
    assert!(text.contains("  replicas: 2\n") && text.contains("--log=debug"), "{text}");
    assert!(text.contains("kind: PodDisruptionBudget"));
}

#[test]
fn a_file_that_is_no_values_file_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("v.yaml");
    std::fs::write(&file, "control: [").expect("it is written");
    let error = Options { values: vec![file], ..options() }.text().expect_err("it is not YAML").to_string();
    assert!(error.contains("v.yaml: line"), "{error}");
}
