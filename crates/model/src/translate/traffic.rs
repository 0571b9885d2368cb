//! Joins policies with the objects that they select.
//!
//! Several objects can set a field of a rule's policy. The first object in this list that sets the field wins.
//!
//! 1. the route itself
//! 2. a policy for the rule
//! 3. a policy for the route
//! 4. a policy for the Service's port
//! 5. a policy for the Service
//!
//! Gateway API's own objects take precedence over Leno's policies. So an XBackendTrafficPolicy for a Service decides
//! the retry budget before TrafficPolicies for the port and for the Service.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::references::{Known, NO_PORTS_FIX, no_ports, no_service};
use super::{Memo, name_of, place};
use crate::mesh::{AttachedRoutes, Cluster, ClusterKey};
use crate::object::route::RouteRule;
use crate::object::{Identity, PolicyTarget, Route, TrafficPolicy};
use crate::problem::{Problem, listed};
use crate::protocol::Protocol;
use crate::route::status::{Condition, ConditionKind, Reason};
use crate::route::{Backend, BackendTarget, Entry, Filters, Match, RouteKind, RouteName, RouteTable, Rule};
use crate::traffic::status::{TargetKind, TargetRef, TargetStatus};
use crate::traffic::{CallPolicy, PolicyKind, XdsClient, unsupported};

/// The target of a policy: the object's kind, namespace and name, and the name of its port or rule.
type Target<'a> = (TargetKind, &'a str, &'a str, Option<&'a str>);

/// The policies of a Service's port that set a policy for calls, by their addresses in memory. The policies outlive the
/// translation, so no address is reused.
pub(super) type Setters = Vec<*const TrafficPolicy>;

/// The policies in force, by their kinds and targets. Policies of different kinds do not conflict.
#[derive(Default)]
pub(super) struct Policies<'a> {
    by_target: HashMap<(PolicyKind, Target<'a>), &'a TrafficPolicy>,
    /// The TrafficPolicies for single ports, by the Service's namespace and name and the port's number. A Service may
    /// have a thousand ports, so a cluster must not cost a search for the name of its port.
    by_port: HashMap<(&'a str, &'a str, u16), &'a TrafficPolicy>,
    /// The numbers of a Service's ports, by their names. Has only the Services with a port that a policy selects. Each
    /// port of a Service may have a policy of its own, so a policy must not cost a search through all ports.
    ports: HashMap<(&'a str, &'a str), HashMap<&'a str, u16>>,
    pub(super) statuses: Vec<TargetStatus>,
    pub(super) problems: Vec<Problem>,
}

/// Why a policy is not in force at a target.
struct Fault {
    reason: Reason,
    what: String,
    fix: &'static str,
}

impl<'a> Policies<'a> {
    /// Joins policies with their targets. `policies` must be sorted, the oldest first.
    pub(super) fn new(policies: &[&'a Arc<TrafficPolicy>], routes: &[&'a Route], known: &Known<'a>) -> Self {
        let mut joined = Self::default();
        if policies.is_empty() {
            return joined;
        }
        let routes: HashMap<_, &Route> =
            routes.iter().map(|route| ((route.kind, name_of(&route.identity)), *route)).collect();
        for policy in policies {
            for target in &policy.targets {
                joined.attach(policy, target, &routes, known);
            }
        }
        joined
    }

    fn attach(
        &mut self,
        policy: &'a TrafficPolicy,
        target: &'a PolicyTarget,
        routes: &HashMap<(RouteKind, (&str, &str)), &Route>,
        known: &Known<'a>,
    ) {
        let (namespace, reference) = (&*policy.identity.namespace, &target.reference);
        let selected = (reference.kind, namespace, &*reference.name, reference.section_name.as_deref());
        let missing = self.missing(selected, routes, known);
        let key = (policy.kind, selected);
        let older = self.by_target.get(&key);
        let fault = missing.or_else(|| {
            let Identity { namespace, name, .. } = &older?.identity;
            Some(Fault {
                reason: Reason::Conflicted,
                what: format!("the older {} {namespace}/{name} has the same target", policy.kind.name()),
                fix: "remove the target from one of the two",
            })
        });
        let (status, reason, message) = match &fault {
            None => (true, Reason::Accepted, accepted(policy)),
            Some(Fault { reason, what, fix }) => (false, *reason, format!("{}: {what}; {fix}", target.spot.field)),
        };
        self.statuses.push(TargetStatus {
            kind: policy.kind,
            namespace: namespace.into(),
            policy: policy.identity.name.clone(),
            target: reference.clone(),
            condition: Condition { kind: ConditionKind::Accepted, status, reason, message },
        });
        let Some(Fault { what, fix, .. }) = fault else {
            self.by_target.insert(key, policy);
            if let (PolicyKind::Traffic, TargetKind::Service, Some(section)) = (policy.kind, reference.kind, selected.3)
                && let Some(port) = self.port_named(namespace, &reference.name, section)
            {
                self.by_port.insert((namespace, &*reference.name, port), policy);
            }
            return;
        };
        let place = place(&policy.identity, policy.kind.name(), &target.spot.field, target.spot.mark);
        self.problems.push(Problem { place, what, fix: fix.to_owned() });
    }

