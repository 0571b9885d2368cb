//! The settings of one Pod's proxy: from the installation, the namespace's annotations, and the Pod's own.

use std::collections::HashMap;

use leno_model::policy::{DefaultInboundPolicy, Network};
use leno_model::problem::quoted;
use leno_model::protocol::{PortRanges, number};
use leno_model::proxy;
use leno_model::settings::parse_duration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Options, conflicts};
use crate::annotations::{
    ACCESS_LOG, ADMIN_PORT, ALL, Bearer, DEFAULT_INBOUND_POLICY, EGRESS_CONNECT_TIMEOUT, FORWARDED_CLIENT_CERT,
    FORWARDED_FOR, HTTP_PORTS, INBOUND_PORT, INJECT, Mistake, OPAQUE_PORTS, OUTBOUND_PORT, PROXY_CPU_LIMIT,
    PROXY_CPU_REQUEST, PROXY_IMAGE, PROXY_IMAGE_PULL_POLICY, PROXY_LOG_FORMAT, PROXY_LOG_LEVEL, PROXY_MEMORY_LIMIT,
    PROXY_MEMORY_REQUEST, PROXY_VERSION, PROXY_WORKERS, SHUTDOWN_GRACE, SKIP_INBOUND_PORTS, SKIP_OUTBOUND_PORTS,
    SKIP_SUBNETS, TAP_HEADERS, TAP_PORT, TRACE_FAILED, TRACE_RATIO, TRACE_SLOWER_THAN, ours,
};
use crate::quantity::amount;

/// The smallest memory limit: 4 MiB, which an annotation writes as `4Mi`. An idle proxy uses 2 to 10 MB.
const MEMORY_LIMIT_LEAST_BYTES: f64 = 4.0 * 1_024.0 * 1_024.0;

/// A setting of the installation with which no proxy could run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {} does not work; use {fix}", quoted(.value))]
pub struct BadSetting {
    /// The name of the chart's value.
    pub(super) name: &'static str,
    pub(super) value: String,
    /// The values allowed.
    pub(super) fix: &'static str,
}

/// Settings of a proxy, in the notation of its command line; an empty text means that the option is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// The image, without its tag.
    pub image: String,
    pub version: String,
    pub image_pull_policy: String,
    /// Requests and limits of the proxy's containers.
    pub cpu_request: String,
    pub cpu_limit: String,
    pub memory_request: String,
    pub memory_limit: String,
    /// Number of worker threads, each of which may use a processor core.
    pub workers: u16,
    pub log_level: String,
    pub log_format: String,
    /// The format of the access log, or `off`.
    pub access_log: String,
    /// Whether taps may show the header fields of calls.
    pub tap_headers: bool,
    /// The collector that gets the spans of traced calls: a Service or an IP address, and a port. If it is empty, calls
    /// are not traced.
    pub trace_collector: String,
    /// The fraction of calls, 0 to 1, for which the proxy begins a trace, out of the calls that have none yet.
    pub trace_ratio: String,
    /// Duration of a call above which the call's spans are exported even if the call is not sampled.
    pub trace_slower_than: String,
    /// Whether the spans of failed calls are exported even if the calls are not sampled.
    pub trace_failed: bool,
    /// Time that calls in flight have to finish, once the proxy has got SIGTERM.
    pub shutdown_grace: String,
    /// Timeout for establishing a connection to an address that belongs to no Service.
    pub egress_connect_timeout: String,
    /// Networks with the addresses of Pods and Services. If it is empty, the proxy's default applies. No annotation sets
    /// it, because it depends only on the cluster.
    pub cluster_networks: String,
    /// The policy for ports without an enforced AuthorizationPolicy.
    pub default_inbound_policy: String,
    /// Whether the application gets the identity of a verified client in x-forwarded-client-cert too, in addition to
    /// leno-client-id.
    pub forwarded_client_cert: bool,
    /// The proxy's treatment of the header field x-forwarded-for: `keep`, `append` or `set`.
    pub forwarded_for: String,
    /// Ports of the Pod whose bytes are relayed without inspection.
    pub opaque_ports: String,
    /// Ports of the Pod that accept HTTP only.
    pub http_ports: String,
    /// Ports of the Pod that clients reach without the proxy.
    pub skip_inbound_ports: String,
    /// Ports that the application calls without the proxy.
    pub skip_outbound_ports: String,
    /// Networks that the application calls without the proxy.
    pub skip_subnets: String,
    /// The proxy's port for connections from other workloads.
    pub inbound_port: u16,
    /// The proxy's port for the application's connections.
    pub outbound_port: u16,
    /// The port of the proxy's admin endpoint.
    pub admin_port: u16,
    /// The proxy's port for taps of other workloads.
    pub tap_port: u16,
}

