//! Builds the tables of routes: the rules for calls to a Service's port (GEP-1294), and the status of each route.
//!
//! A route in the Service's namespace is a producer route, for all clients. A route in another namespace is a consumer
//! route, for clients of that namespace. For each port, the routes of one namespace form a group. Each group has its
//! own table, with routes of one kind only.

mod admitted;
mod sharing;

use std::collections::{HashMap, HashSet};

use super::place;
use super::references::{Known, NO_PORTS_FIX, no_ports, no_service};
use super::traffic::Policies;
use crate::mesh::{AttachedRoutes, ClusterKey};
use crate::object::route::{GROUP, PARENTS_MAX, Parent, Refusal, RouteRule, Spot};
use crate::object::service::PORTS_MAX;
use crate::object::{Identity, Route, ServicePort};
use crate::problem::{Notice, Place, Problem, in_a_line, listed};
use crate::route::status::{Condition, ConditionKind, ParentStatus, Reason};
use crate::route::{RouteKind, RouteName, TABLE_MAX_BYTES};
use admitted::{Admitted, admitted};
use sharing::{Resolved, Tables};

/// Limit on the errors that are reported for one route. A route of the largest size may have thousands of references,
/// and each may be wrong.
const PROBLEMS_MAX: usize = 16;
/// Limit on the remarks, and on the ports without the route, that a status message lists.
const REMARKS_MAX: usize = 8;
/// Limit on the ports of Services that the routes of one namespace select, all routes together: a port that several
/// routes select counts once for each of them. One route of the largest size fits. Without a limit, 200 small routes
/// with 32 large Services took 1.6 GB and 20 s in each translation, and each change of any object in the cluster causes
/// a translation.
const SELECTED_PORTS_MAX: usize = PARENTS_MAX * PORTS_MAX;

/// The result of attaching all routes to their Services.
#[derive(Default)]
pub(super) struct Attached {
    pub(super) tables: Vec<AttachedRoutes>,
    pub(super) statuses: Vec<ParentStatus>,
    pub(super) problems: Vec<Problem>,
    pub(super) notices: Vec<Notice>,
}

/// A cluster, and the namespace of the routes that are attached to it.
type Group<'a> = (&'a ClusterKey, &'a str);

/// A route, and one Service to which it is attached.
struct Attachment<'a> {
    route: &'a Route,
    parent: &'a Parent,
    parent_namespace: &'a str,
    /// The clusters of the Service's ports to which the route is attached, or why there are none.
    clusters: Result<Vec<&'a ClusterKey>, Refusal>,
    /// The clusters of opaque ports that the parent selects. A route that matches requests is not attached to them.
    opaque: Vec<&'a ClusterKey>,
}

/// Attaches routes, which must be in order of file and line.
pub(super) fn attach<'a>(routes: &[&'a Route], policies: &Policies<'_>, known: &Known<'a>) -> Attached {
    let mut attached = Attached::default();
    let mut attachments = Vec::new();
    let mut rooms: HashMap<&str, usize> = HashMap::new();
    for route in routes {
        let room = rooms.entry(&*route.identity.namespace).or_insert(SELECTED_PORTS_MAX);
        for parent in &route.parents {
            if parent.is_service() {
                attachments.push(Attachment::new(route, parent, known, room));
            } else {
                attached.pass_over(route, parent);
            }
        }
    }
    let admitted = admitted(&attachments, policies, known);
    let mut tables = Tables::default();
    for of_route in attachments.chunk_by(|a, b| std::ptr::eq(a.route, b.route)) {
        attached.attach(of_route, (known, policies), &admitted, &mut tables);
    }
    attached.tables =
        tables.finish(|group| admitted.get(group).map_or(RouteKind::Http, |admitted| admitted.first.kind));
    attached
}

fn name_of(route: &Route) -> (&str, &str) {
    (&route.identity.namespace, &route.identity.name)
}

