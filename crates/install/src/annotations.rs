//! The annotations that enable and configure the proxy of a Pod, and their values.
//!
//! Users set them on Pods (in a workload's Pod template), or on a namespace for every Pod of the namespace. A Pod's own
//! annotation takes precedence. Annotations of Services and EndpointSlices are in `leno_model`.

use std::fmt;

pub(crate) use leno_model::object::annotations::OPAQUE_PORTS;
pub use leno_model::object::annotations::PREFIX;
use leno_model::problem::quoted;
use leno_model::spelling::closest;
use serde_json::{Map, Value};

/// Whether a Pod gets a proxy: `enabled` or `disabled`; `grpc` gives the Pod an identity without a proxy.
pub const INJECT: &str = "leno.dev/inject";
/// The label of injected Pods. The value is `true` in a Pod with a proxy, and `grpc` in a Pod with the sidecar for
/// gRPC.
pub const INJECTED_LABEL: &str = "leno.dev/injected";
/// Kubernetes' annotation of a mirror Pod: the object that a kubelet creates for a static Pod.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";

pub(crate) const HTTP_PORTS: &str = "leno.dev/http-ports";
pub(crate) const SKIP_INBOUND_PORTS: &str = "leno.dev/skip-inbound-ports";
pub(crate) const SKIP_OUTBOUND_PORTS: &str = "leno.dev/skip-outbound-ports";
pub(crate) const SKIP_SUBNETS: &str = "leno.dev/skip-subnets";
pub(crate) const DEFAULT_INBOUND_POLICY: &str = "leno.dev/default-inbound-policy";
pub(crate) const FORWARDED_CLIENT_CERT: &str = "leno.dev/forwarded-client-cert";
pub(crate) const FORWARDED_FOR: &str = "leno.dev/forwarded-for";
/// The proxy's image, without its tag.
pub const PROXY_IMAGE: &str = "leno.dev/proxy-image";
/// The tag of the proxy's image; it pins the version of the proxy.
pub const PROXY_VERSION: &str = "leno.dev/proxy-version";
pub(crate) const PROXY_IMAGE_PULL_POLICY: &str = "leno.dev/proxy-image-pull-policy";
pub(crate) const PROXY_CPU_REQUEST: &str = "leno.dev/proxy-cpu-request";
pub(crate) const PROXY_CPU_LIMIT: &str = "leno.dev/proxy-cpu-limit";
pub(crate) const PROXY_MEMORY_REQUEST: &str = "leno.dev/proxy-memory-request";
pub(crate) const PROXY_MEMORY_LIMIT: &str = "leno.dev/proxy-memory-limit";
pub(crate) const PROXY_WORKERS: &str = "leno.dev/proxy-workers";
pub(crate) const PROXY_LOG_LEVEL: &str = "leno.dev/proxy-log-level";
pub(crate) const PROXY_LOG_FORMAT: &str = "leno.dev/proxy-log-format";
pub(crate) const ACCESS_LOG: &str = "leno.dev/access-log";
pub(crate) const TAP_HEADERS: &str = "leno.dev/tap-headers";
pub(crate) const TRACE_RATIO: &str = "leno.dev/trace-ratio";
pub(crate) const TRACE_SLOWER_THAN: &str = "leno.dev/trace-slower-than";
pub(crate) const TRACE_FAILED: &str = "leno.dev/trace-failed";
pub(crate) const SHUTDOWN_GRACE: &str = "leno.dev/shutdown-grace";
pub(crate) const EGRESS_CONNECT_TIMEOUT: &str = "leno.dev/egress-connect-timeout";
pub(crate) const INBOUND_PORT: &str = "leno.dev/proxy-inbound-port";
pub(crate) const OUTBOUND_PORT: &str = "leno.dev/proxy-outbound-port";
pub(crate) const ADMIN_PORT: &str = "leno.dev/proxy-admin-port";
pub(crate) const TAP_PORT: &str = "leno.dev/proxy-tap-port";