impl Default for Settings {
    fn default() -> Self {
        let none = String::new;
        Self {
            image: "leno-proxy".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            image_pull_policy: "IfNotPresent".to_owned(),
            cpu_request: "10m".to_owned(),
            cpu_limit: none(),
            memory_request: "16Mi".to_owned(),
            memory_limit: "128Mi".to_owned(),
            workers: 1,
            log_level: "info".to_owned(),
            log_format: "plain".to_owned(),
            access_log: "off".to_owned(),
            tap_headers: false,
            trace_collector: none(),
            trace_ratio: none(),
            trace_slower_than: none(),
            trace_failed: false,
            shutdown_grace: "30s".to_owned(),
            egress_connect_timeout: none(),
            cluster_networks: none(),
            default_inbound_policy: "all-unauthenticated".to_owned(),
            forwarded_client_cert: false,
            forwarded_for: "keep".to_owned(),
            opaque_ports: none(),
            http_ports: none(),
            skip_inbound_ports: none(),
            skip_outbound_ports: none(),
            skip_subnets: none(),
            inbound_port: proxy::INBOUND_PORT,
            outbound_port: proxy::OUTBOUND_PORT,
            admin_port: proxy::ADMIN_PORT,
            tap_port: proxy::TAP_PORT,
        }
    }
}

impl Settings {
    /// Removes the request and the limit of each resource that the Pod requests or limits for all of its containers
    /// together (`spec.resources`). Kubernetes refuses a Pod whose containers request more than the Pod, and the Pod's
    /// author chose the Pod's resources without the proxy in mind.
    fn leave_resources_to(&mut self, template: &Value) {
        let has = |list: &str, resource: &str| {
            template.pointer(&format!("/spec/resources/{list}/{resource}")).is_some_and(|quantity| !quantity.is_null())
        };
        for (resource, own) in [
            ("cpu", [&mut self.cpu_request, &mut self.cpu_limit]),
            ("memory", [&mut self.memory_request, &mut self.memory_limit]),
        ] {
            if has("requests", resource) || has("limits", resource) {
                own.into_iter().for_each(String::clear);
            }
        }
    }

    /// Whether these settings give the proxy another image than the injector's, or another version. Such a proxy may not
    /// know all options that the injector knows. Compares tags without digests.
    pub(super) fn is_other_program(&self, options: &Options) -> bool {
        let is_other_version = without_digest(&self.version) != without_digest(options.own_version());
        self.image != options.proxy.image || is_other_version
    }

    /// Applies the annotations of a namespace, then the Pod's resources as a whole, then the annotations of a Pod. So if
    /// `spec.resources` has a resource, only an annotation of the Pod can give it to the proxy. To check a namespace
    /// without a Pod, pass null as `template`.
    ///
    /// If annotations set only the request or only the limit of a resource, the other one adapts: an annotation cannot
    /// remove the installation's value, and the API server refuses a container whose request is above its limit.
    ///
    /// # Errors
    /// Every annotation with an invalid value, and every annotated request above its annotated limit.
    pub(super) fn with_annotations(
        &self,
        namespace: Option<&Map<String, Value>>,
        template: &Value,
        pod: Option<&Map<String, Value>>,
    ) -> Result<Self, Vec<Mistake>> {
        let mut settings = self.clone();
        let mut bearers = HashMap::new();
        let mut mistakes = Vec::new();
        for (bearer, annotations) in [(Bearer::Namespace, namespace), (Bearer::Pod, pod)] {
            if bearer == Bearer::Pod {
                settings.leave_resources_to(template);
            }
            // A list may be empty, but a value that is not text is no empty list.
            let is_text = |name: &str| annotations.and_then(|all| all.get(name)).is_some_and(Value::is_string);
            for (name, value) in ours(annotations) {
                if is_text(name) && settings.set(name, value).is_some() {
                    bearers.insert(name, bearer);
                } else {
                    mistakes.push(Mistake::annotation(bearer, name, value, allowed(name)));
                }
            }
        }
        let Self { cpu_request, cpu_limit, memory_request, memory_limit, .. } = &mut settings;
        for ((request_name, request), (limit_name, limit)) in [
            ((PROXY_CPU_REQUEST, cpu_request), (PROXY_CPU_LIMIT, cpu_limit)),
            ((PROXY_MEMORY_REQUEST, memory_request), (PROXY_MEMORY_LIMIT, memory_limit)),
        ] {
            if !is_above(request, limit) {
                continue;
            }
            match (bearers.get(request_name), bearers.contains_key(limit_name)) {
                (Some(bearer), true) => {
                    let fix = format!("at most {limit}, the value of {limit_name}, or raise {limit_name}");
                    mistakes.push(Mistake::annotation(*bearer, request_name, request, &fix));
                }
                (Some(_), false) => limit.clone_from(request),
                (None, _) => request.clone_from(limit),
            }
        }
        if mistakes.is_empty() { Ok(settings) } else { Err(mistakes) }
    }

