use super::*;

#[test]
fn files_are_read_and_what_cannot_be_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("web.yaml");
    std::fs::write(&path, "kind: Pod\n").expect("it is written");
    assert_eq!(read(&path).expect("it is there"), "kind: Pod\n");
    let error = read(&dir.path().join("wbe.yaml")).expect_err("it is not there").to_string();
    assert!(error.contains("wbe.yaml: No such file"), "{error}");
}
