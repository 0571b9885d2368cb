use std::os::unix::fs::PermissionsExt;

use super::*;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn names(directory: &Path) -> Vec<String> {
    let paths = files::list(directory).expect("it is there");
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(name).collect()
}

#[test]
fn copies_follow_their_directory_and_leave_other_files_alone() {
    let (from, to) = (directory(), directory());
    let mirror = Mirror {
        from: from.path().to_owned(),
        to: to.path().to_owned(),
        prefix: "config.7.".to_owned(),
        takes: files::is_manifest,
        mode: files::PUBLIC,
        owner: None,
    };
    let write = |name: &str, text: &str| fs::write(from.path().join(name), text).expect("it is written");
    fs::write(to.path().join("service.yaml"), "other").expect("it is written");
    write("a.yaml", "one");
    write("b.json", "two");
    write("notes.txt", "not a manifest");
    write(".a.yaml", "hidden");
    mirror.refresh().expect("it is copied");
    assert_eq!(names(to.path()), ["config.7.a.yaml", "config.7.b.json", "service.yaml"]);

    write("a.yaml", "three");
    fs::remove_file(from.path().join("b.json")).expect("it is removed");
    mirror.refresh().expect("it is copied");
    assert_eq!(names(to.path()), ["config.7.a.yaml", "service.yaml"]);
    assert_eq!(fs::read_to_string(to.path().join("config.7.a.yaml")).expect("it is there"), "three");
}

#[test]
fn copies_of_keys_are_their_owners_only() {
    let (from, to) = (directory(), directory());
    fs::write(from.path().join("ca.key"), "secret").expect("it is written");
    let mirror = Mirror {
        from: from.path().to_owned(),
        to: to.path().to_owned(),
        prefix: String::new(),
        takes: |_| true,
        mode: files::PRIVATE,
        owner: None,
    };
    mirror.refresh().expect("it is copied");
    let copy = fs::metadata(to.path().join("ca.key")).expect("it is there");
    assert_eq!(copy.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_directory_that_is_gone_is_an_error_and_its_copies_stay() {
    let (from, to) = (directory(), directory());
    fs::write(to.path().join("x.a.yaml"), "last").expect("it is written");
    let mirror = Mirror {
        from: from.path().join("gone"),
        to: to.path().to_owned(),
        prefix: "x.".to_owned(),
        takes: |_| true,
        mode: files::PUBLIC,
        owner: None,
    };
    assert!(mirror.refresh().is_err());
    assert_eq!(names(to.path()), ["x.a.yaml"]);
}
