//! Builds the tables of routes: the rules for calls to a Service's port (GEP-1294), and the status of each route.
//!
//! A route in the Service's namespace is a producer route, for all clients. A route in another namespace is a consumer
//! route, for clients of that namespace. For each port, the routes of one namespace form a group. Each group has its
//! own table, with routes of one kind only.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::place;
use super::references::{Known, Referrer, no_service};
use super::traffic::Policies;
use crate::mesh::{AttachedRoutes, ClusterKey};
use crate::object::route::{Parent, Refusal, Spot};
use crate::object::{Identity, Route};
use crate::problem::{Notice, Place, Problem};
use crate::route::status::{Condition, ConditionKind, ParentStatus, Reason};
use crate::route::{Candidate, RouteKind, RouteName, RouteTable, Rule, TABLE_MAX_BYTES};

/// The result for all routes.
#[derive(Default)]
pub(super) struct Attached {
    pub(super) tables: Vec<AttachedRoutes>,
    pub(super) statuses: Vec<ParentStatus>,
    pub(super) problems: Vec<Problem>,
    pub(super) notices: Vec<Notice>,
}

/// A cluster, and the namespace of the routes that are attached to it.
type Group<'a> = (ClusterKey, &'a str);

/// A route at one of its Services.
struct Attachment<'a> {
    route: &'a Route,
    parent: &'a Parent,
    parent_namespace: &'a str,
    /// The clusters, or why there are no clusters.
    clusters: Result<Vec<ClusterKey>, Refusal>,
}

/// Attaches routes, which must be in order of file and line.
pub(super) fn attach(routes: &[&Route], policies: &Policies<'_>, known: &Known<'_>) -> Attached {
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
    let admitted = admitted(&attachments, policies, known);
    let mut candidates: BTreeMap<Group<'_>, Vec<Candidate>> = BTreeMap::new();
    for attachment in &attachments {
        attached.attach(attachment, (known, policies), &admitted, &mut candidates);
    }
    for (group, candidates) in candidates {
        let kind = admitted.get(&group).map_or(RouteKind::Http, |admitted| admitted.first.kind);
        let table = Arc::new(RouteTable::of_candidates(kind, candidates));
        let (cluster, namespace) = group;
        attached.tables.push(AttachedRoutes { cluster, namespace: namespace.into(), table });
    }
    attached
}

/// The routes of a group that fit into its table.
struct Admitted<'a> {
    /// The route with the highest precedence. Only routes of its kind are admitted.
    first: &'a Route,
    names: HashSet<(&'a str, &'a str)>,
    /// The routes that share matches with an older route. Equal matches are equally specific, so the older route gets
    /// the requests.
    shadowed: HashMap<(&'a str, &'a str), Shadow<'a>>,
}

/// Matches of a route that are also matches of older routes.
#[derive(Clone, Copy)]
struct Shadow<'a> {
    /// The older route that has the first of these matches.
    older: &'a Route,
    matches: usize,
}

/// Selects the routes of each group: the routes of the kind with the highest precedence, in order, until the table is
/// full. A group has at most one TCPRoute, because two would match the same connections.
fn admitted<'a>(
    attachments: &[Attachment<'a>],
    policies: &Policies<'_>,
    known: &Known<'_>,
) -> HashMap<Group<'a>, Admitted<'a>> {
    let mut groups: HashMap<Group<'a>, Vec<&'a Route>> = HashMap::new();
    for attachment in attachments {
        for cluster in attachment.clusters.iter().flatten() {
            groups.entry(attachment.group(cluster)).or_default().push(attachment.route);
        }
    }
    let admit = |(group, mut routes): (Group<'a>, Vec<&'a Route>)| {
        routes.sort_by_cached_key(|route| (route.kind, route.seniority()));
        routes.dedup_by(|later, route| std::ptr::eq(*later, *route));
        let first = *routes.first()?;
        let (mut matches, mut bytes) = (0, 0);
        let fits = |route: &&Route| {
            matches += route.match_count();
            bytes += route.size_bytes() + policies.size_bytes(route, &group.0, known);
            if first.kind == RouteKind::Tcp { matches <= 1 } else { bytes <= TABLE_MAX_BYTES }
        };
        let admitted: Vec<_> = routes.into_iter().filter(|route| route.kind == first.kind).take_while(fits).collect();
        let names = admitted.iter().map(|route| name_of(route)).collect();
        Some((group, Admitted { first, names, shadowed: shadowed(&admitted) }))
    };
    groups.into_iter().filter_map(admit).collect()
}

