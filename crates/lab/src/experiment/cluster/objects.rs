//! The objects that the lab creates in a cluster: a namespace for each mesh, with the servers and the load Pods in it.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use leno_install::names::MANAGED_BY_LABEL;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::mesh::Mesh;
use super::nodes::GATE;
use crate::error::{Error, Result};

/// The value of the label [`MANAGED_BY_LABEL`] of the lab's namespaces.
pub(super) const MANAGER: &str = "leno-lab-cluster";
/// The name of the servers' StatefulSet and Service. A Pod that replaces another Pod of a StatefulSet has the same
/// name.
pub(super) const BACKEND: &str = "backend";
/// The name of the StatefulSet of the load Pods.
pub(super) const LOAD: &str = "load";
/// The name of the container with the program leno, in the servers' Pods and in the load Pods.
pub(super) const CONTAINER: &str = "leno";
/// The servers' port for gRPC. The lab also uses this port for the calls that control the servers.
pub(super) const GRPC_PORT: u16 = 50_051;
/// The servers' port for requests without gRPC.
pub(super) const HTTP_PORT: u16 = 8080;
/// The user id of the Pods' processes; the image defines no user names.
const USER: u32 = 65_532;

/// The labels of the Pods of a StatefulSet.
pub(super) fn selector(name: &str) -> String {
    format!("app={name}")
}

/// The labels of the lab's namespaces.
pub(super) fn of_the_lab() -> String {
    format!("{MANAGED_BY_LABEL}={MANAGER}")
}

/// Returns whether a run of the lab has created the namespace.
pub(super) fn is_of_the_lab(namespace: &Namespace) -> bool {
    namespace.labels().get(MANAGED_BY_LABEL).is_some_and(|manager| manager == MANAGER)
}

/// The name of the Pod at an index of a StatefulSet.
pub(super) fn pod_name(name: &str, index: usize) -> String {
    format!("{name}-{index}")
}

pub(super) fn namespace(mesh: Mesh) -> Namespace {
    let mut labels = mesh.labels();
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGER.to_owned());
    let metadata = ObjectMeta {
        name: Some(mesh.namespace()),
        labels: Some(labels),
        annotations: Some(mesh.annotations()),
        ..ObjectMeta::default()
    };
    Namespace { metadata, ..Namespace::default() }
}

/// The servers' Service.
pub(super) fn service() -> Result<Service> {
    object(json!({
        "metadata": {"name": BACKEND},
        "spec": {
            "selector": {"app": BACKEND},
            "ports": [
                {"name": "grpc", "port": GRPC_PORT, "appProtocol": "kubernetes.io/h2c"},
                // Clients use HTTP/1.1 or HTTP/2 on this port, so the port declares neither protocol.
                {"name": "http", "port": HTTP_PORT},
            ],
        },
    }))
}

/// The StatefulSet of the servers.
pub(super) fn backends(count: usize, image: &str) -> Result<StatefulSet> {
    let args = [
        "echo".to_owned(),
        format!("--listen=0.0.0.0:{GRPC_PORT}"),
        format!("--http1=0.0.0.0:{HTTP_PORT}"),
        "--name=$(POD_NAME)".to_owned(),
    ];
    let container = json!({
        "name": CONTAINER,
        "image": image,
        "args": args,
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"name": "grpc", "containerPort": GRPC_PORT}, {"name": "http", "containerPort": HTTP_PORT}],
        "readinessProbe": {"tcpSocket": {"port": GRPC_PORT}, "periodSeconds": 1},
        "securityContext": restricted(),
    });
    stateful_set(BACKEND, count, &container)
}

/// The StatefulSet of the load Pods. Each Pod waits for commands.
pub(super) fn loads(count: usize, image: &str) -> Result<StatefulSet> {
    let container = json!({
        "name": CONTAINER,
        "image": image,
        "args": ["lab", "load", "--stand-by"],
        "securityContext": restricted(),
    });
    stateful_set(LOAD, count, &container)
}

fn stateful_set(name: &str, replicas: usize, container: &Value) -> Result<StatefulSet> {
    let labels = json!({"app": name});
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "serviceName": BACKEND,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [container],
                    // The lab chooses the node of each Pod, and then removes the gate.
                    "schedulingGates": [{"name": GATE}],
                    // Nothing in these Pods talks to the API server.
                    "automountServiceAccountToken": false,
                    "securityContext": {"runAsNonRoot": true, "runAsUser": USER, "seccompProfile": {"type": "RuntimeDefault"}},
                    "topologySpreadConstraints": [{
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": labels},
                    }],
                },
            },
        },
    }))
}

/// The settings that the Pod Security Standard `restricted` requires of each container.
fn restricted() -> Value {
    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
}

fn object<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value)
        .map_err(|error| Error::Cluster { what: "making an object".to_owned(), why: error.to_string() })
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
