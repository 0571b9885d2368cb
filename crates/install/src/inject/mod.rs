//! Makes the patch that adds the proxy to a Pod template, and the patch that removes the proxy.
//!
//! In order: `skip` decides whether the Pod gets a proxy, `settings` reads the annotations, `conflicts` checks ports,
//! users and the DNS policy, `containers` makes the containers, and `plan` makes the patch. The patch for a proxy
//! leaves the application's containers as they are, except their TCP probes (`tcp`). `probes` finds the probes that the
//! proxy allows. `grpc` makes the items of a Pod that gets an identity and no proxy. `existing` decides about a Pod that
//! already has the containers of a proxy. `options` and `installation` check the values that an installation sets for
//! all Pods.

mod conflicts;
mod containers;
mod existing;
mod grpc;
mod inbound_ports;
mod installation;
mod options;
mod plan;
mod probes;
mod qos;
mod reserved;
mod settings;
mod skip;
mod tcp;

use serde_json::{Map, Value};

pub use inbound_ports::{InboundPorts, inbound_ports};
pub(crate) use installation::check_values;
pub use installation::{parse_cluster_domain, parse_image, parse_trust_domain, parse_version};
pub use options::{BadOptions, Options};
pub use probes::{PodProbe, Unasked, of_arguments as probes_of_arguments, of_pod as probes_of_pod};
pub use settings::{BadSetting, Settings};
pub use skip::{Skipped, Traits, Wish, asks_for_injection, is_never_meshed};
pub(crate) use tcp::count as count_tcp_probes;
pub use tcp::{Obstacle, Unreplaced, unreplaced as unreplaced_tcp_probes};

use crate::annotations::{INJECT, Mistake, label, ours, unknown};
use crate::names::{GRPC, INIT, POD_SECURITY, PROXY};
use crate::patch::Operation;

/// The value of the injector's label on a Pod with a proxy.
const PROXY_LABEL: &str = "true";

/// The origin of a request to inject a proxy: a user or the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A user names this workload. The Pod gets a proxy even without an annotation that enables injection. An
    /// existing proxy is replaced.
    ByName,
    /// The cluster calls the injector for every Pod. A Pod gets a proxy only if an annotation enables injection. An
    /// existing proxy stays; the injector only corrects the place of its containers, its arguments for the probes and
    /// for the application's name, and the Pod's label, and replaces TCP probes.
    ByAnnotation,
}

#[derive(Clone, Debug, Default)]
pub struct Namespace {
    /// The name of the namespace; empty if unknown.
    pub name: String,
    /// The annotations of the namespace, as far as they are known.
    pub annotations: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Injected {
        patch: Vec<Operation>,
        /// Whether an existing proxy of ours is replaced.
        replaced: bool,
    },
    Skipped(Skipped),
}

/// The result of an injection for one Pod template: the outcome, and warnings for the author of the template.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub outcome: Outcome,
    /// Harmless but probably unintended settings, one line each.
    pub warnings: Vec<String>,
}

/// Decides whether a Pod template (or a Pod) gets a proxy.
///
/// # Errors
/// Every error that the author of the Pod must fix first.
pub fn inject(
    template: &Value,
    namespace: &Namespace,
    asked: Asked,
    options: &Options,
) -> Result<Decision, Vec<Mistake>> {
    let annotations = template.pointer("/metadata/annotations").and_then(Value::as_object);
    let is_reviewed = asked == Asked::ByAnnotation && !skip::is_mirror(annotations);
    if is_reviewed && skip::concerns_the_mesh(annotations, namespace) {
        let reserved = reserved::annotations_of_pod(annotations, namespace, options);
        if !reserved.is_empty() {
            return Err(reserved);
        }
    }
    if let Some(skipped) = skip::reason(template, annotations, namespace, asked) {
        // Report misspelt annotations: in a cluster, they are a common reason for a missing proxy.
        let warnings = skip::warning(&skipped, annotations).into_iter().chain(typos(template)).collect();
        return Ok(Decision { outcome: Outcome::Skipped(skipped), warnings });
    }
    let settings = options.proxy.with_annotations(Some(&namespace.annotations), template, annotations)?;
    let inherited = options.proxy.with_annotations(Some(&namespace.annotations), template, None)?;
    if grpc::is_asked(annotations, &namespace.annotations) {
        return inject_grpc(template, annotations, &settings, asked, options);
    }
    let conflicts = conflicts::find(template, &settings);
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    let ports = InboundPorts::of(&settings);
    let restored = tcp::restored(template);
    let probes = probes::of_pod(&restored, &ports);
    let found = tcp::of_pod(&restored, &ports.skipped);
    let mut of_tcp_probes: Vec<String> = found.warnings().collect();
    // If the cluster asks, the Pod may bring a proxy that already has pages for some probes. These pages must stay.
    let is_new = |probe: &tcp::Replaced| asked == Asked::ByName || probe.is_pending(template);
    let (replaced, unsupported) = tcp::without_unsupported(found.replaced, &settings, options, is_new);
    of_tcp_probes.extend(unsupported);
    let additions = plan::Additions {
        init_containers: vec![
            containers::init(&settings, template),
            containers::proxy(&settings, options, template, &probes, &replaced),
        ],
        volumes: vec![containers::volume()],
        label: PROXY_LABEL,
        program: None,
        tcp_probes: replaced,
        admin_port: settings.admin_port,
    };
    let mut warnings: Vec<String> = typos(template).chain(reserved::loosened(&inherited, &settings)).collect();
    warnings.extend(probes::warnings(&probes, &settings));
    warnings.extend(of_tcp_probes);
    warnings.extend(conflicts::warnings(template, PROXY));
    warnings.extend(qos::warning(template, &settings));
    let outcome = match plan::inject(template, &additions) {
        Some(plan) if plan.replaces_proxy && asked == Asked::ByAnnotation => {
            let (outcome, of_kept_proxy) = existing::keep(template, &additions, options)?;
            warnings.extend(of_kept_proxy);
            outcome
        }
        Some(plan) => Outcome::Injected { patch: plan.patch, replaced: plan.replaces },
        None => Outcome::Skipped(Skipped::Unchanged),
    };
    Ok(Decision { outcome, warnings })
}

