//! Routes to tables: which rules calls to a port of a Service meet (GEP-1294), and what became of each route.
//!
//! A route in the Service's namespace is a producer route, for all clients; one in another namespace is a consumer
//! route, for clients of that namespace. Each group has a table of its own, with routes of one kind only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::place;
use super::references::{Known, Referrer, no_service};
use crate::mesh::{AttachedRoutes, ClusterKey};
use crate::object::route::{Parent, Refusal, Spot};
use crate::object::{Identity, Route};
use crate::problem::{Notice, Place, Problem};
use crate::route::status::{Condition, ConditionKind, ParentStatus, Reason};
use crate::route::{Candidate, RouteKind, RouteName, RouteTable};

/// What the routes come to.
#[derive(Default)]
pub(super) struct Attached {
    pub(super) tables: Vec<AttachedRoutes>,
    pub(super) statuses: Vec<ParentStatus>,
    pub(super) problems: Vec<Problem>,
    pub(super) notices: Vec<Notice>,
}

/// A cluster, and the namespace of routes.
type Group<'a> = (ClusterKey, &'a str);

/// A route at one Service that it is for.
struct Attachment<'a> {
    route: &'a Route,
    parent: &'a Parent,
    parent_namespace: &'a str,
    /// The clusters, or why there is none.
    clusters: Result<Vec<ClusterKey>, Refusal>,
}

/// Attaches routes, which are in order of file and line.
pub(super) fn attach(routes: &[&Route], known: &Known<'_>) -> Attached {
    let mut attached = Attached::default();
    let mut attachments = Vec::new();
    for route in routes {
        for parent in &route.parents {
            if parent.is_service() {
                attachments.push(Attachment::new(route, parent, known));
            } else {
                attached.pass_over(route, parent);
            }
        }
    }
    let winners = winners(&attachments);
    let mut candidates: BTreeMap<Group<'_>, Vec<Candidate>> = BTreeMap::new();
    for attachment in &attachments {
        attached.attach(attachment, known, &winners, &mut candidates);
    }
    for ((cluster, namespace), candidates) in candidates {
        let kind = winners.get(&(cluster.clone(), namespace)).map_or(RouteKind::Http, |winner| winner.kind);
        let table = Arc::new(RouteTable::of_candidates(kind, candidates));
        attached.tables.push(AttachedRoutes { cluster, namespace: namespace.into(), table });
    }
    attached
}

/// The route whose kind each group has.
fn winners<'a>(attachments: &[Attachment<'a>]) -> HashMap<Group<'a>, &'a Route> {
    let mut winners: HashMap<Group<'_>, &Route> = HashMap::new();
    for attachment in attachments {
        for cluster in attachment.clusters.iter().flatten() {
            let winner = winners.entry(attachment.group(cluster)).or_insert(attachment.route);
            if rank(attachment.route) < rank(winner) {
                *winner = attachment.route;
            }
        }
    }
    winners
}

/// Which route goes before another: by kind, and then as among rules, the older one and the first by name.
fn rank(route: &Route) -> (RouteKind, (bool, Option<i64>), &str, &str) {
    (route.kind, (route.created.is_none(), route.created), &route.identity.namespace, &route.identity.name)
}

/// Whether a route that is attached where another is the winner has no say there. TCPRoutes have nothing that tells their
/// connections apart, so that only one of them can be in force.
fn is_beaten(route: &Route, winner: &Route) -> bool {
    route.kind != winner.kind || (route.kind == RouteKind::Tcp && !std::ptr::eq(route, winner))
}

impl<'a> Attachment<'a> {
    fn new(route: &'a Route, parent: &'a Parent, known: &Known<'_>) -> Self {
        let parent_namespace = parent.reference.namespace.as_deref().unwrap_or(&route.identity.namespace);
        Self { route, parent, parent_namespace, clusters: clusters(route.kind, parent, parent_namespace, known) }
    }

    fn group(&self, cluster: &ClusterKey) -> Group<'a> {
        (cluster.clone(), &self.route.identity.namespace)
    }
}

/// The clusters that a parent stands for: those of all its ports, or of the one that it names.
fn clusters(kind: RouteKind, parent: &Parent, namespace: &str, known: &Known<'_>) -> Result<Vec<ClusterKey>, Refusal> {
    let name = &parent.reference.name;
    let fault = |what: String, fix: &str| {
        let spot = parent.spot.clone();
        Refusal { spot, reason: Reason::NoMatchingParent, what, fix: fix.to_owned() }
    };
    let Some(service) = known.service(namespace, name) else {
        let what = no_service(namespace, name);
        return Err(fault(what, "add it, or correct the name or the namespace"));
    };
    if service.headless {
        let what = format!("Service {namespace}/{name} is headless: calls to it are for one of its endpoints");
        return Err(fault(what, "give it a clusterIP"));
    }
    let (number, section) = (parent.reference.port, parent.reference.section_name.as_deref());
    let chosen = service.ports.iter().filter(|port| {
        number.is_none_or(|number| port.port == number) && section.is_none_or(|section| *port.name == *section)
    });
    let keys: Vec<ClusterKey> =
        chosen.map(|port| ClusterKey { namespace: namespace.into(), service: name.clone(), port: port.port }).collect();
    if keys.is_empty() {
        let ports: Vec<String> = service.ports.iter().map(|port| format!("{} {:?}", port.port, port.name)).collect();
        let what = format!("Service {namespace}/{name} has no such port; it has {}", ports.join(", "));
        return Err(fault(what, "use one of them"));
    }
    if !kind.is_of_requests() {
        return Ok(keys);
    }
    let spoken: Vec<ClusterKey> = keys.into_iter().filter(|key| !known.is_opaque(key)).collect();
    if spoken.is_empty() {
        let what = format!("what is spoken there is opaque to the mesh, by Service {namespace}/{name} or its port");
        return Err(fault(what, "correct leno.dev/opaque-ports or appProtocol, if it is HTTP"));
    }
    Ok(spoken)
}

