//! Tests examples/kubernetes: this version of `leno` accepts the arguments of the example's containers, and the
//! example's client begins to make calls without any action of the user.

use std::process::Command;

use leno_install::yaml;
use serde_json::Value;

const EXAMPLE: &str = include_str!("../../../examples/kubernetes/echo.yaml");

/// The name of each Deployment, and the arguments of its container.
fn arguments() -> Vec<(String, Vec<String>)> {
    let documents = yaml::split(EXAMPLE).expect("the example is YAML");
    let deployments =
        documents.into_iter().map(|document| document.value).filter(|value| value["kind"] == "Deployment");
    let of = |deployment: Value| {
        let arguments =
            deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().expect("arguments").clone();
        let arguments = arguments.iter().map(|argument| argument.as_str().expect("text").to_owned()).collect();
        (deployment["metadata"]["name"].as_str().expect("a name").to_owned(), arguments)
    };
    deployments.map(of).collect()
}

#[test]
fn every_container_runs_a_command_that_leno_has() {
    let all = arguments();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["echo", "echo-slow", "web"]);
    for (name, arguments) in &all {
        // Replace the variable, as Kubernetes does in a cluster.
        let arguments: Vec<String> = arguments.iter().map(|argument| argument.replace("$(POD_NAME)", "pod")).collect();
        let output =
            Command::new(env!("CARGO_BIN_EXE_leno")).args(&arguments).arg("--help").output().expect("leno starts");
        assert!(output.status.success(), "{name}: {arguments:?}: {output:?}");
    }
}

#[test]
fn the_client_calls_by_itself_and_one_server_is_slow() {
    let all = arguments();
    let of = |name: &str| &all.iter().find(|(of, _)| of == name).expect("a Deployment").1;
    assert_eq!(of("web").first().map(String::as_str), Some("call"));
    assert!(of("echo-slow").iter().any(|argument| argument.starts_with("--delay-ms=")));
    assert!(!of("echo").iter().any(|argument| argument.starts_with("--delay-ms=")));
}