    /// Returns the number of a port that a policy selects by its name.
    fn port_named(&self, namespace: &str, service: &str, port: &str) -> Option<u16> {
        self.ports.get(&(namespace, service))?.get(port).copied()
    }

    /// Returns why a target does not exist; `None` if it exists.
    fn missing(
        &mut self,
        (kind, namespace, name, section): Target<'a>,
        routes: &HashMap<(RouteKind, (&str, &str)), &Route>,
        known: &Known<'a>,
    ) -> Option<Fault> {
        let not_found = |what: String, fix| Some(Fault { reason: Reason::TargetNotFound, what, fix });
        let (noun, named) = match kind {
            TargetKind::Service => match known.service(namespace, name) {
                None => return not_found(no_service(namespace, name), "add it, or correct the name"),
                Some(service) if service.ports.is_empty() => return not_found(no_ports(namespace, name), NO_PORTS_FIX),
                Some(service) => {
                    let numbers = || service.ports.iter().map(|port| (&*port.name, port.port)).collect();
                    let section = section?;
                    if self.ports.entry((namespace, name)).or_insert_with(numbers).contains_key(section) {
                        return None;
                    }
                    ("port", listed(service.ports.iter().map(|port| &*port.name)))
                }
            },
            TargetKind::HttpRoute | TargetKind::GrpcRoute => {
                let route = if kind == TargetKind::HttpRoute { RouteKind::Http } else { RouteKind::Grpc };
                match routes.get(&(route, (namespace, name))) {
                    None => {
                        let what = format!("there is no {} {namespace}/{name}", kind.name());
                        return not_found(what, "add it, or correct the name");
                    }
                    Some(route) => {
                        let section = section?;
                        let names: Vec<&str> = route.rules.iter().filter_map(|rule| rule.name.as_deref()).collect();
                        if names.contains(&section) {
                            return None;
                        }
                        ("rule", if names.is_empty() { "no name".to_owned() } else { listed(names.iter()) })
                    }
                }
            }
        };
        let section = section?;
        let what = format!("{} {namespace}/{name} has no {noun} named {section}; it has {named}", kind.name());
        not_found(what, "correct sectionName, or remove it to select all")
    }

    /// Finds the policies that have no effect, and writes the reason into their statuses. A policy has no effect if the
    /// mesh reads calls at none of the selected ports, or if the selected route is not in force. `attached` are the
    /// tables of routes.
    pub(super) fn report_idle(&mut self, attached: &[AttachedRoutes], known: &Known<'_>) {
        let (of_requests, of_connections): (Vec<_>, Vec<_>) =
            attached.iter().partition(|routes| routes.table.kind().is_of_requests());
        // Routes in another namespace are for the clients of that namespace only.
        let for_all = of_connections.iter().filter(|routes| routes.namespace == routes.cluster.namespace);
        let mut unread: HashSet<&ClusterKey> = for_all.map(|routes| &routes.cluster).collect();
        for routes in of_requests {
            unread.remove(&routes.cluster);
        }
        let is_read = |key: &ClusterKey| !known.is_opaque(key) && !unread.contains(key);
        let in_force = OnceCell::new();
        let accepted = self.statuses.iter_mut().filter(|status| status.condition.status);
        for TargetStatus { namespace, target, condition, .. } in accepted {
            let TargetRef { kind, name, section_name } = target;
            let section = section_name.as_deref();
            let why = if *kind == TargetKind::Service {
                let Some(service) = known.service(namespace, name) else { continue };
                let is_read =
                    |port: u16| is_read(&ClusterKey { namespace: namespace.clone(), service: name.clone(), port });
                let numbers = self.ports.get(&(&**namespace, &**name));
                let is_idle = !match section {
                    Some(section) => numbers.and_then(|ports| ports.get(section)).is_some_and(|port| is_read(*port)),
                    None => service.ports.iter().any(|port| is_read(port.port)),
                };
                let ports = section.map_or("every port".to_owned(), |section| format!("port {section}"));
                is_idle.then(|| {
                    format!(
                        "{ports} of Service {namespace}/{name} is opaque or has a TCPRoute or TLSRoute, so the mesh \
                         reads no calls there"
                    )
                })
            } else {
                let in_force = in_force.get_or_init(|| rules_in_force(attached, known));
                let is_idle = !in_force.contains(&(*kind, namespace, name, section));
                is_idle.then(|| {
                    format!(
                        "{} {namespace}/{name} is in force at no port where the mesh reads calls; the status of the \
                         route says why",
                        kind.name()
                    )
                })
            };
            if let Some(why) = why {
                condition.message = format!("it has no effect: {why}");
            }
        }
    }

