//! Selects the routes that fit into the table of a group.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::{Attachment, Group, name_of};
use crate::mesh::ClusterKey;
use crate::object::Route;
use crate::route::{RouteKind, TABLE_MAX_BYTES};
use crate::translate::references::Known;
use crate::translate::traffic::Policies;

/// The routes of a group that fit into its table.
pub(super) struct Admitted<'a> {
    /// The route with the highest precedence. Only routes of its kind are admitted.
    pub(super) first: &'a Route,
    routes: Rc<Routes<'a>>,
}

/// The admitted routes. Most ports of a Service have the same ones, and share them.
struct Routes<'a> {
    names: HashSet<(&'a str, &'a str)>,
    /// The routes that share matches with an older route. Equal matches are equally specific, so the older route gets
    /// the requests.
    shadowed: Shadows<'a>,
}

/// For each route with shared matches: its namespace and name, and its [`Shadow`].
type Shadows<'a> = HashMap<(&'a str, &'a str), Shadow<'a>>;

/// The matches of a route that older routes have too: an older route gets the requests of these matches.
#[derive(Clone, Copy)]
struct Shadow<'a> {
    /// The older route that has the first shared match.
    older: &'a Route,
    matches: usize,
}

/// Selects, for each group, the routes that its table gets: the routes of the kind that comes first in [`RouteKind`],
/// in order of seniority, until the table is full. A group has at most one TCPRoute, because two would match the same
/// connections.
pub(super) fn admitted<'a>(
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
    // The matches of equal lists of routes are compared only once.
    let mut lists: HashMap<Vec<*const Route>, Rc<Routes<'a>>> = HashMap::new();
    let admit = |(group, mut routes): (Group<'a>, Vec<&'a Route>)| {
        routes.sort_by_cached_key(|route| (route.kind, route.seniority()));
        routes.dedup_by(|later, route| std::ptr::eq(*later, *route));
        let first = *routes.first()?;
        let (mut matches, mut bytes) = (0, 0);
        let fits = |route: &&Route| {
            matches += route.match_count();
            bytes += route.size_bytes() + policies.size_bytes(route, group.0, known);
            if first.kind == RouteKind::Tcp { matches <= 1 } else { bytes <= TABLE_MAX_BYTES }
        };
        let admitted: Vec<_> = routes.into_iter().filter(|route| route.kind == first.kind).take_while(fits).collect();
        let same: Vec<*const Route> = admitted.iter().map(|route| std::ptr::from_ref(*route)).collect();
        let routes = lists.entry(same).or_insert_with(|| {
            let names = admitted.iter().map(|route| name_of(route)).collect();
            Rc::new(Routes { names, shadowed: shadowed(&admitted) })
        });
        Some((group, Admitted { first, routes: Rc::clone(routes) }))
    };
    groups.into_iter().filter_map(admit).collect()
}

/// Finds the routes that share matches with older routes. `routes` must be in order of seniority.
fn shadowed<'a>(routes: &[&'a Route]) -> Shadows<'a> {
    let mut shadowed = Shadows::new();
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
    pub(super) fn shadow(&self, route: &Route, cluster: &ClusterKey) -> Option<String> {
        let Shadow { older, matches } = *self.routes.shadowed.get(&name_of(route))?;
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

    pub(super) fn has(&self, route: &Route) -> bool {
        route.kind == self.first.kind && self.routes.names.contains(&name_of(route))
    }
}
