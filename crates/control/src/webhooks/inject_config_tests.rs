use tempfile::TempDir;

use super::*;

fn with(text: &str) -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("inject.yaml");
    fs::write(&path, text).expect("a file");
    (directory, path)
}

fn version(config: &InjectConfig) -> String {
    config.options().borrow().proxy.version.clone()
}

#[test]
fn it_is_followed_and_what_was_right_last_holds() {
    let (_directory, path) = with("{clusterDomain: cluster.local, proxy: {version: one}}");
    let mut config = InjectConfig::open(&path).expect("it is right");
    assert_eq!(version(&config), "one");
    for (text, expected) in [
        ("{proxy: {version: two}}", "two"),
        ("{proxy: {version: three", "two"),
        ("{proxy: 7}", "two"),
        ("{proxy: {version: four, skipInboundPorts: '22;80'}}", "two"),
        ("{proxy: {version: four, cpuRequest: 100m, cpuLimit: 50m}}", "two"),
    ] {
        fs::write(&path, text).expect("a file");
        config.check();
        assert_eq!(version(&config), expected, "{text}");
    }
    fs::remove_file(&path).expect("there is one");
    config.check();
    assert_eq!(version(&config), "two");
    fs::write(&path, "{proxy: {version: five}}").expect("a file");
    config.check();
    assert_eq!(version(&config), "five");
}

#[test]
fn a_field_of_a_newer_version_is_left_out_and_the_rest_counts() {
    let (_directory, path) = with("{newList: [1], proxy: {version: one, newPort: 7}}");
    let mut config = InjectConfig::open(&path).expect("a newer version has written it");
    assert_eq!(version(&config), "one");
    fs::write(&path, "{proxy: {version: two, newPort: 8}}").expect("a file");
    config.check();
    assert_eq!(version(&config), "two");
}

#[test]
fn a_file_that_says_the_same_is_no_news() {
    let (_directory, path) = with("{proxy: {version: one}}");
    let mut config = InjectConfig::open(&path).expect("it is right");
    let options = config.options();
    config.check();
    assert!(!options.has_changed().expect("it lives"));
}

#[test]
fn a_first_file_that_is_missing_or_wrong_is_an_error_that_says_what_to_do() {
    let (directory, path) = with("{proxy: {workers: many}}");
    let error = |path: &Path| InjectConfig::open(path).err().expect("an error").to_string();
    assert!(
        error(&directory.path().join("none"))
            .ends_with("mount the Pod's annotation control.leno.dev/inject.yaml there, as leno install does")
    );
    let said = error(&path);
    assert!(said.contains("\"many\"") && said.contains("compare it with the ConfigMap leno-config"), "{said}");
    fs::write(&path, "{proxy: {shutdownGrace: 61m}}").expect("a file");
    let expected = "proxy.shutdownGrace: \"61m\" does not work; use a duration, for example 500ms, 30s or 2m, at most 60m; \
                    set it with leno upgrade --set, or with helm upgrade leno charts/leno --namespace leno --reset-then-reuse-values --set";
    assert_eq!(error(&path), expected);
    fs::write(&path, "{").expect("a file");
    assert!(error(&path).starts_with("line 2: this is not YAML"), "{}", error(&path));
}