    /// Returns the policy of a route's rule for calls to a cluster, including the parts that the route sets.
    pub(super) fn of_rule(
        &self,
        route: &Route,
        rule: &RouteRule,
        cluster: &ClusterKey,
        known: &Known<'_>,
    ) -> CallPolicy {
        let Some(kind) = target_kind(route.kind) else { return CallPolicy::default() };
        let (namespace, name) = name_of(&route.identity);
        let named = rule.name.as_deref().and_then(|rule| self.at((kind, namespace, name, Some(rule))));
        let of_route = named.into_iter().chain(self.at((kind, namespace, name, None)));
        joined(rule.calls.clone(), of_route.chain(self.of_cluster(cluster, known)))
    }

    /// Returns the size in bytes that the policies add to the matches of a route.
    pub(super) fn size_bytes(&self, route: &Route, cluster: &ClusterKey, known: &Known<'_>) -> usize {
        let added = |rule: &RouteRule| {
            let joined = self.of_rule(route, rule, cluster, known).size_bytes();
            rule.matches.len() * joined.saturating_sub(rule.calls.size_bytes())
        };
        route.rules.iter().map(added).sum()
    }

    fn at(&self, target: Target<'_>) -> Option<&'a TrafficPolicy> {
        self.by_target.get(&(PolicyKind::Traffic, target)).copied()
    }

    /// Returns the policies of a cluster's Service in order of precedence: Gateway API's policy, the policy for the
    /// cluster's port, the policy for the Service.
    fn of_cluster(&self, cluster: &ClusterKey, known: &Known<'_>) -> impl Iterator<Item = &TrafficPolicy> {
        let has_policies = !self.by_target.is_empty();
        let service = has_policies.then(|| known.service(&cluster.namespace, &cluster.service)).flatten();
        let (namespace, name) = (&*cluster.namespace, &*cluster.service);
        let of_port = self.by_port.get(&(namespace, name, cluster.port)).copied();
        let whole = (TargetKind::Service, namespace, name, None);
        let of_all = service.and_then(|_| self.at(whole));
        let of_gateway_api = service.and_then(|_| self.by_target.get(&(PolicyKind::BackendTraffic, whole)).copied());
        of_gateway_api.into_iter().chain(of_port).chain(of_all)
    }

    /// Returns the policies of a cluster's Service that set a policy for calls. [`Policies::of_rule`] returns the same
    /// for all clusters with the same `Setters`.
    pub(super) fn setters(&self, cluster: &ClusterKey, known: &Known<'_>) -> Setters {
        self.of_cluster(cluster, known).filter(|policy| !policy.calls.is_empty()).map(std::ptr::from_ref).collect()
    }

    /// Returns a cluster with the retry budget and the objectives that policies set for it. The Service's own
    /// objectives take precedence.
    pub(super) fn of_all_calls(&self, cluster: &Arc<Cluster>, known: &Known<'_>, memo: &mut Memo) -> Arc<Cluster> {
        let budget = self.of_cluster(&cluster.key, known).find_map(|policy| policy.retry_budget.clone());
        let of_policy = || self.of_cluster(&cluster.key, known).find_map(|policy| policy.objectives.clone());
        let objectives = cluster.objectives.clone().or_else(of_policy);
        if budget.is_none() && objectives == cluster.objectives {
            return cluster.clone();
        }
        memo.with_policies(cluster, budget, objectives)
    }

    /// Returns a table for each cluster whose Service has a policy and no routes in its own namespace. The table's only
    /// rule sends all calls to the cluster itself.
    pub(super) fn tables(
        &self,
        clusters: &[Arc<Cluster>],
        attached: &[AttachedRoutes],
        known: &Known<'_>,
    ) -> Vec<AttachedRoutes> {
        let of_producers = attached.iter().filter(|routes| routes.namespace == routes.cluster.namespace);
        let have_routes: HashSet<&ClusterKey> = of_producers.map(|routes| &routes.cluster).collect();
        let mut tables = Vec::new();
        for cluster in clusters.iter().filter(|cluster| cluster.protocol != Protocol::Opaque) {
            let key = &cluster.key;
            let calls = joined(CallPolicy::default(), self.of_cluster(key, known));
            if calls.is_empty() || have_routes.contains(key) {
                continue;
            }
            let table = Arc::new(of_service(key, calls));
            tables.push(AttachedRoutes { cluster: key.clone(), namespace: key.namespace.clone(), table });
        }
        tables
    }
}

/// Returns `own`, completed by `policies`, which must be ordered from the most to the least specific. Then removes the
/// settings in mode `Off`.
fn joined<'p>(own: CallPolicy, policies: impl Iterator<Item = &'p TrafficPolicy>) -> CallPolicy {
    policies.fold(own, |calls, policy| calls.or(&policy.calls)).without_off()
}

