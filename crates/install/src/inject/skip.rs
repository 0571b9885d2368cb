//! Decides which Pods get no proxy, and why.

use std::fmt;

use serde_json::{Map, Value, json};

use super::plan::items;
use super::{Asked, Namespace};
use crate::annotations::{INJECT, MIRROR_POD};
use crate::names::CONTROL_NAMESPACE;

/// Namespaces of the cluster's own components: a broken mesh must not stop them.
const CLUSTER_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// The value of [`INJECT`] that enables injection.
const ENABLED: &str = "enabled";

/// The value of [`INJECT`] that disables injection.
const DISABLED: &str = "disabled";

/// The value of [`INJECT`] that asks for an identity without a proxy.
pub(super) const GRPC_WORD: &str = "grpc";

/// The fields that name the operating system of a Pod. Most Windows Pods have only the second field, the node selector.
const OS_FIELDS: [&str; 2] = ["/spec/os/name", "/spec/nodeSelector/kubernetes.io~1os"];

/// The value of [`OS_FIELDS`] in a Windows Pod.
const WINDOWS: &str = "windows";

/// The node label with the operating system.
const OS_LABEL: &str = "kubernetes.io/os";

/// Container names of other meshes' proxies.
const OTHER_PROXIES: [&str; 4] = ["linkerd-proxy", "istio-proxy", "consul-dataplane", "kuma-sidecar"];

/// The reason why a Pod gets no proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// The Pod's annotation disables injection.
    DisabledByPod,
    /// The namespace's annotation disables injection.
    DisabledByNamespace,
    /// No annotation enables injection.
    NotAsked,
    /// The Pod's namespace belongs to the cluster's components or to the mesh's control plane.
    SystemNamespace(String),
    /// The Pod uses its node's network.
    HostNetwork,
    Windows,
    /// The kubelet created the Pod for a static Pod. It runs the static Pod as its file on the node describes it,
    /// whatever the API server stores or refuses.
    MirrorPod,
    /// The Pod has the proxy of another mesh.
    OtherMesh(String),
    /// The Pod already has a proxy of ours, which stays unchanged.
    HasProxy,
    /// The Pod already has the proxy that it would get.
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
            Self::MirrorPod => f.write_str("it is a static Pod, and only the file on its node can change it"),
            Self::OtherMesh(container) => {
                write!(f, "it has {container}, the proxy of another mesh; take that out first")
            }
            Self::HasProxy => f.write_str("it has a proxy already"),
            Self::Unchanged => f.write_str("it has this very proxy already"),
        }
    }
}

/// The properties of a Pod that decide whether the Pod gets a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits<'a> {
    /// The value of the Pod's annotation [`INJECT`].
    pub inject: Option<&'a str>,
    /// Whether the Pod uses its node's network.
    pub has_host_network: bool,
    /// Whether the Pod names Windows as its operating system, in `spec.os` or in its node selector.
    pub is_windows: bool,
    /// Whether the Pod is the mirror Pod of a static Pod. A user who sets the annotation gains nothing: no kubelet runs
    /// the containers of a mirror Pod.
    pub is_mirror: bool,
}

/// The request of a Pod's spec for a proxy or an identity, without regard to its namespace. [`Wish::is_for_a_proxy`]
/// combines this wish with the annotation of the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The Pod asks for a proxy.
    Proxy,
    /// The Pod asks for an identity for gRPC, without a proxy.
    Grpc,
    /// The Pod opts out, or cannot have a proxy.
    NoProxy,
    /// The Pod's namespace decides.
    AsNamespace,
}

impl<'a> Traits<'a> {
    fn of(template: &'a Value, annotations: Option<&'a Map<String, Value>>) -> Self {
        Self {
            inject: word(annotations),
            has_host_network: template.pointer("/spec/hostNetwork") == Some(&Value::Bool(true)),
            is_windows: OS_FIELDS.iter().any(|path| template.pointer(path).is_some_and(|os| os == WINDOWS)),
            is_mirror: is_mirror(annotations),
        }
    }

    /// Returns the Pod's own wish. Another mesh's proxy has no effect on the wish: otherwise a Pod with such a proxy
    /// would run outside of this mesh unnoticed.
    pub fn wish(&self) -> Wish {
        match self.inject {
            _ if self.has_host_network || self.is_windows || self.is_mirror => Wish::NoProxy,
            Some(word) if word.trim() == DISABLED => Wish::NoProxy,
            Some(word) if word.trim() == GRPC_WORD => Wish::Grpc,
            Some(_) => Wish::Proxy,
            None => Wish::AsNamespace,
        }
    }
}

impl Wish {
    /// Returns whether a Pod with this wish should have a proxy, given the value of its namespace's annotation
    /// [`INJECT`].
    pub fn is_for_a_proxy(self, namespace: Option<&str>) -> bool {
        match self {
            Self::Proxy => true,
            Self::NoProxy | Self::Grpc => false,
            // The injector rejects the Pods of a namespace with an invalid value. So an invalid value does not mean "no
            // proxy": treat it as a request for a proxy.
            Self::AsNamespace => namespace.is_some_and(|word| ![DISABLED, GRPC_WORD].contains(&word.trim())),
        }
    }

