//! Shares equal rules and tables among the ports of Services.
//!
//! A Service may have hundreds of ports, and a route may have a MiB of matches. A copy of the route for each port would
//! take hundreds of MiB.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Group, is_of};
use crate::mesh::AttachedRoutes;
use crate::object::Route;
use crate::object::route::Refusal;
use crate::route::{Candidate, RouteKind, RouteTable, Rule};
use crate::traffic::CallPolicy;
use crate::translate::references::{Known, Referrer};

/// The rules of a route at the Services of one namespace. Whether a route may refer to a backend depends only on this
/// namespace, not on the Service.
pub(super) struct Resolved {
    pub(super) rules: Vec<Variants>,
    /// The references that cannot be resolved. After they have been reported, only the first one is kept.
    pub(super) faults: Vec<Refusal>,
}

/// The versions of one rule. Ports may add policies for calls to the rule's own policy, and each different result is a
/// version. `own` is the version with the rule's own policy only.
pub(super) struct Variants {
    own: Arc<Rule>,
    others: Vec<Arc<Rule>>,
}

/// The rules of each group, from which [`Tables::finish`] makes the tables.
#[derive(Default)]
pub(super) struct Tables<'a>(BTreeMap<Group<'a>, Vec<Candidate>>);

impl Resolved {
    pub(super) fn new(route: &Route, parent_namespace: &str, known: &Known<'_>) -> Self {
        let mut faults = Vec::new();
        let from = Referrer { route, parent_namespace };
        let rules = route.rules.iter().map(|rule| Arc::new(known.rule(rule, from, &mut faults)));
        let rules = rules.map(|own| Variants { own, others: Vec::new() }).collect();
        Self { rules, faults }
    }
}

impl Variants {
    /// Returns the version of the rule with its own policy only.
    pub(super) fn own(&self) -> Arc<Rule> {
        Arc::clone(&self.own)
    }

    /// Returns the version of the rule with the policy `calls`. Creates the version if it does not exist.
    pub(super) fn with(&mut self, calls: CallPolicy) -> Arc<Rule> {
        let known = [&self.own].into_iter().chain(&self.others).find(|rule| rule.calls == calls);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let rule = Arc::new(Rule { calls, ..Rule::clone(&self.own) });
        self.others.push(Arc::clone(&rule));
        rule
    }
}

impl<'a> Tables<'a> {
    /// Returns the group's list of rules; `None` if this list has the route's rules already, because two parents of the
    /// route lead to the same port.
    pub(super) fn list(&mut self, group: Group<'a>, route: &Route) -> Option<&mut Vec<Candidate>> {
        let list = self.0.entry(group).or_default();
        let has_route = list.last().is_some_and(|last| is_of(last, route));
        (!has_route).then_some(list)
    }

    /// Makes the tables. Groups with the same rules share a table.
    pub(super) fn finish(self, kind_of: impl Fn(&Group<'a>) -> RouteKind) -> Vec<AttachedRoutes> {
        // The map identifies a rule by its address in memory. This is safe, because no rule is created while the map
        // exists, so no address is reused.
        let mut made: HashMap<(RouteKind, Vec<*const Rule>), Arc<RouteTable>> = HashMap::new();
        let attach = |(group, candidates): (Group<'a>, Vec<Candidate>)| {
            let kind = kind_of(&group);
            let rules = candidates.iter().map(|candidate| Arc::as_ptr(&candidate.rule)).collect();
            // The key includes the kind: a table without rules treats unmatched calls according to its kind.
            let made = made.entry((kind, rules));
            let table = Arc::clone(made.or_insert_with(|| Arc::new(RouteTable::of_candidates(kind, candidates))));
            AttachedRoutes { cluster: group.0, namespace: group.1.into(), table }
        };
        self.0.into_iter().map(attach).collect()
    }
}
