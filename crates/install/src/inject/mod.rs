//! A Pod template to the same with a proxy, as a patch; and back.
//!
//! `template` -> `skip`: not this one, and why -> `settings`: annotations -> `conflicts` -> `containers`,
//! `plan`: the changes. Nothing that is there is changed or dropped: the proxy is added.

mod conflicts;
mod containers;
mod plan;
mod probes;
mod reserved;
mod settings;
mod skip;
mod told;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use probes::{PodProbe, Unasked, of_pod as probes_of_pod, told as told_probes};
pub use settings::Settings;
pub use skip::{Skipped, Traits, Wish, is_never_meshed};
pub use told::{InboundPorts, inbound_ports};

use crate::annotations::{Mistake, ours, unknown};
use crate::patch::Operation;

/// What an installation says about all of its proxies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Options {
    /// The cluster's DNS domain.
    pub cluster_domain: String,
    /// What all of the mesh's identities begin with.
    pub trust_domain: String,
    /// Annotations that only a namespace may have. A Pod that has one is refused where the cluster asks ([`Asked::ByAnnotation`]).
    pub namespace_only: Vec<String>,
    /// What the settings of a proxy are where no annotation says otherwise.
    pub proxy: Settings,
}

impl Default for Options {
    fn default() -> Self {
        let usual = || "cluster.local".to_owned();
        Self { cluster_domain: usual(), trust_domain: usual(), namespace_only: Vec::new(), proxy: Settings::default() }
    }
}

/// Who asks for a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A person, for this workload: only an annotation against it counts, and a proxy that is there is replaced.
    ByName,
    /// The cluster, for every Pod: only those that an annotation wants one for get one, and one that is there stays.
    ByAnnotation,
}

/// The namespace of a Pod.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    /// Its name; empty when it is not known.
    pub name: String,
    /// Its annotations, as far as they are known.
    pub annotations: Map<String, Value>,
}

/// What comes of a Pod template.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It gets a proxy.
    Injected {
        /// The changes to the template.
        patch: Vec<Operation>,
        /// Whether it had one of ours that is replaced.
        replaced: bool,
    },
    /// It stays as it is.
    Skipped(Skipped),
}

/// What is decided about a Pod template, and what else to tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What comes of it.
    pub outcome: Outcome,
    /// What does no harm but was hardly meant, one line each.
    pub warnings: Vec<String>,
}

/// Decides about a Pod template (or a Pod).
///
/// # Errors
/// Every mistake that a person has to mend first.
pub fn inject(
    template: &Value,
    namespace: &Namespace,
    asked: Asked,
    options: &Options,
) -> Result<Decision, Vec<Mistake>> {
    let annotations = template.pointer("/metadata/annotations").and_then(Value::as_object);
    if asked == Asked::ByAnnotation && skip::concerns_the_mesh(annotations, namespace) {
        let reserved = reserved::annotations_of_pod(annotations, namespace, options);
        if !reserved.is_empty() {
            return Err(reserved);
        }
    }
    if let Some(skipped) = skip::reason(template, annotations, namespace, asked) {
        // In a cluster, a typo is often why no proxy is asked for.
        let warnings = skip::warning(&skipped, annotations).into_iter().chain(typos(annotations)).collect();
        return Ok(Decision { outcome: Outcome::Skipped(skipped), warnings });
    }
    let settings = options.proxy.with_annotations(Some(&namespace.annotations), annotations)?;
    let inherited = options.proxy.with_annotations(Some(&namespace.annotations), None)?;
    let conflicts = conflicts::find(template, &settings);
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    let skipped = settings.skip_inbound_ports.parse().unwrap_or_default();
    let probes = probes::of_pod(template, &skipped);
    let additions = plan::Additions {
        init: containers::init(&settings),
        proxy: containers::proxy(&settings, options, &probes),
        volume: containers::volume(),
    };
    let mut warnings: Vec<String> = typos(annotations).chain(reserved::loosened(&inherited, &settings)).collect();
    warnings.extend(probes::warnings(&probes, &settings));
    let outcome = match plan::inject(template, &additions) {
        Some((_, true)) if asked == Asked::ByAnnotation => {
            reserved::allows_proxy_by_hand(template, &settings, options)?;
            Outcome::Skipped(Skipped::HasProxy)
        }
        Some((patch, replaced)) => Outcome::Injected { patch, replaced },
        None => Outcome::Skipped(Skipped::Unchanged),
    };
    Ok(Decision { outcome, warnings })
}

/// What is wrong with the annotations of a namespace, one line each: typos, and values that would stop its Pods.
pub fn review_namespace(annotations: Option<&Map<String, Value>>) -> Vec<String> {
    let mistakes = Settings::default().with_annotations(annotations, None).err().unwrap_or_default();
    mistakes.iter().map(ToString::to_string).chain(typos(annotations)).collect()
}

/// A line for each annotation of ours that does not exist.
pub fn typos(annotations: Option<&Map<String, Value>>) -> impl Iterator<Item = String> {
    ours(annotations).filter_map(|(name, _)| unknown(name))
}

/// The changes that take our proxy out of a Pod template; none if there is none.
pub fn uninject(template: &Value) -> Vec<Operation> {
    plan::uninject(template)
}

#[cfg(test)]
mod tests;