/// Finds the routes that share matches with older routes, among routes in order of seniority.
fn shadowed<'a>(routes: &[&'a Route]) -> HashMap<(&'a str, &'a str), Shadow<'a>> {
    let mut shadowed: HashMap<_, Shadow<'a>> = HashMap::new();
    if routes.len() < 2 {
        return shadowed;
    }
    // The text of a match includes all of its fields, so equal texts mean equal matches.
    let mut owners: HashMap<String, &'a Route> = HashMap::new();
    for route in routes {
        for found in route.rules.iter().flat_map(|rule| &rule.matches) {
            let older = *owners.entry(format!("{found:?}")).or_insert(route);
            if !std::ptr::eq(older, *route) {
                shadowed.entry(name_of(route)).or_insert(Shadow { older, matches: 0 }).matches += 1;
            }
        }
    }
    shadowed
}

impl<'a> Admitted<'a> {
    /// Returns the status message if older routes get some of the route's calls; `None` otherwise.
    fn shadow(&self, route: &Route, cluster: &ClusterKey) -> Option<String> {
        let Shadow { older, matches } = *self.shadowed.get(&name_of(route))?;
        let (namespace, name) = name_of(older);
        let older = format!("{} {namespace}/{name}", older.kind.name());
        let (all, fix) = (route.match_count(), "remove one of the two, or give this route other matches");
        Some(if matches == all {
            format!("it gets no calls of {cluster}: {older}, which is older, has the same matches; {fix}")
        } else {
            format!(
                "{matches} of its {all} matches get no calls of {cluster}: {older}, which is older, has the same; {fix}"
            )
        })
    }

    fn has(&self, route: &Route) -> bool {
        route.kind == self.first.kind && self.names.contains(&name_of(route))
    }
}

fn is_of(candidate: &Candidate, route: &Route) -> bool {
    let RouteName { kind, namespace, name } = &candidate.rule.route;
    (*kind, &**namespace, &**name) == (route.kind, &*route.identity.namespace, &*route.identity.name)
}

fn name_of(route: &Route) -> (&str, &str) {
    (&route.identity.namespace, &route.identity.name)
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

/// Returns the clusters of a parent: of all its ports, or of the port that the reference names. For routes that match
/// requests, opaque ports are left out.
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
        let what = format!("Service {namespace}/{name} is headless: its clients choose the endpoint themselves");
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
        let what =
            format!("the protocol there is opaque to the mesh, because of Service {namespace}/{name} or its port");
        return Err(fault(what, "correct leno.dev/opaque-ports or appProtocol, if it is HTTP"));
    }
    Ok(spoken)
}

impl Attached {
    /// Adds a notice about a parent that the mesh does not handle.
    fn pass_over(&mut self, route: &Route, parent: &Parent) {
        let kind = parent.reference.kind.as_deref().unwrap_or("Gateway");
        let what = format!("ignored: it is a {kind}, and the mesh routes calls to Services only");
        self.notices.push(Notice { place: place_of(route, &parent.spot), what });
    }