/// Returns the table of a Service without routes.
fn of_service(key: &ClusterKey, calls: CallPolicy) -> RouteTable {
    let itself = Backend { to: BackendTarget::Cluster(key.clone()), weight: 1, filters: Filters::default() };
    let route = RouteName { kind: RouteKind::Service, namespace: key.namespace.clone(), name: key.service.clone() };
    let rule = Rule { route, name: None, filters: Arc::default(), backends: [itself].into(), calls };
    RouteTable::new(RouteKind::Service, vec![Entry { matches: Arc::new(Match::any()), rule: Arc::new(rule) }])
}

/// Returns the routes, and the named rules of routes, that are in force at a port where the mesh reads calls.
fn rules_in_force<'a>(attached: &'a [AttachedRoutes], known: &Known<'_>) -> HashSet<Target<'a>> {
    let read = attached.iter().filter(|routes| !known.is_opaque(&routes.cluster));
    let mut targets = HashSet::new();
    for rule in read.flat_map(|routes| routes.table.entries()).map(|entry| &entry.rule) {
        let RouteName { kind, namespace, name } = &rule.route;
        let Some(kind) = target_kind(*kind) else { continue };
        targets.insert((kind, &**namespace, &**name, None));
        targets.insert((kind, &**namespace, &**name, rule.name.as_deref()));
    }
    targets
}

/// Returns the kind of route as a kind of policy target; `None` if a policy cannot select routes of this kind.
fn target_kind(kind: RouteKind) -> Option<TargetKind> {
    match kind {
        RouteKind::Http => Some(TargetKind::HttpRoute),
        RouteKind::Grpc => Some(TargetKind::GrpcRoute),
        RouteKind::Tls | RouteKind::Tcp | RouteKind::Service => None,
    }
}

/// Returns the status message of a policy in force: the policy's remarks, and the parts of the policy that programs
/// without a proxy ignore. Empty if there is nothing to report.
fn accepted(policy: &TrafficPolicy) -> String {
    let sets_something = policy.retry_budget.is_some() || policy.objectives.is_some() || !policy.calls.is_empty();
    let mut remarks: Vec<String> = policy.remarks.iter().map(ToString::to_string).collect();
    let clients = [("gRPC clients without a proxy ignore", XdsClient::Grpc), ("Envoy ignores", XdsClient::Envoy)];
    for (ignore, client) in clients {
        let parts = unsupported(client, &policy.calls, policy.retry_budget.as_ref());
        let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
        if !parts.is_empty() {
            remarks.push(format!("{ignore}: {}", parts.join(", ")));
        }
    }
    if !remarks.is_empty() && sets_something {
        remarks.insert(0, "in force for proxies".to_owned());
    }
    remarks.join("; ")
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
