use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::{Configuration, Directory, FILE_MAX_BYTES};

fn service(name: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: 80}}]}}\n")
}

fn bad_service(name: &str) -> String {
    service(name).replace("80", "80000")
}

/// A directory with one valid file, `a.yaml`, that has the Service `a`.
fn one_file() -> TempDir {
    let directory = TempDir::new().expect("there is room");
    write(&directory, "a.yaml", service("a"));
    directory
}

fn write(directory: &TempDir, name: &str, text: impl AsRef<[u8]>) {
    fs::write(directory.path().join(name), text).expect("there is room");
}

fn open(directory: &TempDir) -> Directory {
    Directory::open(directory.path()).expect("it is there")
}

fn services(configuration: &Configuration) -> Vec<String> {
    configuration.mesh.clusters().iter().map(|cluster| cluster.key.service.to_string()).collect()
}

/// Returns each file's name and the version in force, in the words of /config, for example `a.yaml current`.
fn files(configuration: &Configuration) -> Vec<String> {
    let describe = |file: &serde_json::Value| {
        let path = file["path"].as_str().expect("it is text");
        let name = Path::new(path).file_name().expect("it has one").to_string_lossy();
        format!("{name} {}", file["serving"].as_str().expect("it is text"))
    };
    let json = serde_json::to_value(&configuration.files).expect("it is plain data");
    json.as_array().expect("it is a list").iter().map(describe).collect()
}

fn problems(configuration: &Configuration) -> Vec<String> {
    configuration.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn manifests_are_yaml_yml_and_json_files_that_are_not_hidden() {
    let directory = one_file();
    write(&directory, "b.yml", service("b"));
    write(
        &directory,
        "c.json",
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"c"},"spec":{"ports":[{"port":80}]}}"#,
    );
    write(&directory, "d.yaml~", service("d"));
    write(&directory, ".e.yaml", service("e"));
    write(&directory, "README.md", "# not a manifest");
    fs::create_dir(directory.path().join("f.yaml")).expect("there is room");
    assert_eq!(services(&open(&directory).configuration()), ["a", "b", "c"]);
}

#[test]
fn a_missing_directory_is_an_error_at_first() {
    let error = Directory::open(Path::new("/nonexistent/leno")).expect_err("it is not there");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn nothing_changes_while_the_bytes_stay_the_same() {
    let directory = one_file();
    let mut read = open(&directory);
    assert!(!read.refresh());
    write(&directory, "a.yaml", service("a"));
    assert!(!read.refresh());
    write(&directory, "a.yaml", service("z"));
    assert!(read.refresh());
    assert_eq!(services(&read.configuration()), ["z"]);
}

#[test]
fn a_file_that_goes_takes_its_objects_with_it() {
    let directory = one_file();
    write(&directory, "b.yaml", service("b"));
    let mut read = open(&directory);
    fs::remove_file(directory.path().join("a.yaml")).expect("it is there");
    assert!(read.refresh());
    assert_eq!(services(&read.configuration()), ["b"]);
}

#[test]
fn a_bad_file_at_the_start_does_not_stop_the_good_ones() {
    let directory = one_file();
    write(&directory, "b.yaml", bad_service("b"));
    let configuration = open(&directory).configuration();
    assert_eq!(services(&configuration), ["a"]);
    assert_eq!(files(&configuration), ["a.yaml current", "b.yaml nothing"]);
    let shown = serde_json::to_value(&configuration.files).expect("it is plain data");
    assert_eq!(shown[0].get("until_corrected"), None);
    assert_eq!(shown[1]["until_corrected"], "the file is invalid; no part of it is in force until it is corrected");
    let problems = problems(&configuration);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("b.yaml:4: spec.ports[0].port of Service default/b: "), "{problems:?}");
}

const POLICY: &str =
    "apiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {name: cart, namespace: shop}\n";

/// Returns the mode and the target of each policy in force.
fn policies(configuration: &Configuration) -> Vec<String> {
    configuration.mesh.policies().iter().map(|policy| format!("{:?} {}", policy.mode, policy.target())).collect()
}

