//! Which Pods get no proxy, and why.

use std::fmt;

use serde_json::{Map, Value};

use super::{Asked, Namespace};
use crate::annotations::INJECT;
use crate::names::CONTROL_NAMESPACE;

/// Namespaces without which there is no cluster: a mesh that is broken must not break them.
const CLUSTER_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// The value of [`INJECT`] that refuses a proxy.
const DISABLED: &str = "disabled";

/// `spec.os.name` of a Pod that runs Windows.
const WINDOWS: &str = "windows";

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

/// What of a Pod decides whether it gets a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits<'a> {
    /// The value of its annotation [`INJECT`], where it has one.
    pub inject: Option<&'a str>,
    /// Whether it shares its node's network.
    pub has_host_network: bool,
    /// Whether it runs Windows.
    pub is_windows: bool,
}

/// What a Pod without a proxy says about that; with its namespace's annotation it tells whether the Pod should have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It asks for a proxy.
    Proxy,
    /// It refuses one, or can have none.
    NoProxy,
    /// Its namespace decides.
    AsNamespace,
}

impl<'a> Traits<'a> {
    fn of(template: &'a Value, annotations: Option<&'a Map<String, Value>>) -> Self {
        Self {
            inject: word(annotations),
            has_host_network: template.pointer("/spec/hostNetwork") == Some(&Value::Bool(true)),
            is_windows: template.pointer("/spec/os/name").and_then(Value::as_str) == Some(WINDOWS),
        }
    }

    /// What the Pod says of itself. Another mesh's proxy is no refusal: such a Pod runs outside of this mesh unnoticed.
    pub fn wish(&self) -> Wish {
        match self.inject {
            _ if self.has_host_network || self.is_windows => Wish::NoProxy,
            Some(word) if word.trim() == DISABLED => Wish::NoProxy,
            Some(_) => Wish::Proxy,
            None => Wish::AsNamespace,
        }
    }
}

impl Wish {
    /// Whether a Pod with this wish should have a proxy in a namespace whose annotation [`INJECT`] has this value.
    pub fn is_for_a_proxy(self, namespace: Option<&str>) -> bool {
        match self {
            Self::Proxy => true,
            Self::NoProxy => false,
            // A word that is neither enabled nor disabled stops the Pods, so it asks.
            Self::AsNamespace => namespace.is_some_and(|word| word.trim() != DISABLED),
        }
    }
}

/// Whether no Pod of the namespace gets a proxy, whatever its annotations say.
pub fn is_never_meshed(namespace: &str) -> bool {
    CLUSTER_NAMESPACES.contains(&namespace) || namespace == CONTROL_NAMESPACE
}

/// Whether the Pod or its namespace asks for a proxy, or the Pod refuses the one that its namespace asks for.
pub(super) fn concerns_the_mesh(annotations: Option<&Map<String, Value>>, namespace: &Namespace) -> bool {
    let is_asked = Wish::AsNamespace.is_for_a_proxy(word(Some(&namespace.annotations)));
    !is_never_meshed(&namespace.name) && (is_asked || word(annotations).is_some())
}

/// Why this Pod gets no proxy, or `None` if it gets one.
pub(super) fn reason(
    template: &Value,
    annotations: Option<&Map<String, Value>>,
    namespace: &Namespace,
    asked: Asked,
) -> Option<Skipped> {
    let traits = Traits::of(template, annotations);
    let is_disabled = |word: Option<&str>| word.is_some_and(|word| word.trim() == DISABLED);
    let in_namespace = word(Some(&namespace.annotations));
    if is_never_meshed(&namespace.name) {
        return Some(Skipped::SystemNamespace(namespace.name.clone()));
    }
    if is_disabled(traits.inject) {
        return Some(Skipped::DisabledByPod);
    }
    if traits.inject.is_none() && is_disabled(in_namespace) {
        return Some(Skipped::DisabledByNamespace);
    }
    // A word that is neither is told as a mistake later.
    if asked == Asked::ByAnnotation && traits.inject.or(in_namespace).is_none() {
        return Some(Skipped::NotAsked);
    }
    if traits.has_host_network {
        return Some(Skipped::HostNetwork);
    }
    if traits.is_windows {
        return Some(Skipped::Windows);
    }
    let mut names = containers(template).filter_map(|container| container.get("name")?.as_str());
    names.find(|name| OTHER_PROXIES.contains(name)).map(|name| Skipped::OtherMesh(name.to_owned()))
}

/// The annotation's value; one that is not text is empty, and wrong.
fn word(annotations: Option<&Map<String, Value>>) -> Option<&str> {
    annotations?.get(INJECT).map(|word| word.as_str().unwrap_or_default())
}

/// What to tell somebody who asked for a proxy with the Pod's own annotation and gets none.
pub(super) fn warning(skipped: &Skipped, annotations: Option<&Map<String, Value>>) -> Option<String> {
    let has_own = word(annotations).is_some();
    let expected = matches!(skipped, Skipped::DisabledByPod | Skipped::HasProxy | Skipped::Unchanged);
    (has_own && !expected).then(|| format!("this Pod gets no proxy: {skipped}"))
}

/// The containers of a Pod, its init containers first.
pub(super) fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    let list = |path| template.pointer(path).and_then(Value::as_array).into_iter().flatten();
    list("/spec/initContainers").chain(list("/spec/containers"))
}

#[cfg(test)]
#[path = "skip_tests.rs"]
mod tests;
