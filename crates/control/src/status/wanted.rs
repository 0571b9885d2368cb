//! Derives the statuses to write from the current results.

use std::collections::BTreeMap;

use leno_model::route::status::ParentStatus;
use leno_model::traffic::PolicyKind;
use leno_model::traffic::status::TargetStatus;

use super::Place;
use crate::index::{Kind, Name, Observed, Revision};

/// The results for the objects whose status we write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    /// The status of each route at each Service that is its parent.
    pub(crate) routes: Vec<ParentStatus>,
    /// The status of each TrafficPolicy and XBackendTrafficPolicy at each of its targets.
    pub(crate) traffic: Vec<TargetStatus>,
    /// The validation result for the current version of each object.
    pub(crate) observed: BTreeMap<Place, Observed>,
}

/// The status that one object should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The revision of the object that this status describes.
    pub(super) revision: Revision,
    pub(super) content: StatusContent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StatusContent {
    /// A valid route: its status at each of its parents that is a Service.
    Route(Vec<ParentStatus>),
    /// An invalid route, and the reason.
    BrokenRoute(String),
    /// An AuthorizationPolicy: the reason if the policy is invalid, and the names in the policy that do not exist.
    Policy { problem: Option<String>, missing: Option<String> },
    /// A valid TrafficPolicy or XBackendTrafficPolicy: its status at each of its targets.
    Traffic(Vec<TargetStatus>),
    /// An invalid TrafficPolicy or XBackendTrafficPolicy, and the reason.
    BrokenTraffic(PolicyKind, String),
}

/// The status that every object should have.
pub(super) fn wanted(judged: &Judged) -> BTreeMap<Place, Wanted> {
    let mut routes: BTreeMap<Place, Vec<ParentStatus>> = BTreeMap::new();
    for status in &judged.routes {
        let Some(kind) = Kind::of_route(status.route.kind) else { continue };
        let name = Name::new(&status.route.namespace, &status.route.name);
        routes.entry((kind, name)).or_default().push(status.clone());
    }
    let mut traffic: BTreeMap<Place, Vec<TargetStatus>> = BTreeMap::new();
    for status in &judged.traffic {
        let name = Name::new(&status.namespace, &status.policy);
        traffic.entry((Kind::of_policy(status.kind), name)).or_default().push(status.clone());
    }
    let mut of_policy = |place: &Place, kind: PolicyKind, problem: Option<String>| match problem {
        Some(problem) => StatusContent::BrokenTraffic(kind, problem),
        None => StatusContent::Traffic(traffic.remove(place).unwrap_or_default()),
    };
    let statuses = judged.observed.iter().filter_map(|(place, observed)| {
        let problem = observed.problem.clone();
        let content = match place.0 {
            Kind::AuthorizationPolicy => StatusContent::Policy { problem, missing: observed.missing.clone() },
            Kind::TrafficPolicy => of_policy(place, PolicyKind::Traffic, problem),
            Kind::BackendTrafficPolicy => of_policy(place, PolicyKind::BackendTraffic, problem),
            Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute => match problem {
                Some(problem) => StatusContent::BrokenRoute(problem),
                None => StatusContent::Route(routes.remove(place).unwrap_or_default()),
            },
            Kind::Service
            | Kind::EndpointSlice
            | Kind::Pod
            | Kind::Namespace
            | Kind::ServiceAccount
            | Kind::ReferenceGrant => return None,
        };
        Some((place.clone(), Wanted { revision: observed.revision.clone(), content }))
    });
    statuses.collect()
}

#[cfg(test)]
#[path = "wanted_tests.rs"]
mod tests;
