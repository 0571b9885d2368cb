//! Settings that an installation reserves for namespaces: with them, a Pod could let callers bypass the policies of its
//! namespace.

use leno_model::policy::DefaultInboundPolicy;
use serde_json::{Map, Value};

use super::containers::{DEFAULT_INBOUND_POLICY as POLICY_OPTION, SKIP_INBOUND_PORTS as SKIP_OPTION};
use super::settings::Settings;
use super::skip::containers;
use super::{Namespace, Options};
use crate::annotations::{DEFAULT_INBOUND_POLICY, Mistake, SKIP_INBOUND_PORTS, ours};
use crate::names::{INIT, PROXY};

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

/// Checks a Pod whose author has added the proxy's containers by hand: reads the reserved settings from the arguments
/// of these containers.
///
/// # Errors
/// Each reserved setting that differs from the namespace's value.
pub(super) fn allows_proxy_by_hand(
    template: &Value,
    settings: &Settings,
    options: &Options,
) -> Result<(), Vec<Mistake>> {
    let checked = [
        (SKIP_INBOUND_PORTS, INIT, SKIP_OPTION, &settings.skip_inbound_ports),
        (DEFAULT_INBOUND_POLICY, PROXY, POLICY_OPTION, &settings.default_inbound_policy),
    ];
    let differs = |(name, container, option, wanted): &(&str, &str, &str, &String)| {
        options.namespace_only.iter().any(|reserved| reserved == name)
            && argument(template, container, option) != Some(wanted.as_str()).filter(|wanted| !wanted.is_empty())
    };
    let mistakes: Vec<Mistake> = checked
        .iter()
        .filter(|check| differs(check))
        .map(|(name, container, option, wanted)| Mistake::Conflict {
            what: format!(
                "container {container} has another {option} than {wanted:?}, and only a namespace may set that"
            ),
            fix: format!(
                "remove the container, so that the injector adds its own, or annotate the namespace with {name}"
            ),
        })
        .collect();
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// The value of a container's option. `None` if the option is given twice, since it is unclear which value applies.
fn argument<'a>(template: &'a Value, container: &str, option: &str) -> Option<&'a str> {
    let found = containers(template).filter(|found| found.get("name").is_some_and(|name| name == container));
    let arguments = found.filter_map(|found| found.get("args")?.as_array()).flatten().filter_map(Value::as_str);
    let mut values = arguments.filter_map(|argument| argument.strip_prefix(option)?.strip_prefix('='));
    values.next().filter(|_| values.next().is_none())
}

#[cfg(test)]
#[path = "reserved_tests.rs"]
mod tests;