/// Every annotation: its name, its values, and its meaning.
pub const ALL: [(&str, &str, &str); 30] = [
    (INJECT, "enabled, disabled, grpc", "whether Pods get a proxy; grpc: an identity for gRPC's own xDS, and no proxy"),
    (
        OPAQUE_PORTS,
        "ports and ranges, for example 3306,9000-9010",
        "ports of the Pod; the proxy relays their bytes without protocol detection",
    ),
    (HTTP_PORTS, "ports and ranges, for example 8080,9000-9010", "ports of the Pod that accept HTTP only"),
    (
        SKIP_INBOUND_PORTS,
        "ports and ranges, for example 22,1000-2000",
        "ports of the Pod that clients reach without the proxy",
    ),
    (
        SKIP_OUTBOUND_PORTS,
        "ports and ranges, for example 25,1000-2000",
        "ports that the application calls without the proxy",
    ),
    (
        SKIP_SUBNETS,
        "networks, for example 192.168.0.0/16,fd00::/8",
        "networks that the application calls without the proxy",
    ),
    (
        DEFAULT_INBOUND_POLICY,
        "all-unauthenticated, all-authenticated, cluster-authenticated, deny, audit",
        "callers allowed on ports without an enforced AuthorizationPolicy",
    ),
    (
        FORWARDED_CLIENT_CERT,
        "true, false",
        "whether the application gets x-forwarded-client-cert, which describes the client",
    ),
    (FORWARDED_FOR, "keep, append, set", "whether and how the proxy writes the client's address into x-forwarded-for"),
    (PROXY_IMAGE, "an image without its tag", "the image of the proxy"),
    (PROXY_VERSION, "a tag, for example 0.1.0", "the tag of the proxy's image"),
    (PROXY_IMAGE_PULL_POLICY, "Always, IfNotPresent, Never", "when the proxy's image is pulled"),
    (PROXY_CPU_REQUEST, "a quantity, for example 10m", "the proxy's CPU request"),
    (PROXY_CPU_LIMIT, "a quantity, for example 1", "the proxy's CPU limit"),
    (PROXY_MEMORY_REQUEST, "a quantity, for example 16Mi", "the proxy's memory request"),
    (PROXY_MEMORY_LIMIT, "a quantity of at least 4Mi, for example 128Mi", "the proxy's memory limit"),
    (PROXY_WORKERS, "1 to 64", "how many processor cores may relay calls"),
    (
        PROXY_LOG_LEVEL,
        "off, error, warn, info, debug, trace, also by target, as info,leno_relay=debug (calls and their \
         connections) or info,leno_proxy=debug (the rest of the proxy)",
        "the proxy's log levels",
    ),
    (PROXY_LOG_FORMAT, "plain, json", "the format of the proxy's log lines"),
    (ACCESS_LOG, "off, json, apache", "whether and how the proxy logs each call"),
    (TAP_HEADERS, "allowed, denied", "whether leno tap may show the header fields of calls; denied by default"),
    (TRACE_RATIO, "0 to 1, for example 0.01", "the share of the calls without a trace for which the proxy begins one"),
    (
        TRACE_SLOWER_THAN,
        "a duration, for example 500ms or 2s",
        "slower calls are exported even if they are not sampled",
    ),
    (TRACE_FAILED, "true, false", "whether failed calls are exported even if they are not sampled"),
    (
        SHUTDOWN_GRACE,
        "a duration, for example 500ms, 30s or 2m, at most 60m",
        "how long calls in flight may continue after the proxy gets SIGTERM",
    ),
    (
        EGRESS_CONNECT_TIMEOUT,
        "a duration of 10ms to 1m, for example 500ms or 5s",
        "the longest time to establish a connection to an address without a Service; 1s by default",
    ),
    (INBOUND_PORT, "1 to 65535", "the port where the proxy accepts connections to the Pod"),
    (OUTBOUND_PORT, "1 to 65535", "the port where the proxy accepts the application's connections"),
    (ADMIN_PORT, "1 to 65535", "where the proxy answers probes and Prometheus"),
    (TAP_PORT, "1 to 65535", "where other workloads may tap the proxy, if an AuthorizationPolicy names the port"),
];

/// The kind of object that has an annotation: a namespace or a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    Namespace,
    /// The Pod, or the Pod template.
    Pod,
}

/// A mistake in a Pod or its annotations. With this mistake, the Pod cannot get a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// An annotation has an invalid value.
    Annotation {
        bearer: Bearer,
        name: String,
        /// The invalid value, quoted and shortened.
        value: String,
        /// The values allowed.
        fix: String,
    },
    /// A Pod has an annotation that only its namespace may have.
    Reserved { name: String },
    /// The proxy, or the sidecar for gRPC, cannot work beside a part of the Pod: for example, the proxy and a container
    /// use the same port or user.
    Conflict { what: String, fix: String },
}

impl Mistake {
    pub(crate) fn annotation(bearer: Bearer, name: &str, value: &str, fix: &str) -> Self {
        Self::Annotation { bearer, name: name.to_owned(), value: quoted(value), fix: fix.to_owned() }
    }
}

impl fmt::Display for Mistake {
    /// Writes one line, for example `leno.dev/proxy-workers: "0" does not work; use 1 to 64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation { bearer, name, value, fix } => {
                let of = if *bearer == Bearer::Namespace { " of the namespace" } else { "" };
                write!(f, "annotation {name}{of}: {value} does not work; use {fix}")
            }
            Self::Reserved { name } => write!(
                f,
                "annotation {name} of the Pod: only a namespace may have it here; annotate the namespace, or \
                 change webhook.namespaceOnly with leno upgrade"
            ),
            Self::Conflict { what, fix } => write!(f, "{what}; {fix}"),
        }
    }
}

/// Returns the annotations with our prefix among `all`, each with its value; a value that is not text becomes empty.
pub(crate) fn ours(all: Option<&Map<String, Value>>) -> impl Iterator<Item = (&str, &str)> {
    let ours = all.into_iter().flatten().filter(|(name, _)| name.starts_with(PREFIX));
    ours.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
}

/// Returns a warning for an annotation that has our prefix but does not exist.
pub(crate) fn unknown(name: &str) -> Option<String> {
    let names = ALL.map(|(name, ..)| name);
    if names.contains(&name) {
        return None;
    }
    let advice = match closest(name, names) {
        Some(meant) => format!("did you mean {meant}?"),
        None => "it has no effect".to_owned(),
    };
    Some(format!("annotation {name}: there is no such annotation of Pods; {advice}"))
}

/// Returns a warning for a label that has the name of one of our annotations.
pub(crate) fn label(name: &str) -> Option<String> {
    let is_annotation = ALL.iter().any(|(annotation, ..)| *annotation == name);
    is_annotation.then(|| format!("label {name}: it has no effect, since {name} is an annotation; move it there"))
}

#[cfg(test)]
#[path = "annotations_tests.rs"]
mod tests;