impl<'a> Attachment<'a> {
    /// Attaches a route to a Service. `room` is how many more ports the routes of the namespace may select.
    fn new(route: &'a Route, parent: &'a Parent, known: &Known<'a>, room: &mut usize) -> Self {
        let parent_namespace = parent.reference.namespace.as_deref().unwrap_or(&route.identity.namespace);
        let (clusters, opaque) = match clusters(route, parent, parent_namespace, known, room) {
            Ok((clusters, opaque)) => (Ok(clusters), opaque),
            Err(fault) => (Err(fault), Vec::new()),
        };
        Self { route, parent, parent_namespace, clusters, opaque }
    }

    fn group(&self, cluster: &'a ClusterKey) -> Group<'a> {
        (cluster, &self.route.identity.namespace)
    }
}

/// Returns the clusters of the Service `parent`: of all its ports, or of the port that the reference names. If the route
/// matches requests, the clusters of opaque ports are in a list of their own, which is the second one. Takes a place of
/// `room` for each port.
fn clusters<'a>(
    route: &Route,
    parent: &Parent,
    namespace: &str,
    known: &Known<'a>,
    room: &mut usize,
) -> Result<(Vec<&'a ClusterKey>, Vec<&'a ClusterKey>), Refusal> {
    let name = &parent.reference.name;
    let fault = |what: String, fix: &str| {
        let spot = parent.spot.clone();
        Refusal { spot, reason: Reason::NoMatchingParent, what, fix: fix.to_owned() }
    };
    let Some(service) = known.service(namespace, name) else {
        let what = no_service(namespace, name);
        return Err(fault(what, "add it, or correct the name or the namespace"));
    };
    if service.ports.is_empty() {
        return Err(fault(no_ports(namespace, name), NO_PORTS_FIX));
    }
    if service.headless {
        let what = format!("Service {namespace}/{name} is headless: routes apply to calls to a clusterIP");
        return Err(fault(what, "give it a clusterIP"));
    }
    let (number, section) = (parent.reference.port, parent.reference.section_name.as_deref());
    let chosen = service.ports.iter().filter(|port| {
        number.is_none_or(|number| port.port == number) && section.is_none_or(|section| *port.name == *section)
    });
    let Some(left) = room.checked_sub(chosen.clone().count()) else {
        let what = format!(
            "with it the routes of namespace {} would select more than {SELECTED_PORTS_MAX} ports, and earlier \
             routes come first",
            route.identity.namespace
        );
        let fix = "name the port of the Service, or remove routes";
        return Err(Refusal { reason: Reason::Conflicted, ..fault(what, fix) });
    };
    *room = left;
    let key = |port: &ServicePort| {
        known.cluster(&ClusterKey { namespace: namespace.into(), service: name.clone(), port: port.port })
    };
    let keys: Vec<&ClusterKey> = chosen.filter_map(key).collect();
    if keys.is_empty() {
        let ports = service.ports.iter().map(|port| format!("{} {:?}", port.port, port.name));
        let what = format!("Service {namespace}/{name} has no such port; it has {}", listed(ports));
        return Err(fault(what, "use one of them"));
    }
    if !route.kind.is_of_requests() {
        return Ok((keys, Vec::new()));
    }
    let (opaque, spoken): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| known.is_opaque(key));
    if spoken.is_empty() {
        let what =
            format!("the protocol there is opaque to the mesh, because of Service {namespace}/{name} or its port");
        return Err(fault(what, "correct leno.dev/opaque-ports or appProtocol, if it is HTTP"));
    }
    Ok((spoken, opaque))
}

/// Returns whether both routes are TCPRoutes. If two TCPRoutes compete for a port, both are accepted, although only one
/// of them gets the connections (GEP-2644).
fn are_twins(route: &Route, first: &Route) -> bool {
    (route.kind, first.kind) == (RouteKind::Tcp, RouteKind::Tcp)
}

/// Returns why the table of a port does not have a route, and the fix. `first` is the first route of the table.
fn loss(route: &Route, cluster: &ClusterKey, first: &Route) -> (String, &'static str) {
    let (namespace, name) = name_of(first);
    let before = format!("{cluster} has {} {namespace}/{name}, which goes before", first.kind.name());
    if are_twins(route, first) {
        (before, "put the backendRefs of both into one")
    } else if route.kind == first.kind {
        let most = TABLE_MAX_BYTES >> 20;
        let what =
            format!("with it the routes of {cluster} would take more than {most} MiB, and older routes come first");
        (what, "remove matches, filters or long patterns, or distribute them over several ports")
    } else {
        (before, "use routes of one kind for a port")
    }
}