    /// Checks the settings of an installation, with the same checks as for annotations. Also checks that no request is
    /// above its limit: the API server would refuse every Pod with such a proxy. Returns the settings in the notation
    /// of the proxy's command line.
    ///
    /// # Errors
    /// [`BadSetting`] for the first setting with an invalid value.
    pub(super) fn checked(&self) -> Result<Self, BadSetting> {
        let required = [
            ("image.registry", PROXY_IMAGE, self.image.clone()),
            ("image.version", PROXY_VERSION, self.version.clone()),
            ("image.pullPolicy", PROXY_IMAGE_PULL_POLICY, self.image_pull_policy.clone()),
            ("proxy.workers", PROXY_WORKERS, self.workers.to_string()),
            ("proxy.logLevel", PROXY_LOG_LEVEL, self.log_level.clone()),
            ("proxy.logFormat", PROXY_LOG_FORMAT, self.log_format.clone()),
            ("proxy.accessLog", ACCESS_LOG, self.access_log.clone()),
            ("proxy.shutdownGrace", SHUTDOWN_GRACE, self.shutdown_grace.clone()),
            ("proxy.defaultInboundPolicy", DEFAULT_INBOUND_POLICY, self.default_inbound_policy.clone()),
            ("proxy.forwardedFor", FORWARDED_FOR, self.forwarded_for.clone()),
            ("proxy.inboundPort", INBOUND_PORT, self.inbound_port.to_string()),
            ("proxy.outboundPort", OUTBOUND_PORT, self.outbound_port.to_string()),
            ("proxy.adminPort", ADMIN_PORT, self.admin_port.to_string()),
            ("proxy.tapPort", TAP_PORT, self.tap_port.to_string()),
        ];
        // Settings that may be empty; an empty setting counts as not set.
        let optional = [
            ("proxy.cpuRequest", PROXY_CPU_REQUEST, self.cpu_request.clone()),
            ("proxy.cpuLimit", PROXY_CPU_LIMIT, self.cpu_limit.clone()),
            ("proxy.memoryRequest", PROXY_MEMORY_REQUEST, self.memory_request.clone()),
            ("proxy.memoryLimit", PROXY_MEMORY_LIMIT, self.memory_limit.clone()),
            ("proxy.traceRatio", TRACE_RATIO, self.trace_ratio.clone()),
            ("proxy.traceSlowerThan", TRACE_SLOWER_THAN, self.trace_slower_than.clone()),
            ("proxy.egressConnectTimeout", EGRESS_CONNECT_TIMEOUT, self.egress_connect_timeout.clone()),
            ("proxy.opaquePorts", OPAQUE_PORTS, self.opaque_ports.clone()),
            ("proxy.httpPorts", HTTP_PORTS, self.http_ports.clone()),
            ("proxy.skipInboundPorts", SKIP_INBOUND_PORTS, self.skip_inbound_ports.clone()),
            ("proxy.skipOutboundPorts", SKIP_OUTBOUND_PORTS, self.skip_outbound_ports.clone()),
            ("proxy.skipSubnets", SKIP_SUBNETS, self.skip_subnets.clone()),
        ];
        let mut checked = self.clone();
        let given = optional.iter().filter(|(.., value)| !value.is_empty());
        for (name, annotation, value) in required.iter().chain(given) {
            if checked.set(annotation, value).is_none() {
                return Err(BadSetting { name, value: value.clone(), fix: allowed(annotation) });
            }
        }
        for (name, request, limit, fix) in [
            (
                "proxy.cpuRequest",
                &checked.cpu_request,
                &checked.cpu_limit,
                "at most the value of proxy.cpuLimit, or raise proxy.cpuLimit",
            ),
            (
                "proxy.memoryRequest",
                &checked.memory_request,
                &checked.memory_limit,
                "at most the value of proxy.memoryLimit, or raise proxy.memoryLimit",
            ),
        ] {
            if is_above(request, limit) {
                return Err(BadSetting { name, value: request.clone(), fix });
            }
        }
        for (twice, port) in conflicts::used_twice(&checked) {
            if let Some((name, ..)) = required.iter().find(|(_, annotation, _)| *annotation == twice) {
                return Err(BadSetting { name, value: port.to_string(), fix: conflicts::OTHER_PORT });
            }
        }
        // No annotation sets the trace collector, so `set` cannot check its value.
        if !self.trace_collector.is_empty() && !is_collector(&self.trace_collector) {
            let fix = "a Service or an address and a port, as otel-collector.observability:4317";
            return Err(BadSetting { name: "proxy.traceCollector", value: self.trace_collector.clone(), fix });
        }
        checked.cluster_networks = subnets(self.cluster_networks.trim()).ok_or_else(|| BadSetting {
            name: "proxy.clusterNetworks",
            value: self.cluster_networks.clone(),
            fix: allowed(SKIP_SUBNETS),
        })?;
        Ok(checked)
    }