/// Returns the name of a Pod's application, which the Pod's labels give; `None` without such a label.
fn application(template: &Value) -> Option<&str> {
    let label = |path| template.pointer(path).and_then(Value::as_str).filter(|name| !name.is_empty());
    label("/metadata/labels/app.kubernetes.io~1name").or_else(|| label("/metadata/labels/app"))
}

/// Does the same as [`inject`] for a Pod that gets an identity for gRPC and no proxy.
fn inject_grpc(
    template: &Value,
    annotations: Option<&Map<String, Value>>,
    settings: &Settings,
    asked: Asked,
    options: &Options,
) -> Result<Decision, Vec<Mistake>> {
    let conflicts = grpc::conflicts(template, settings);
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    let of_pod = conflicts::warnings(template, GRPC);
    let warnings = typos(template).chain(grpc::warnings(template, annotations)).chain(of_pod).collect();
    let additions = grpc::additions(settings, options, template);
    let outcome = match plan::inject(template, &additions) {
        Some(plan) if plan.replaces && asked == Asked::ByAnnotation => {
            // A Pod that brings a whole proxy keeps it, although the annotation asks for the sidecar.
            let label = if plan.replaces_proxy { PROXY_LABEL } else { additions.label };
            existing::corrected(plan::label_change(template, label).into_iter().collect())
        }
        Some(plan) => Outcome::Injected { patch: plan.patch, replaced: plan.replaces },
        None => Outcome::Skipped(Skipped::Unchanged),
    };
    Ok(Decision { outcome, warnings })
}

/// Returns the errors in the annotations and labels of a namespace, one line each.
///
/// The errors are misspelt names, values with which the injector would reject the namespace's Pods, labels that should be
/// annotations, and a level of Pod Security admission with which the API server refuses Pods with a proxy.
pub fn review_namespace(namespace: &Value) -> Vec<String> {
    let annotations = namespace.pointer("/metadata/annotations").and_then(Value::as_object);
    let mistakes = Settings::default().with_annotations(annotations, &Value::Null, None).err().unwrap_or_default();
    let mistakes = mistakes.iter().map(ToString::to_string);
    mistakes.chain(pod_security(namespace, annotations)).chain(typos(namespace)).collect()
}

/// Returns a warning if the namespace asks for proxies, and its level of Pod Security admission does not allow
/// `leno-init`. The sidecar for gRPC satisfies every level.
fn pod_security(namespace: &Value, annotations: Option<&Map<String, Value>>) -> Option<String> {
    let enforced = namespace.get("metadata")?.get("labels")?.get(POD_SECURITY)?.as_str()?;
    let asks = annotations?.get(INJECT)?.as_str()?.trim() == "enabled";
    (asks && ["baseline", "restricted"].contains(&enforced)).then(|| {
        format!(
            "label {POD_SECURITY}: {enforced} does not allow {INIT}, which needs NET_ADMIN, so no Pod with a proxy can start here; \
             set the label to privileged, or give the Pods no proxy with {INJECT}: grpc"
        )
    })
}

/// Returns a line for each annotation that has our prefix but does not exist, and for each label that should be an
/// annotation. `object` is a Pod, its template or a namespace.
pub fn typos(object: &Value) -> impl Iterator<Item = String> {
    let map = |path| object.pointer(path).and_then(Value::as_object);
    let annotations = ours(map("/metadata/annotations")).filter_map(|(name, _)| unknown(name));
    annotations.chain(ours(map("/metadata/labels")).filter_map(|(name, _)| label(name)))
}

/// Returns the changes that remove our proxy from a Pod template; no changes if the template has no proxy.
pub fn uninject(template: &Value) -> Vec<Operation> {
    plan::uninject(template)
}

#[cfg(test)]
mod tests;