impl Attached {
    /// Adds a notice about a parent that the mesh does not handle. If the parent probably means a Service, and the route
    /// has no Service as a parent, adds a problem instead: the route applies to no call, and has no status that tells why.
    fn pass_over(&mut self, route: &Route, parent: &Parent) {
        let place = place_of(route, &parent.spot);
        let kind = parent.reference.kind.as_deref().unwrap_or("Gateway");
        if !parent.lacks_group() {
            let group = parent.reference.group.as_deref().filter(|group| !group.is_empty() && *group != GROUP);
            let of_group = group.map(|group| format!(" of {group}")).unwrap_or_default();
            let what = format!(
                "ignored: it is a {kind}{of_group}, and the mesh routes calls only to Services, whose group is \"\" or core"
            );
            self.notices.push(Notice { place, what });
            return;
        }
        let what = format!("{GROUP}, the default group, has no kind Service");
        let fix = "to name a Service, write `group: \"\"`".to_owned();
        if route.parents.iter().any(Parent::is_service) {
            self.notices.push(Notice { place, what: format!("ignored: {what}; {fix}") });
        } else {
            self.problems.push(Problem { place, what, fix });
        }
    }

    /// Attaches a route to all its Services. `attachments` are the attachments of this route.
    fn attach<'a>(
        &mut self,
        attachments: &[Attachment<'a>],
        (known, policies): (&Known<'_>, &Policies<'_>),
        admitted: &HashMap<Group<'a>, Admitted<'a>>,
        tables: &mut Tables<'a>,
    ) {
        let Some(route) = attachments.first().map(|attachment| attachment.route) else { return };
        let refused = || route.rules.iter().flat_map(|rule| &rule.refusals);
        let mut findings = Findings::of(route);
        let mut by_namespace: HashMap<&str, Resolved> = HashMap::new();
        for attachment in attachments {
            let namespace = attachment.parent_namespace;
            let resolved = by_namespace.entry(namespace).or_insert_with(|| Resolved::new(route, namespace, known));
            let (mut accepted, mut refusal) = (String::new(), None);
            match self.groups(attachment, admitted) {
                Ok((groups, message)) => {
                    accepted = with_remarks(message, route);
                    for group in groups {
                        let calls = |rule: &RouteRule| {
                            rule.refusals.is_empty().then(|| policies.of_rule(route, rule, group.0, known))
                        };
                        let setters = || policies.setters(group.0, known);
                        tables.add(group, route, || resolved.rules_with(route, setters(), calls));
                    }
                }
                Err(fault) => refusal = Some(fault),
            }
            let faults = &mut resolved.faults;
            let refused_first = refusal.as_ref().or_else(|| refused().next());
            let resolves = "all backends exist".to_owned();
            let conditions = vec![
                condition(ConditionKind::Accepted, Reason::Accepted, accepted, refused_first),
                condition(ConditionKind::ResolvedRefs, Reason::ResolvedRefs, resolves, faults.first()),
            ];
            refusal.into_iter().chain(refused().cloned()).for_each(|fault| findings.add(fault));
            // Keep only the first fault, which the status at the next Service needs. All faults are reported already,
            // and a route may have thousands of faults and 32 Services.
            let first = faults.first().cloned();
            faults.drain(..).for_each(|fault| findings.add(fault));
            faults.extend(first);
            let Identity { namespace, name, .. } = &route.identity;
            let route = RouteName { kind: route.kind, namespace: namespace.clone(), name: name.clone() };
            let parent = attachment.parent.reference.clone();
            self.statuses.push(ParentStatus { route, parent, conditions });
        }
        self.problems.extend(findings.into_problems());
    }

