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

#[test]
fn files_follow_each_other_with_a_marker_between() {
    let mut text = String::new();
    for next in ["a: 1", "b: 2\n", "---\nc: 3\n"] {
        append(&mut text, next, None);
    }
    assert_eq!(text, "a: 1\n---\nb: 2\n---\nc: 3\n");
    let mut text = "{}\n".to_owned();
    append(&mut text, "{}\n", Some(Format::Json));
    assert_eq!(text, "{}\n{}\n");
}

#[test]
fn standard_input_is_called_so() {
    assert_eq!(name(Path::new("-")), "standard input");
    assert_eq!(name(Path::new("./-")), "./-");
}
