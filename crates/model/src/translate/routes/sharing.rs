//! Shares equal rules and tables among the ports of Services.
//!
//! A Service may have a thousand ports, and a route may have a MiB of matches. A copy of the route for each port would
//! take a gigabyte, and even a list of its rules for each port would take dozens of MiB for each Service.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use super::Group;
use crate::mesh::AttachedRoutes;
use crate::object::Route;
use crate::object::route::{Refusal, RouteRule};
use crate::route::{Candidate, RouteKind, RouteTable, Rule};
use crate::traffic::CallPolicy;
use crate::translate::references::{Known, Referrer};
use crate::translate::traffic::Setters;

/// The rules of a route at the Services of one namespace. Whether a route may refer to a backend depends only on this
/// namespace, not on the Service.
pub(super) struct Resolved {
    /// The rules with only their own policies.
    own: Vec<Arc<Rule>>,
    /// The rules at the ports with the same policies. Each list has one version of each rule.
    lists: HashMap<Setters, Rules>,
    /// The references that cannot be resolved. After they have been reported, only the first one is kept.
    pub(super) faults: Vec<Refusal>,
}

/// The rules of a route at one port or at several ports, in the route's order.
type Rules = Rc<[Arc<Rule>]>;

/// The routes of each group, from which [`Tables::finish`] makes the tables.
#[derive(Default)]
pub(super) struct Tables<'a>(BTreeMap<Group<'a>, Vec<(&'a Route, Rules)>>);

impl Resolved {
    pub(super) fn new(route: &Route, parent_namespace: &str, known: &Known<'_>) -> Self {
        let mut faults = Vec::new();
        let from = Referrer { route, parent_namespace };
        let own = route.rules.iter().map(|rule| Arc::new(known.rule(rule, from, &mut faults))).collect();
        Self { own, lists: HashMap::new(), faults }
    }

    /// Returns the rules at a port that has the policies `setters`. `calls` returns the policy of a rule for calls to this
    /// port; `None` for the rule's own policy. Ports with the same `setters` get the same list, so the result of `calls`
    /// must depend on nothing else of the port.
    pub(super) fn rules_with(
        &mut self,
        route: &Route,
        setters: Setters,
        calls: impl Fn(&RouteRule) -> Option<CallPolicy>,
    ) -> Rules {
        let version = |(own, read): (&Arc<Rule>, &RouteRule)| match calls(read).filter(|calls| *calls != own.calls) {
            Some(calls) => Arc::new(Rule { calls, ..Rule::clone(own) }),
            None => Arc::clone(own),
        };
        if let Some(known) = self.lists.get(&setters) {
            return Rc::clone(known);
        }
        let rules: Rules = self.own.iter().zip(&route.rules).map(version).collect();
        // Policies that the rules override make no new list.
        let is_own = rules.iter().zip(&self.own).all(|(rule, own)| Arc::ptr_eq(rule, own));
        let rules = if is_own { Rc::clone(self.lists.entry(Setters::default()).or_insert(rules)) } else { rules };
        self.lists.insert(setters, Rc::clone(&rules));
        rules
    }
}

impl<'a> Tables<'a> {
    /// Adds a route with its rules to a group, unless the group has the route already, because two parents of the route
    /// lead to the same port.
    pub(super) fn add(&mut self, group: Group<'a>, route: &'a Route, rules: impl FnOnce() -> Rules) {
        let routes = self.0.entry(group).or_default();
        if routes.last().is_none_or(|(last, _)| !std::ptr::eq(*last, route)) {
            routes.push((route, rules()));
        }
    }

    /// Makes the tables. Groups with the same rules share a table.
    pub(super) fn finish(self, kind_of: impl Fn(&Group<'a>) -> RouteKind) -> Vec<AttachedRoutes> {
        // The map identifies a list of rules by its address in memory. This is safe, because no list is created while the
        // map exists, so no address is reused.
        let mut made: HashMap<(RouteKind, Vec<*const Arc<Rule>>), Arc<RouteTable>> = HashMap::new();
        let attach = |(group, routes): (Group<'a>, Vec<(&'a Route, Rules)>)| {
            let kind = kind_of(&group);
            let lists = routes.iter().map(|(_, rules)| rules.as_ptr()).collect();
            // The key includes the kind: a table without rules treats unmatched calls according to its kind.
            let made = made.entry((kind, lists));
            let table = made.or_insert_with(|| Arc::new(RouteTable::of_candidates(kind, candidates(&routes))));
            AttachedRoutes { cluster: group.0.clone(), namespace: group.1.into(), table: Arc::clone(table) }
        };
        self.0.into_iter().map(attach).collect()
    }
}

fn candidates(routes: &[(&Route, Rules)]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (route, rules) in routes {
        for (index, (rule, read)) in rules.iter().zip(&route.rules).enumerate() {
            let (matches, rule) = (read.matches.clone(), Arc::clone(rule));
            candidates.push(Candidate { created: route.created, index, matches, rule });
        }
    }
    candidates
}