    /// Returns the groups that include the route, and their status message; or why no group includes it.
    fn groups<'a>(
        &mut self,
        attachment: &Attachment<'a>,
        admitted: &HashMap<Group<'a>, Admitted<'a>>,
    ) -> Result<(Vec<Group<'a>>, String), Refusal> {
        let Attachment { route, parent, parent_namespace, .. } = *attachment;
        let clusters = attachment.clusters.as_ref().map_err(Refusal::clone)?;
        let groups = clusters.iter().map(|cluster| attachment.group(cluster));
        let (has, lacks): (Vec<_>, Vec<_>) =
            groups.partition(|group| admitted.get(group).is_some_and(|admitted| admitted.has(route)));
        let taken: Vec<(&ClusterKey, &Route)> =
            lacks.iter().filter_map(|group| Some((group.0, admitted.get(group)?.first))).collect();
        let opaque = attachment.opaque.iter().map(|cluster| format!("{cluster} is opaque to the mesh"));
        let losses = taken.iter().map(|(cluster, first)| loss(route, cluster, first).0);
        let without: Vec<String> = opaque.chain(losses).collect();
        let whys = in_a_line(&without, REMARKS_MAX);
        let in_force = format!("in force for Service {parent_namespace}/{}", parent.reference.name);
        let elsewhere = match without.len() {
            0 => String::new(),
            count => format!(". Not in force at {count} of its ports: {whys}"),
        };
        let Some((cluster, first)) = taken.iter().find(|(_, first)| are_twins(route, first)).or(taken.first()) else {
            let shadow = has.iter().find_map(|group| admitted.get(group)?.shadow(route, group.0));
            let Some(shadow) = shadow else { return Ok((has, in_force + &elsewhere)) };
            // The route stays accepted although older routes get some of its calls, as with two TCPRoutes (GEP-2644).
            self.notices.push(Notice { place: place_of(route, &parent.spot), what: shadow.clone() });
            return Ok((has, format!("{in_force}, but {shadow}{elsewhere}")));
        };
        let (what, fix) = loss(route, cluster, first);
        let spot = parent.spot.clone();
        if has.is_empty() && !are_twins(route, first) {
            return Err(Refusal { spot, reason: Reason::Conflicted, what, fix: fix.to_owned() });
        }
        let message = if has.is_empty() { format!("{whys}; {fix}") } else { in_force + &elsewhere };
        self.notices.push(Notice { place: place_of(route, &spot), what });
        Ok((has, message))
    }
}

/// The faults of one route. A route with several parents has the same rules, and so the same faults, at each parent;
/// each fault is reported once.
struct Findings<'a> {
    route: &'a Route,
    known: HashSet<Problem>,
    reported: Vec<Problem>,
}

impl<'a> Findings<'a> {
    fn of(route: &'a Route) -> Self {
        Self { route, known: HashSet::new(), reported: Vec::new() }
    }

    fn add(&mut self, fault: Refusal) {
        let problem = Problem { place: place_of(self.route, &fault.spot), what: fault.what, fix: fault.fix };
        if self.known.contains(&problem) {
            return;
        }
        if self.reported.len() < PROBLEMS_MAX {
            self.reported.push(problem.clone());
        }
        self.known.insert(problem);
    }

    /// Returns the first [`PROBLEMS_MAX`] problems. If there are more, a last problem states the number of further
    /// problems.
    fn into_problems(self) -> Vec<Problem> {
        let Self { route, known, mut reported } = self;
        if let Some(more @ 1..) = known.len().checked_sub(PROBLEMS_MAX) {
            let place = place(&route.identity, route.kind.name(), "", route.identity.mark);
            let what = format!("it has {more} more errors than the {PROBLEMS_MAX} reported ones");
            reported.push(Problem { place, what, fix: "correct the reported errors first".to_owned() });
        }
        reported
    }
}

/// Adds the route's remarks to the status message of a route in force.
fn with_remarks(message: String, route: &Route) -> String {
    match in_a_line(&route.remarks, REMARKS_MAX).as_str() {
        "" => message,
        remarks => format!("{message}. {remarks}"),
    }
}

/// Returns a condition that is true unless there is a fault.
fn condition(kind: ConditionKind, good: Reason, message: String, fault: Option<&Refusal>) -> Condition {
    match fault {
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