    /// Applies one annotation; `None` if its value is invalid. An unknown annotation has no effect.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let value = value.trim();
        match name {
            INJECT => drop(one_of(value, &["enabled", "disabled", "grpc"])?),
            FORWARDED_CLIENT_CERT => self.forwarded_client_cert = one_of(value, &["true", "false"])? == "true",
            FORWARDED_FOR => self.forwarded_for = one_of(value, &["keep", "append", "set"])?,
            OPAQUE_PORTS => self.opaque_ports = ports(value)?,
            HTTP_PORTS => self.http_ports = ports(value)?,
            SKIP_INBOUND_PORTS => self.skip_inbound_ports = ports(value)?,
            SKIP_OUTBOUND_PORTS => self.skip_outbound_ports = ports(value)?,
            SKIP_SUBNETS => self.skip_subnets = subnets(value)?,
            DEFAULT_INBOUND_POLICY => {
                value.parse::<DefaultInboundPolicy>().ok()?;
                self.default_inbound_policy = value.to_owned();
            }
            PROXY_IMAGE => self.image = image(value)?,
            PROXY_VERSION => self.version = tag(value)?,
            PROXY_IMAGE_PULL_POLICY => self.image_pull_policy = one_of(value, &["Always", "IfNotPresent", "Never"])?,
            PROXY_CPU_REQUEST => self.cpu_request = quantity(value)?,
            PROXY_CPU_LIMIT => self.cpu_limit = quantity(value)?,
            PROXY_MEMORY_REQUEST => self.memory_request = quantity(value)?,
            PROXY_MEMORY_LIMIT => self.memory_limit = memory_limit(value)?,
            PROXY_WORKERS => self.workers = number(value).filter(|count| *count <= proxy::WORKERS_MAX)?,
            PROXY_LOG_LEVEL => self.log_level = log_levels(value)?,
            PROXY_LOG_FORMAT => self.log_format = one_of(value, &["plain", "json"])?,
            ACCESS_LOG => self.access_log = one_of(value, &["off", "json", "apache"])?,
            TAP_HEADERS => self.tap_headers = one_of(value, &["allowed", "denied"])? == "allowed",
            TRACE_RATIO => self.trace_ratio = ratio(value)?,
            TRACE_SLOWER_THAN => self.trace_slower_than = slower_than(value)?,
            TRACE_FAILED => self.trace_failed = one_of(value, &["true", "false"])? == "true",
            SHUTDOWN_GRACE => self.shutdown_grace = grace(value)?,
            EGRESS_CONNECT_TIMEOUT => self.egress_connect_timeout = connect_timeout(value)?,
            INBOUND_PORT => self.inbound_port = number(value)?,
            OUTBOUND_PORT => self.outbound_port = number(value)?,
            ADMIN_PORT => self.admin_port = number(value)?,
            TAP_PORT => self.tap_port = number(value)?,
            _ => {}
        }
        Some(())
    }
}

/// Returns the values that an annotation allows, for an error message; empty for an unknown annotation.
pub(super) fn allowed(annotation: &str) -> &'static str {
    ALL.iter().find(|known| known.0 == annotation).map_or("", |known| known.1)
}

fn one_of(value: &str, words: &[&str]) -> Option<String> {
    words.contains(&value).then(|| value.to_owned())
}

/// Checks a list of ports. The list may be empty, so that a Pod can undo the list of its namespace.
fn ports(value: &str) -> Option<String> {
    (value.is_empty() || value.parse::<PortRanges>().is_ok()).then(|| without_spaces(value))
}