    fn attach<'a>(
        &mut self,
        attachment: &Attachment<'a>,
        (known, policies): (&Known<'_>, &Policies<'_>),
        admitted: &HashMap<Group<'a>, Admitted<'a>>,
        candidates: &mut BTreeMap<Group<'a>, Vec<Candidate>>,
    ) {
        let Attachment { route, parent, parent_namespace, .. } = *attachment;
        let mut unresolved = Vec::new();
        let from = Referrer { route, parent_namespace };
        let rules: Vec<_> = route.rules.iter().map(|rule| Arc::new(known.rule(rule, from, &mut unresolved))).collect();
        let mut refusals: Vec<Refusal> = route.rules.iter().flat_map(|rule| rule.refusals.iter().cloned()).collect();
        let mut accepted = String::new();
        match self.groups(attachment, admitted) {
            Ok((groups, message)) => {
                accepted = message;
                for group in groups {
                    let cluster = &group.0.clone();
                    let list = candidates.entry(group).or_default();
                    // Two parents of a route may lead to the same port: add the rules only once.
                    if list.last().is_some_and(|last| is_of(last, route)) {
                        continue;
                    }
                    for (index, (rule, read)) in rules.iter().zip(&route.rules).enumerate() {
                        let (mut rule, matches) = (Arc::clone(rule), read.matches.clone());
                        if read.refusals.is_empty() {
                            let calls = policies.of_rule(route, read, cluster, known);
                            if calls != rule.calls {
                                rule = Arc::new(Rule { calls, ..Rule::clone(&rule) });
                            }
                        }
                        list.push(Candidate { created: route.created, index, matches, rule });
                    }
                }
            }
            Err(fault) => refusals.insert(0, fault),
        }
        let conditions = vec![
            condition(ConditionKind::Accepted, Reason::Accepted, accepted, &refusals),
            condition(ConditionKind::ResolvedRefs, Reason::ResolvedRefs, "all backends exist".to_owned(), &unresolved),
        ];
        for fault in refusals.into_iter().chain(unresolved) {
            let problem = Problem { place: place_of(route, &fault.spot), what: fault.what, fix: fault.fix };
            // A route with several parents has the same rules at each parent: report each fault only once.
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        let Identity { namespace, name, .. } = &route.identity;
        let route = RouteName { kind: route.kind, namespace: namespace.clone(), name: name.clone() };
        self.statuses.push(ParentStatus { route, parent: parent.reference.clone(), conditions });
    }

    /// Returns the groups that include the route, and their status message; or why no group includes it.
    fn groups<'a>(
        &mut self,
        attachment: &Attachment<'a>,
        admitted: &HashMap<Group<'a>, Admitted<'a>>,
    ) -> Result<(Vec<Group<'a>>, String), Refusal> {
        let Attachment { route, parent, parent_namespace, .. } = *attachment;
        let clusters = attachment.clusters.clone()?;
        let groups = clusters.iter().map(|cluster| attachment.group(cluster));
        let (has, lacks): (Vec<_>, Vec<_>) =
            groups.partition(|group| admitted.get(group).is_some_and(|admitted| admitted.has(route)));
        let in_force = format!("in force for Service {parent_namespace}/{}", parent.reference.name);
        // Both TCPRoutes are accepted, regardless of which route gets the connections (GEP-2644).
        let is_twin = |first: &Route| (route.kind, first.kind) == (RouteKind::Tcp, RouteKind::Tcp);
        let mut goes_before = lacks.iter().filter_map(|group| Some((&group.0, admitted.get(group)?.first)));
        let Some((cluster, first)) = goes_before.clone().find(|(_, first)| is_twin(first)).or(goes_before.next())
        else {
            let shadow = has.iter().find_map(|group| admitted.get(group)?.shadow(route, &group.0));
            let Some(shadow) = shadow else { return Ok((has, in_force)) };
            // Both routes are accepted, as with two TCPRoutes (GEP-2644).
            self.notices.push(Notice { place: place_of(route, &parent.spot), what: shadow.clone() });
            return Ok((has, format!("{in_force}, but {shadow}")));
        };
        let (namespace, name) = name_of(first);
        let before = format!("{cluster} has {} {namespace}/{name}, which goes before", first.kind.name());
        let (what, fix) = if is_twin(first) {
            (before, "put the backendRefs of both into one")
        } else if route.kind == first.kind {
            let most = TABLE_MAX_BYTES >> 20;
            let what =
                format!("with it the routes of {cluster} would take more than {most} MiB, and older routes come first");
            (what, "remove matches, filters or long patterns, or distribute them over several ports")
        } else {
            (before, "use routes of one kind for a port")
        };
        let spot = parent.spot.clone();
        if has.is_empty() && !is_twin(first) {
            return Err(Refusal { spot, reason: Reason::Conflicted, what, fix: fix.to_owned() });
        }
        let message = if has.is_empty() { format!("{what}; {fix}") } else { in_force };
        self.notices.push(Notice { place: place_of(route, &spot), what });
        Ok((has, message))
    }
}

/// Returns a condition that is true unless there are faults.
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
