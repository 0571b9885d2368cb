//! The state of a cluster as the admin endpoint shows it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use leno_model::mesh::Mesh;
use leno_model::problem::{Notice, Problem};
use leno_model::route::status::ParentStatus;
use leno_model::traffic::status::TargetStatus;
use serde::Serialize;

use crate::index::{Index, Kind};

/// The state of a cluster: its mesh, the errors in its objects, and the state of each kind of objects.
#[derive(Debug, Default, Serialize)]
pub(crate) struct State {
    /// The published mesh; `None` before every kind has been listed.
    pub(crate) mesh: Option<Arc<Mesh>>,
    /// Every error in the current objects.
    pub(crate) problems: Vec<Problem>,
    pub(crate) notices: Vec<Notice>,
    /// The status of each route at each Service that is its parent.
    pub(crate) routes: Vec<ParentStatus>,
    /// The status of each TrafficPolicy and XBackendTrafficPolicy at each of its targets.
    pub(crate) traffic: Vec<TargetStatus>,
    /// For each namespace, the number of Pods that run without a proxy or the gRPC sidecar, although they or the
    /// namespace ask for it.
    pub(crate) unmeshed_pods: BTreeMap<Box<str>, usize>,
    pub(crate) kinds: BTreeMap<Kind, KindState>,
    /// Number of translations of all objects to a mesh so far.
    pub(crate) translations: u64,
    /// Duration of the last translation, in microseconds.
    pub(crate) translation_us: u64,
}

/// The state of one kind of objects in the control plane.
#[derive(Debug, Serialize)]
pub(crate) struct KindState {
    listed: bool,
    installed: bool,
    objects: usize,
}

pub(super) fn kinds(index: &Index) -> BTreeMap<Kind, KindState> {
    let state = |kind| KindState {
        listed: !index.unlisted().contains(&kind),
        installed: !index.absent().contains(&kind),
        objects: index.count(kind),
    };
    Kind::ALL.into_iter().map(|kind| (kind, state(kind))).collect()
}

impl State {
    /// Returns the names of the kinds that are not listed yet.
    pub(crate) fn unlisted(&self) -> Vec<&'static str> {
        self.kinds.iter().filter(|(_, state)| !state.listed).map(|(kind, _)| kind.name()).collect()
    }

    pub(crate) fn write_metrics(&self, text: &mut String) {
        let mut gauge = |name: &str, help: &str, lines: Vec<(String, u64)>| {
            let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} gauge");
            for (labels, value) in lines {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let of_kinds = |number: fn(&KindState) -> u64| {
            self.kinds.iter().map(|(kind, state)| (format!("{{kind=\"{kind}\"}}"), number(state))).collect()
        };
        gauge("leno_control_objects", "Objects in the control plane's memory", of_kinds(|state| state.objects as u64));
        gauge(
            "leno_control_listed",
            "Whether all objects of a kind have been listed once",
            of_kinds(|state| state.listed.into()),
        );
        let unmeshed = self.unmeshed_pods.iter();
        let unmeshed = unmeshed.map(|(namespace, count)| (format!("{{namespace=\"{namespace}\"}}"), *count as u64));
        gauge(
            "leno_control_unmeshed_pods",
            "Pods that run without a proxy although they or their namespace ask for one",
            unmeshed.collect(),
        );
        let plain = |value: u64| vec![(String::new(), value)];
        gauge("leno_control_problems", "Errors in the current objects", plain(self.problems.len() as u64));
        gauge(
            "leno_control_translation_microseconds",
            "How long the last mesh took to make",
            plain(self.translation_us),
        );
        let _ = writeln!(
            text,
            "# HELP leno_control_translations_total Meshes that were made.\n# TYPE leno_control_translations_total counter\n\
             leno_control_translations_total {}",
            self.translations
        );
    }
}
