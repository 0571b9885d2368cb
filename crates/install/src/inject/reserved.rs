//! Settings that an installation reserves for namespaces. A Pod that may set them itself could let callers bypass the
//! policies of its namespace.

use leno_model::policy::DefaultInboundPolicy;
use serde_json::{Map, Value};

use super::settings::Settings;
use super::{Namespace, Options};
use crate::annotations::{DEFAULT_INBOUND_POLICY, INJECT, Mistake, SKIP_INBOUND_PORTS, ours};

/// Finds annotations of the Pod that only its namespace may have. An annotation that repeats the namespace's value is
/// allowed.
pub(super) fn annotations_of_pod(
    annotations: Option<&Map<String, Value>>,
    namespace: &Namespace,
    options: &Options,
) -> Vec<Mistake> {
    let is_reserved = |name: &str| options.namespace_only.iter().any(|reserved| reserved == name);
    let repeats = |name: &str, value: &str| namespace.annotations.get(name).is_some_and(|its| its == value);
    let reserved = ours(annotations).filter(|(name, value)| is_reserved(name) && !repeats(name, value));
    reserved.map(|(name, _)| Mistake::Reserved { name: name.to_owned() }).collect()
}

/// Warns of annotations by which a Pod reduces the protection that it inherits.
pub(super) fn loosened(inherited: &Settings, settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    let (ports, policy) = (&settings.skip_inbound_ports, &settings.default_inbound_policy);
    if *ports != inherited.skip_inbound_ports && !ports.is_empty() {
        warnings.push(format!("annotation {SKIP_INBOUND_PORTS}: no policy protects the ports {ports} of this Pod"));
    }
    if strictness(policy) < strictness(&inherited.default_inbound_policy) {
        let inherited = &inherited.default_inbound_policy;
        warnings.push(format!("annotation {DEFAULT_INBOUND_POLICY}: {policy} allows more callers than {inherited}, which applies to other Pods here"));
    }
    warnings
}

/// Returns how strict a default inbound policy is: a greater number is stricter. Invalid text was rejected earlier.
fn strictness(policy: &str) -> u8 {
    match policy.parse() {
        Ok(DefaultInboundPolicy::Deny) => 3,
        Ok(DefaultInboundPolicy::ClusterAuthenticated) => 2,
        Ok(DefaultInboundPolicy::AllAuthenticated) => 1,
        _ => 0,
    }
}

/// Returns the reserved annotations that protect a Pod. A Pod that brings its own proxy containers could evade this
/// protection.
pub(super) fn protecting(options: &Options) -> Vec<&str> {
    let protecting = |name: &&str| [INJECT, SKIP_INBOUND_PORTS, DEFAULT_INBOUND_POLICY].contains(name);
    options.namespace_only.iter().map(String::as_str).filter(protecting).collect()
}

#[cfg(test)]
#[path = "reserved_tests.rs"]
mod tests;