    /// Returns whether a Pod with this wish should have an identity for gRPC, without a proxy.
    pub fn is_for_grpc(self, namespace: Option<&str>) -> bool {
        match self {
            Self::Grpc => true,
            Self::Proxy | Self::NoProxy => false,
            Self::AsNamespace => namespace.is_some_and(|word| word.trim() == GRPC_WORD),
        }
    }

    /// Returns whether a Pod with this wish should be a member of the mesh, with a proxy or without.
    pub fn is_for_the_mesh(self, namespace: Option<&str>) -> bool {
        self.is_for_a_proxy(namespace) || self.is_for_grpc(namespace)
    }
}

/// Returns whether this value of a namespace's annotation asks for proxies or gRPC sidecars in new Pods.
pub fn asks_for_injection(word: &str) -> bool {
    [ENABLED, GRPC_WORD].contains(&word.trim())
}

/// Returns whether no Pod of the namespace gets a proxy, regardless of its annotations.
pub fn is_never_meshed(namespace: &str) -> bool {
    CLUSTER_NAMESPACES.contains(&namespace) || namespace == CONTROL_NAMESPACE
}

/// Returns whether the annotation [`INJECT`], of the namespace or of the Pod, applies to the Pod.
///
/// True if the namespace asks for a proxy or for an identity for gRPC. Also true if the Pod has the annotation with any
/// value, even a value that opts out. Always false in namespaces that are never meshed.
pub(super) fn concerns_the_mesh(annotations: Option<&Map<String, Value>>, namespace: &Namespace) -> bool {
    let is_asked = Wish::AsNamespace.is_for_the_mesh(word(Some(&namespace.annotations)));
    !is_never_meshed(&namespace.name) && (is_asked || word(annotations).is_some())
}

/// Returns the reason why a Pod gets no proxy; `None` if the Pod gets a proxy, or an identity for gRPC.
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
    // Any value but `disabled` continues here; invalid values are reported as errors later.
    if asked == Asked::ByAnnotation && traits.inject.or(in_namespace).is_none() {
        return Some(Skipped::NotAsked);
    }
    if traits.has_host_network {
        return Some(Skipped::HostNetwork);
    }
    if traits.is_windows {
        return Some(Skipped::Windows);
    }
    if traits.is_mirror {
        return Some(Skipped::MirrorPod);
    }
    let mut names = containers(template).filter_map(|container| container.get("name")?.as_str());
    names.find(|name| OTHER_PROXIES.contains(name)).map(|name| Skipped::OtherMesh(name.to_owned()))
}

/// Returns the field that suggests that a Pod runs on Windows, if the Pod has neither of [`OS_FIELDS`]. The injector does
/// not skip such a Pod: the guard and the control plane would not recognize it.
pub(super) fn windows_hint(template: &Value) -> Option<&'static str> {
    if OS_FIELDS.iter().any(|path| template.pointer(path).is_some()) {
        return None;
    }
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = items(template, required);
    if !terms.is_empty() && terms.iter().all(selects_windows) {
        return Some("the required nodeAffinity");
    }
    let options = "/securityContext/windowsOptions";
    let is_set = |options: Option<&Value>| options.is_some_and(|options| !options.is_null());
    let of_pod = is_set(template.pointer(&format!("/spec{options}")));
    let has_options = of_pod || containers(template).any(|container| is_set(container.pointer(options)));
    has_options.then_some("windowsOptions")
}

/// Returns whether a term of a node affinity selects only Windows nodes.
fn selects_windows(term: &Value) -> bool {
    let is_windows = |expression: &Value| {
        let is_in = expression["key"] == OS_LABEL && expression["operator"] == "In";
        is_in && expression["values"] == json!([WINDOWS])
    };
    items(term, "/matchExpressions").iter().any(is_windows)
}

/// Returns whether a Pod is the mirror Pod of a static Pod.
pub(super) fn is_mirror(annotations: Option<&Map<String, Value>>) -> bool {
    annotations.is_some_and(|annotations| annotations.contains_key(MIRROR_POD))
}

/// Returns the value of [`INJECT`]. A value that is not text becomes empty text, which is invalid.
fn word(annotations: Option<&Map<String, Value>>) -> Option<&str> {
    annotations?.get(INJECT).map(|word| word.as_str().unwrap_or_default())
}

/// Returns the value of [`INJECT`] that applies to a Pod: the Pod's own value or, if it has none, the value of its
/// namespace.
pub(super) fn effective_word<'a>(
    annotations: Option<&'a Map<String, Value>>,
    namespace: &'a Map<String, Value>,
) -> Option<&'a str> {
    word(annotations).or(word(Some(namespace)))
}

/// Returns a warning for a Pod that has the annotation [`INJECT`] itself and gets no proxy.
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