impl Attached {
    /// Tells of a parent that is none of the mesh's.
    fn pass_over(&mut self, route: &Route, parent: &Parent) {
        let kind = parent.reference.kind.as_deref().unwrap_or("Gateway");
        let what = format!("ignored: it is a {kind}, and calls in the mesh are to Services");
        self.notices.push(Notice { place: place_of(route, &parent.spot), what });
    }

    fn attach<'a>(
        &mut self,
        attachment: &Attachment<'a>,
        known: &Known<'_>,
        winners: &HashMap<Group<'a>, &'a Route>,
        candidates: &mut BTreeMap<Group<'a>, Vec<Candidate>>,
    ) {
        let Attachment { route, parent, parent_namespace, .. } = *attachment;
        let mut unresolved = Vec::new();
        let from = Referrer { route, parent_namespace };
        let rules: Vec<_> = route.rules.iter().map(|rule| Arc::new(known.rule(rule, from, &mut unresolved))).collect();
        let mut refusals: Vec<Refusal> = route.rules.iter().flat_map(|rule| rule.refusals.iter().cloned()).collect();
        match self.won(attachment, winners) {
            Ok(groups) => {
                for group in groups {
                    let list = candidates.entry(group).or_default();
                    for (index, (rule, read)) in rules.iter().zip(&route.rules).enumerate() {
                        let (rule, matches) = (Arc::clone(rule), read.matches.clone());
                        list.push(Candidate { created: route.created, index, matches, rule });
                    }
                }
            }
            Err(fault) => refusals.insert(0, fault),
        }
        let accepted = format!("in force for Service {parent_namespace}/{}", parent.reference.name);
        let conditions = vec![
            condition(ConditionKind::Accepted, Reason::Accepted, accepted, &refusals),
            condition(
                ConditionKind::ResolvedRefs,
                Reason::ResolvedRefs,
                "all backends are known".to_owned(),
                &unresolved,
            ),
        ];
        for fault in refusals.into_iter().chain(unresolved) {
            let problem = Problem { place: place_of(route, &fault.spot), what: fault.what, fix: fault.fix };
            // A route with several parents has the same rules at each.
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        let Identity { namespace, name, .. } = &route.identity;
        let route = RouteName { kind: route.kind, namespace: namespace.clone(), name: name.clone() };
        self.statuses.push(ParentStatus { route, parent: parent.reference.clone(), conditions });
    }

    /// The groups that the route is in, or why it is in none.
    fn won<'a>(
        &mut self,
        attachment: &Attachment<'a>,
        winners: &HashMap<Group<'a>, &'a Route>,
    ) -> Result<Vec<Group<'a>>, Refusal> {
        let clusters = attachment.clusters.clone()?;
        let (mut won, mut lost) = (Vec::new(), Vec::new());
        for group in clusters.iter().map(|cluster| attachment.group(cluster)) {
            match winners.get(&group) {
                Some(winner) if is_beaten(attachment.route, winner) => lost.push((group, *winner)),
                _ => won.push(group),
            }
        }
        let Some(((cluster, _), winner)) = lost.first() else {
            return Ok(won);
        };
        let Identity { namespace, name, .. } = &winner.identity;
        let what = format!("{cluster} has {} {namespace}/{name}, which goes before", winner.kind.name());
        let spot = attachment.parent.spot.clone();
        if won.is_empty() {
            let fix = match winner.kind == attachment.route.kind {
                true => "put the backendRefs of both into one",
                false => "use routes of one kind for a port",
            };
            return Err(Refusal { spot, reason: Reason::Conflicted, what, fix: fix.to_owned() });
        }
        self.notices.push(Notice { place: place_of(attachment.route, &spot), what });
        Ok(won)
    }
}

/// A condition that is true unless something is in its way.
fn condition(kind: ConditionKind, good: Reason, message: String, faults: &[Refusal]) -> Condition {
    match faults.first() {
        None => Condition { kind, status: true, reason: good, message },
        Some(Refusal { spot, reason, what, fix }) => {
            let message = format!("{}: {what}; {fix}", spot.field);
            Condition { kind, status: false, reason: *reason, message }
        }
    }
}

fn place_of(route: &Route, spot: &Spot) -> Place {
    place(&route.identity, route.kind.name(), &spot.field, spot.mark)
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