/// Checks a list of networks, which may be empty too.
fn subnets(value: &str) -> Option<String> {
    let is_subnet = |part: &str| part.contains('/') && part.trim().parse::<Network>().is_ok();
    (value.is_empty() || value.split(',').all(is_subnet)).then(|| without_spaces(value))
}

fn without_spaces(value: &str) -> String {
    value.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Checks the name of a container image, without a tag or a digest: an optional registry with an optional port, and a
/// path in lower case. Kubernetes starts no container if the name is invalid.
pub(super) fn image(value: &str) -> Option<String> {
    let (registry, path) = value.split_once('/').map_or((None, value), |(first, rest)| (Some(first), rest));
    let is_path_part = |part: &str| {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        !part.is_empty() && part.bytes().all(allowed)
    };
    let is_registry = |registry: &str| {
        let (host, port) = registry.split_once(':').map_or((registry, None), |(host, port)| (host, Some(port)));
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        !host.is_empty() && host.bytes().all(allowed) && port.is_none_or(|port| number(port).is_some())
    };
    let fits = value.len() <= 255 && registry.is_none_or(is_registry) && path.split('/').all(is_path_part);
    fits.then(|| value.to_owned())
}

/// Checks the tag of an image. The image's digest may follow the tag.
pub(super) fn tag(value: &str) -> Option<String> {
    let (tag, digest) = value.split_once('@').map_or((value, None), |(tag, digest)| (tag, Some(digest)));
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let starts = tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let is_digest =
        |digest: &str| digest.strip_prefix("sha256:").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    (starts && tag.len() <= 128 && tag.bytes().all(allowed) && digest.is_none_or(is_digest)).then(|| value.to_owned())
}

fn without_digest(version: &str) -> &str {
    version.split('@').next().unwrap_or_default()
}

/// Checks that a quantity is a number that is not negative, with or without one of Kubernetes' suffixes or an exponent.
fn quantity(value: &str) -> Option<String> {
    let starts = value.starts_with(|c: char| c.is_ascii_digit());
    (starts && amount(value).is_some_and(|amount| amount >= 0.0)).then(|| value.to_owned())
}

/// Checks a memory limit. Refuses a limit with which no proxy could start: `128m` is an eighth of a byte, and `128` is 128
/// bytes. For Kubernetes, 0 means no limit.
fn memory_limit(value: &str) -> Option<String> {
    let bytes = amount(value)?;
    quantity(value).filter(|_| bytes <= 0.0 || bytes >= MEMORY_LIMIT_LEAST_BYTES)
}

/// Returns whether a request is above its limit. False if one of them is empty, and so not set.
fn is_above(request: &str, limit: &str) -> bool {
    amount(request).zip(amount(limit)).is_some_and(|(request, limit)| request > limit)
}

pub(super) fn log_levels(value: &str) -> Option<String> {
    // The proxy also accepts a level as a number, from 0 (off) to 5 (trace).
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_known = |level: &str| {
        LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) || matches!(level.as_bytes(), [b'0'..=b'5'])
    };
    let is_level = |part: &str| match part.split_once('=') {
        Some((target, level)) => !target.is_empty() && is_known(level),
        None => is_known(part),
    };
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_:,=".contains(&b);
    (value.bytes().all(allowed) && value.split(',').all(is_level)).then(|| value.to_owned())
}

fn grace(value: &str) -> Option<String> {
    proxy::parse_grace(value)?;
    Some(value.to_owned())
}

/// Checks a fraction from 0 to 1 that consists of digits and at most one point.
fn ratio(value: &str) -> Option<String> {
    let is_plain = value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let ratio = Some(value).filter(|_| is_plain)?.parse::<f64>().ok()?;
    (0.0..=1.0).contains(&ratio).then(|| value.to_owned())
}

/// Returns whether a text is a host and a port. The proxy itself decides whether the host is an address or a Service.
fn is_collector(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b".:[]-".contains(&b);
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    !host.is_empty() && host.bytes().all(allowed) && number(port).is_some()
}

fn slower_than(value: &str) -> Option<String> {
    parse_duration(value).filter(|limit| !limit.is_zero())?;
    Some(value.to_owned())
}

/// Checks a connect timeout and returns it unchanged; the proxy's option has the same notation.
fn connect_timeout(value: &str) -> Option<String> {
    let timeout = parse_duration(value)?;
    proxy::CONNECT_TIMEOUTS.contains(&timeout).then(|| value.to_owned())
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