#[test]
fn a_policy_in_a_file_that_never_was_right_denies_until_it_is_mended() {
    let directory = one_file();
    write(&directory, "p.yaml", format!("{POLICY}spec: {{ports: [80], allow: [{{identities: [shop/web]}}]}}\n"));
    let mut read = open(&directory);
    let configuration = read.configuration();
    assert_eq!(policies(&configuration), ["Unreadable port 80 in namespace shop"]);
    assert_eq!(files(&configuration), ["a.yaml current", "p.yaml only-policies"]);
    let notices: Vec<String> = configuration.notices.iter().map(ToString::to_string).collect();
    assert!(notices.iter().any(|notice| notice.contains("it allows no caller on port 80")), "{notices:?}");

    // The new version of the file has the same error, but its policy is for another port.
    write(&directory, "p.yaml", format!("{POLICY}spec: {{ports: [81], allow: [{{identities: [shop/web]}}]}}\n"));
    assert!(read.refresh());
    assert_eq!(policies(&read.configuration()), ["Unreadable port 81 in namespace shop"]);

    // The file cannot be read, not even by root.
    let path = directory.path().join("p.yaml");
    fs::remove_file(&path).expect("it is there");
    symlink(&path, &path).expect("there is room");
    assert!(read.refresh());
    assert_eq!(policies(&read.configuration()), ["Unreadable port 81 in namespace shop"]);
    fs::remove_file(&path).expect("it is there");

    let good = format!("{POLICY}spec: {{ports: [81], allow: [{{identities: [ns/shop/sa/web]}}]}}\n");
    write(&directory, "p.yaml", &good);
    assert!(read.refresh());
    assert_eq!(policies(&read.configuration()), ["Enforce port 81 in namespace shop"]);
    // The file had a valid version, so the policy of that version stays in force.
    write(&directory, "p.yaml", good.replace("allow", "alow"));
    assert!(read.refresh());
    assert_eq!(policies(&read.configuration()), ["Enforce port 81 in namespace shop"]);
}

#[test]
fn a_policy_is_in_force_beside_an_object_with_a_mistake() {
    let directory = one_file();
    let good = format!("{POLICY}spec: {{allow: [{{identities: ['*']}}]}}\n");
    write(&directory, "p.yaml", format!("{}---\n{good}", bad_service("b")));
    let configuration = open(&directory).configuration();
    assert_eq!(policies(&configuration), ["Enforce every port in namespace shop"]);
    assert_eq!(services(&configuration), ["a"]);
}

#[test]
fn a_file_that_is_no_text_denies_where_its_words_name_a_policy() {
    for bytes in [
        format!("{POLICY}spec: {{allow: [\n").into_bytes(),
        [POLICY.as_bytes(), b"spec: {allow: [{identities: [\xff]}]}\n"].concat(),
        [POLICY.as_bytes(), "#".repeat(FILE_MAX_BYTES).as_bytes()].concat(),
    ] {
        let directory = one_file();
        write(&directory, "p.yaml", bytes);
        assert_eq!(policies(&open(&directory).configuration()), ["Unreadable every port in namespace shop"]);
    }
}

#[test]
fn a_file_that_turns_bad_keeps_its_last_good_objects_until_it_is_mended() {
    let directory = one_file();
    let mut read = open(&directory);

    write(&directory, "a.yaml", bad_service("z"));
    assert!(read.refresh());
    let configuration = read.configuration();
    assert_eq!(services(&configuration), ["a"]);
    assert_eq!(files(&configuration), ["a.yaml last-good"]);
    assert_eq!(configuration.problems.len(), 1);

    write(&directory, "a.yaml", service("z"));
    assert!(read.refresh());
    let configuration = read.configuration();
    assert_eq!(services(&configuration), ["z"]);
    assert_eq!(files(&configuration), ["a.yaml current"]);
    assert_eq!(configuration.problems, []);
}

#[test]
fn a_bad_file_put_back_to_its_last_good_version_is_good_again() {
    let directory = one_file();
    let mut read = open(&directory);
    write(&directory, "a.yaml", bad_service("a"));
    assert!(read.refresh());
    write(&directory, "a.yaml", service("a"));
    assert!(read.refresh());
    assert_eq!(read.configuration().problems, []);
}

