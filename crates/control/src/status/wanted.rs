//! What the statuses are to say, by what is known.

use std::collections::BTreeMap;

use leno_model::route::status::ParentStatus;

use super::Place;
use crate::index::{Kind, Name, Observed};

/// What became of the objects that have a status of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    /// Of each route at each Service that it is for.
    pub(crate) routes: Vec<ParentStatus>,
    /// Of each object as it is now.
    pub(crate) observed: BTreeMap<Place, Observed>,
}

/// What one object's status is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The generation of the object that this is about.
    pub(super) generation: i64,
    pub(super) verdict: Verdict,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A route, at each of its parents that is ours.
    Route(Vec<ParentStatus>),
    /// A route that cannot be read; why.
    BrokenRoute(String),
    /// A policy, why it cannot be read if it cannot, and what it names that does not exist.
    Policy { problem: Option<String>, missing: Option<String> },
}

/// What the status of every object is to say.
pub(super) fn wanted(judged: &Judged) -> BTreeMap<Place, Wanted> {
    let mut routes: BTreeMap<Place, Vec<ParentStatus>> = BTreeMap::new();
    for status in &judged.routes {
        let name = Name::new(&status.route.namespace, &status.route.name);
        routes.entry((Kind::of_route(status.route.kind), name)).or_default().push(status.clone());
    }
    let verdicts = judged.observed.iter().filter_map(|(place, observed)| {
        let problem = observed.problem.clone();
        let verdict = match place.0 {
            Kind::AuthorizationPolicy => Verdict::Policy { problem, missing: observed.missing.clone() },
            Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute => match problem {
                Some(problem) => Verdict::BrokenRoute(problem),
                None => Verdict::Route(routes.remove(place).unwrap_or_default()),
            },
            Kind::Service
            | Kind::EndpointSlice
            | Kind::Pod
            | Kind::Namespace
            | Kind::ServiceAccount
            | Kind::ReferenceGrant => return None,
        };
        Some((place.clone(), Wanted { generation: observed.generation, verdict }))
    });
    verdicts.collect()
}

#[cfg(test)]
#[path = "wanted_tests.rs"]
mod tests;
