//! Checks whether nodes can get the images of an installation. A Pod stays in ImagePullBackOff if its node has no copy
//! of the image and no registry offers it.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{ContainerImage, Node};
use leno_install::chart::objects;
use serde_json::Value;

use super::report::Finding;

/// The registry of an image whose name contains no registry.
const DEFAULT_REGISTRY: &str = "docker.io";
/// The repository, in [`DEFAULT_REGISTRY`], to which an image name without a slash belongs.
const DEFAULT_REPOSITORY: &str = "library";

/// Maximum number of images that a kubelet reports by default (nodeStatusMaxImages). If a node has more, the kubelet
/// omits the smallest.
const REPORTED_MAX: usize = 50;

/// The images of the proxy and of the control plane, without duplicates, in an installation with these chart values.
pub(super) fn images(values: &Value) -> Vec<String> {
    let objects = objects(values).expect("the values were rendered when they were read");
    let mut images = Vec::new();
    for object in objects.iter().filter(|object| object["kind"] == "Deployment") {
        for list in ["initContainers", "containers"] {
            let containers = object["spec"]["template"]["spec"][list].as_array();
            let named = containers.into_iter().flatten().filter_map(|container| container["image"].as_str());
            images.extend(named.map(str::to_owned));
        }
    }
    images.sort();
    images.dedup();
    images
}

/// Checks whether every node has these images. Nodes need no copies if all image names include a registry to pull from.
pub(super) fn conclude(images: &[String], nodes: &[Node]) -> Finding {
    let list = images.join(" and ");
    if images.iter().all(|image| names_registry(image)) {
        return Finding::ok(format!("nodes pull {list} when they need them; this does not try the registry"));
    }
    if nodes.is_empty() {
        return Finding::warning(
            format!("the cluster has no node, so no Pod can start, and no node has {list}"),
            "add a node, then put the images on it; docs/images.md has the command for each kind of cluster",
        );
    }
    let lacks = |node: &&Node| images.iter().any(|image| !has(node, image));
    let lacking: Vec<&Node> = nodes.iter().filter(lacks).collect();
    let names = |nodes: &[&Node]| {
        let names: Vec<&str> = nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
        names.join(", ")
    };
    if lacking.is_empty() {
        return Finding::ok(format!("{list} are on every node"));
    }
    if lacking.iter().any(|node| reported(node).count() >= REPORTED_MAX) {
        return Finding::ok(format!(
            "a node reports {REPORTED_MAX} images only, so this cannot tell whether {} has {list}",
            names(&lacking)
        ));
    }
    Finding::warning(
        format!("no registry is set, and these nodes do not have {list}: {}", names(&lacking)),
        "images/build, then put out/images/*.tar on the nodes (kind load image-archive, k3d image import, minikube image load), or push them \
         and install with --set image.registry=REGISTRY; docs/images.md has each command. A node reports a new image up to a minute later",
    )
}

/// Whether an image name includes a registry: the part before the first slash has a dot or a port, or is localhost.
fn names_registry(image: &str) -> bool {
    let first = image.split_once('/').map_or("", |(first, _)| first);
    first.contains(['.', ':']) || first == "localhost"
}

/// The images that a node reports. An image may have several names.
fn reported(node: &Node) -> impl Iterator<Item = &ContainerImage> {
    node.status.iter().flat_map(|status| status.images.iter().flatten())
}

fn has(node: &Node, image: &str) -> bool {
    let full = full_name(image);
    reported(node).any(|reported| reported.names.iter().flatten().any(|name| full_name(name) == full))
}

/// Returns the image name with its registry and repository, in the form in which container runtimes report it.
fn full_name(image: &str) -> Cow<'_, str> {
    if names_registry(image) {
        image.into()
    } else if image.contains('/') {
        format!("{DEFAULT_REGISTRY}/{image}").into()
    } else {
        format!("{DEFAULT_REGISTRY}/{DEFAULT_REPOSITORY}/{image}").into()
    }
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