#[test]
fn bytes_that_are_not_text_and_files_too_large_are_problems() {
    let directory = one_file();
    write(&directory, "b.yaml", b"kind: \xff");
    write(&directory, "c.yaml", vec![b'#'; FILE_MAX_BYTES + 1]);
    let problems = problems(&open(&directory).configuration());
    assert_eq!(problems.len(), 2);
    assert!(problems[0].contains("byte 6 is not UTF-8 text"), "{problems:?}");
    assert!(problems[1].contains("too large"), "{problems:?}");
}

#[test]
fn a_file_that_may_not_be_read_keeps_its_last_good_objects() {
    let directory = one_file();
    let mut read = open(&directory);
    let path = directory.path().join("a.yaml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("it is ours");
    if fs::read(&path).is_ok() {
        // Replace the file by a link to itself, which even root cannot read. Removing permissions would not stop root.
        fs::remove_file(&path).expect("it is there");
        symlink(&path, &path).expect("there is room");
    }
    assert!(read.refresh());
    let configuration = read.configuration();
    assert_eq!(services(&configuration), ["a"]);
    assert!(problems(&configuration)[0].contains("cannot be read"), "{:?}", configuration.problems);
}

#[test]
fn a_file_that_could_never_be_read_is_news_only_once() {
    let directory = one_file();
    let mut read = open(&directory);
    let path = directory.path().join("loop.yaml");
    symlink(&path, &path).expect("there is room");
    assert!(read.refresh());
    assert!(problems(&read.configuration())[0].contains("cannot be read"));
    assert!(!read.refresh());
}

#[test]
fn a_directory_that_is_gone_keeps_everything_and_says_so_once() {
    let directory = one_file();
    let mut read = open(&directory);
    let away = directory.path().with_extension("away");
    fs::rename(directory.path(), &away).expect("it is ours");
    assert!(read.refresh());
    assert!(!read.refresh());
    assert_eq!(services(&read.configuration()), ["a"]);
    assert_eq!(read.configuration().problems.len(), 1);

    fs::rename(&away, directory.path()).expect("it is ours");
    assert!(read.refresh());
    assert_eq!(read.configuration().problems, []);
}

#[test]
fn a_config_map_is_read_through_its_links() {
    let directory = TempDir::new().expect("there is room");
    for (version, name) in [("..1", "a"), ("..2", "z")] {
        fs::create_dir(directory.path().join(version)).expect("there is room");
        write(&directory, &format!("{version}/echo.yaml"), service(name));
    }
    symlink("..1", directory.path().join("..data")).expect("there is room");
    symlink("..data/echo.yaml", directory.path().join("echo.yaml")).expect("there is room");
    let mut read = open(&directory);
    assert_eq!(services(&read.configuration()), ["a"]);

    symlink("..2", directory.path().join("..data_tmp")).expect("there is room");
    fs::rename(directory.path().join("..data_tmp"), directory.path().join("..data")).expect("it is ours");
    assert!(read.refresh());
    assert_eq!(services(&read.configuration()), ["z"]);
}

#[test]
fn the_log_names_what_is_in_force_of_an_invalid_file_once_for_each_new_problem() {
    let directory = one_file();
    write(&directory, "b.yaml", bad_service("b"));
    let mut read = open(&directory);
    let lines = |now: &Configuration, before: Option<&Configuration>| {
        let lines = now.in_force_of_invalid(before).into_iter();
        let name = |line: String| line.rsplit('/').next().map(str::to_owned).expect("a name");
        lines.map(name).collect::<Vec<_>>()
    };
    let first = read.configuration();
    assert_eq!(lines(&first, None), ["b.yaml: the file is invalid; no part of it is in force until it is corrected"]);
    write(&directory, "a.yaml", bad_service("a"));
    assert!(read.refresh());
    let second = read.configuration();
    assert_eq!(
        lines(&second, Some(&first)),
        ["a.yaml: the file is invalid; its last valid version stays in force until it is corrected"]
    );
    write(&directory, "a.yaml", service("a"));
    assert!(read.refresh());
    assert!(lines(&read.configuration(), Some(&second)).is_empty());
}
