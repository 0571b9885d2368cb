use leno_install::chart::{default_values, set_value};
use serde_json::json;

use super::super::report::Verdict;
use super::*;
use crate::cluster::check::report::Checklist;

fn node(name: &str, images: &[&str]) -> Node {
    let images: Vec<Value> =
        images.iter().map(|image| json!({"names": [image, digest(image)], "sizeBytes": 1})).collect();
    serde_json::from_value(json!({"metadata": {"name": name}, "status": {"images": images}})).expect("a Node")
}

/// The second name of an image on a node: the repository with a digest.
fn digest(image: &str) -> String {
    let repository = image.rsplit_once(':').map_or(image, |(repository, _)| repository);
    format!("{repository}@sha256:0123")
}

fn default_images() -> Vec<String> {
    images(&default_values(false).expect("values"))
}

fn concluded(images: &[String], nodes: &[Node]) -> (Verdict, String, String) {
    let mut list = Checklist::default();
    list.check("images", &[], || conclude(images, nodes));
    let check = list.checks().first().expect("a check").clone();
    (check.verdict, check.why, check.fix.unwrap_or_default())
}

#[test]
fn the_images_are_those_of_the_chart_each_once() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(default_images(), [format!("leno-control:{version}"), format!("leno-proxy:{version}")]);
    let mut values = default_values(false).expect("values");
    set_value(&mut values, "image.registry=registry.example/mesh").expect("a value");
    assert_eq!(
        images(&values),
        [
            format!("registry.example/mesh/leno-control:{version}"),
            format!("registry.example/mesh/leno-proxy:{version}")
        ]
    );
}

#[test]
fn a_node_without_the_images_is_named_with_the_commands_that_bring_them() {
    let version = env!("CARGO_PKG_VERSION");
    let (proxy, control) =
        (format!("docker.io/library/leno-proxy:{version}"), format!("docker.io/library/leno-control:{version}"));
    let nodes = [node("a", &[&proxy, &control]), node("b", &[&proxy]), node("c", &["docker.io/library/nginx:1"])];
    let (verdict, why, fix) = concluded(&default_images(), &nodes);
    assert_eq!(verdict, Verdict::Warning);
    assert!(why.ends_with(": b, c"), "{why}");
    for words in ["images/build", "kind load image-archive", "--set image.registry=", "docs/images.md"] {
        assert!(fix.contains(words), "{fix}");
    }
    assert_eq!(concluded(&default_images(), nodes.get(..1).expect("one")).0, Verdict::Ok);
}

#[test]
fn images_of_a_registry_are_the_nodes_to_pull() {
    let images = ["registry.example/mesh/leno-proxy:0.1.0".to_owned(), "localhost:5000/leno-control:0.1.0".to_owned()];
    let (verdict, why, _) = concluded(&images, &[node("a", &[])]);
    assert_eq!(verdict, Verdict::Ok);
    assert!(why.contains("registry.example/mesh/leno-proxy:0.1.0"), "{why}");
    assert_eq!(concluded(&["mesh/leno-proxy:0.1.0".to_owned()], &[node("a", &[])]).0, Verdict::Warning);
}

#[test]
fn a_node_that_leaves_images_out_of_its_report_is_not_warned_of() {
    let others: Vec<String> = (0..REPORTED_MAX).map(|number| format!("docker.io/library/large:{number}")).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let (verdict, why, _) = concluded(&default_images(), &[node("full", &others)]);
    assert_eq!(verdict, Verdict::Ok);
    assert!(why.contains("cannot tell"), "{why}");
    let (verdict, why, _) = concluded(&default_images(), &[node("not full", &others[1..])]);
    assert_eq!(verdict, Verdict::Warning, "an image counts once, however many names it has: {why}");
}

#[test]
fn an_image_without_a_registry_has_a_full_name_on_its_node() {
    let leno = ["mesh/leno-proxy:0.1.0".to_owned(), "leno-control:0.1.0".to_owned()];
    for names in [
        ["docker.io/mesh/leno-proxy:0.1.0", "docker.io/library/leno-control:0.1.0"],
        ["mesh/leno-proxy:0.1.0", "leno-control:0.1.0"],
    ] {
        assert_eq!(concluded(&leno, &[node("a", &names)]).0, Verdict::Ok, "{names:?}");
    }
    let elsewhere = ["registry.example/mesh/leno-proxy:0.1.0", "localhost/leno-control:0.1.0"];
    assert_eq!(concluded(&leno, &[node("a", &elsewhere)]).0, Verdict::Warning);
}

#[test]
fn a_cluster_without_nodes_is_told() {
    assert_eq!(concluded(&default_images(), &[]).0, Verdict::Warning);
}
