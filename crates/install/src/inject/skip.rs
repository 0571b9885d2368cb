//! Which Pods get no proxy, and why.

use std::fmt;

use serde_json::{Map, Value};

use super::{Asked, Namespace};
use crate::annotations::INJECT;
use crate::names::CONTROL_NAMESPACE;

/// Namespaces without which there is no cluster: a mesh that is broken must not break them.
const CLUSTER_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// Proxies of other meshes.
const OTHER_PROXIES: [&str; 4] = ["linkerd-proxy", "istio-proxy", "consul-dataplane", "kuma-sidecar"];

/// Why a Pod gets no proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// The Pod's annotation says so.
    DisabledByPod,
    /// The namespace's annotation says so.
    DisabledByNamespace,
    /// No annotation asks for one.
    NotAsked,
    /// It is a part of the cluster, or of the mesh's own control plane.
    SystemNamespace(String),
    /// It shares its node's network.
    HostNetwork,
    /// It runs Windows.
    Windows,
    /// Another mesh's proxy is in it.
    OtherMesh(String),
    /// It has a proxy, which stays.
    HasProxy,
    /// It has the very same proxy.
    Unchanged,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DisabledByPod => write!(f, "its annotation {INJECT} is disabled"),
            Self::DisabledByNamespace => write!(f, "its namespace's annotation {INJECT} is disabled"),
            Self::NotAsked => write!(f, "neither it nor its namespace has the annotation {INJECT}: enabled"),
            Self::SystemNamespace(name) => {
                write!(f, "the namespace {name} is never meshed, so that a broken mesh cannot stop it")
            }
            Self::HostNetwork => {
                f.write_str("hostNetwork: true; redirecting its connections would redirect its node's")
            }
            Self::Windows => f.write_str("its operating system is Windows, and the proxy's is Linux"),
            Self::OtherMesh(container) => {
                write!(f, "it has {container}, the proxy of another mesh; take that out first")
            }
            Self::HasProxy => f.write_str("it has a proxy already"),
            Self::Unchanged => f.write_str("it has this very proxy already"),
        }
    }
}

/// Why this Pod gets no proxy, or `None` if it gets one.
pub(super) fn reason(
    template: &Value,
    annotations: Option<&Map<String, Value>>,
    namespace: &Namespace,
    asked: Asked,
) -> Option<Skipped> {
    let said = |annotations: Option<&Map<String, Value>>, what: &str| {
        annotations.and_then(|all| all.get(INJECT)).and_then(Value::as_str).is_some_and(|word| word.trim() == what)
    };
    if CLUSTER_NAMESPACES.contains(&namespace.name.as_str()) || namespace.name == CONTROL_NAMESPACE {
        return Some(Skipped::SystemNamespace(namespace.name.clone()));
    }
    if said(annotations, "disabled") {
        return Some(Skipped::DisabledByPod);
    }
    let in_namespace = Some(&namespace.annotations);
    let has_own = annotations.is_some_and(|all| all.contains_key(INJECT));
    if !has_own && said(in_namespace, "disabled") {
        return Some(Skipped::DisabledByNamespace);
    }
    // A word that is neither is told as a mistake later.
    let is_asked = has_own || namespace.annotations.contains_key(INJECT);
    if asked == Asked::ByAnnotation && !is_asked {
        return Some(Skipped::NotAsked);
    }
    if template.pointer("/spec/hostNetwork") == Some(&Value::Bool(true)) {
        return Some(Skipped::HostNetwork);
    }
    if template.pointer("/spec/os/name").and_then(Value::as_str) == Some("windows") {
        return Some(Skipped::Windows);
    }
    let mut names = containers(template).filter_map(|container| container.get("name")?.as_str());
    names.find(|name| OTHER_PROXIES.contains(name)).map(|name| Skipped::OtherMesh(name.to_owned()))
}

/// What to tell somebody who asked for a proxy with the Pod's own annotation and gets none.
pub(super) fn warning(skipped: &Skipped, annotations: Option<&Map<String, Value>>) -> Option<String> {
    let has_own = annotations.is_some_and(|all| all.contains_key(INJECT));
    let expected = matches!(skipped, Skipped::DisabledByPod | Skipped::HasProxy | Skipped::Unchanged);
    (has_own && !expected).then(|| format!("this Pod gets no proxy: {skipped}"))
}

/// The containers of a Pod, its init containers first.
pub(super) fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    let list = |path| template.pointer(path).and_then(Value::as_array).into_iter().flatten();
    list("/spec/initContainers").chain(list("/spec/containers"))
}
