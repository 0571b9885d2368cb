//! Explains a call that our own application makes: its cluster, its rule, the limits of the rule, and the endpoints of
//! each backend.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use leno_http2::FieldSection;
use leno_http2::fields::Known;
use leno_model::mesh::{Cluster, ClusterKey};
use leno_model::protocol;
use leno_model::route::{BackendTarget, Filters, Found as FoundRule, Mirror, RouteKind, RouteTable, Rule};
use serde::Serialize;
use serde_json::Value;

use super::answer::{
    BackendChoice, EndpointChoice, EndpointState, Failure, Outbound, Outcome, PassedOver, RouteChoice,
};
use super::{Sides, failed, failure};
use crate::Relay;
use crate::call::Call;
use crate::call::deadline::limits_first;
use crate::call::hedge::hedged_name;
use crate::call::reply::ProxyError;
use crate::downstream::accounts::Lane;
use crate::downstream::origin::Door;
use crate::link::grpc;
use crate::pool::hop::Protocol;
use crate::target::cluster::{ClusterState, TargetKey};
use crate::target::find::{Found, Sought};
use crate::target::request_head::Head;
use crate::target::routes::{change, find_rule, redirect, unknown_backend};

/// Maximum number of non-matching rules that one answer lists.
const PASSED_OVER_MAX: usize = 16;
/// Maximum number of endpoints of one backend in an answer.
const ENDPOINTS_MAX: usize = 32;

impl Relay {
    /// Explains a call with this authority. `address` is the destination to which the client connected, if netfilter
    /// redirected the connection to the proxy.
    pub(super) fn explain_outbound(&mut self, mut call: Call, authority: &str, address: Option<SocketAddr>) -> Sides {
        let of_address = address.and_then(|address| self.targets.mesh().cluster_by_address(address));
        let is_declared_opaque = of_address.is_some_and(|cluster| cluster.protocol == protocol::Protocol::Opaque);
        // Only gRPC shows which version of HTTP the client speaks. For other calls, assume HTTP/1: few clients speak
        // HTTP/2 without TLS.
        let is_http2 = call.is_grpc && !is_declared_opaque;
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let sought = Sought { door: Door::Outbound, target: address, local, is_http2 };
        let (target, cluster) = match self.find_target(&sought, authority.as_bytes()) {
            Ok(Found::Service(cluster)) => (TargetKey::Service(cluster.key.clone()), cluster),
            Ok(Found::Address(target @ TargetKey::Address(to))) => {
                let room = if self.targets.find(&target).is_some() { Ok(()) } else { self.has_room_for(&target) };
                if let Err(error) = room {
                    return (failed(&error), None, None);
                }
                (target, self.cluster_of_address(self.targets.mesh(), to))
            }
            Ok(Found::Address(other)) => {
                return (failed(&ProxyError::NoRoute(format!("{other} is no outbound target"))), None, None);
            }
            Ok(Found::Unanswered(subject)) => return (self.unknown(&subject), None, None),
            Err(error) => return (failed(&error), None, None),
        };
        let table = self.targets.route_table(&target).map(|(parent, table)| (parent.clone(), table.clone()));
        // Only a redirected connection can be opaque: the proxy does not parse it if the port is opaque or has
        // TCPRoutes. On a connection to the proxy itself (`address` is `None`), the proxy always detects HTTP.
        let has_tcp_routes = table.as_ref().is_some_and(|(_, table)| table.kind() == RouteKind::Tcp);
        let is_opaque = address.is_some() && (cluster.protocol == protocol::Protocol::Opaque || has_tcp_routes);
        if is_opaque {
            call.protocol = Protocol::Opaque;
        }
        let mut answer = Outbound {
            destination: target.to_string(),
            is_service: matches!(target, TargetKey::Service(_)),
            endpoint_of: address.and_then(|address| self.endpoint_of(&target, &cluster, address)),
            is_opaque,
            calls_in_flight: self.calls.len() as u64,
            max_calls: self.limits.relay.max_calls.into(),
            ..Outbound::default()
        };
        answer.is_balanced_in_http2 = answer.endpoint_of.is_some()
            && !is_declared_opaque
            && address.is_some_and(|address| self.targets.mesh().cluster_by_address(address).is_some());
        self.explain_deadline(&call, None, &mut answer);
        let outcome = match &table {
            Some((parent, table)) => self.explain_routes(&call, (parent, table), &cluster, &mut answer),
            None => self.explain_one(&call, &target, &cluster, &mut answer),
        };
        (outcome, Some(answer), None)
    }

    /// Returns the Service whose endpoint has the address that the client dials; `None` if this address is a clusterIP
    /// or belongs to no endpoint.
    fn endpoint_of(&self, target: &TargetKey, cluster: &Cluster, dialled: SocketAddr) -> Option<String> {
        let key = match target {
            TargetKey::Service(key) => Some(key).filter(|_| !cluster.has_cluster_ip(dialled.ip())),
            TargetKey::Address(_) | TargetKey::Local(_) => {
                self.targets.mesh().endpoint_by_address(dialled).map(|(cluster, _)| &cluster.key)
            }
        };
        key.map(ToString::to_string)
    }

    /// Explains a call that goes to the cluster itself, without a route rule.
    fn explain_one(&self, call: &Call, target: &TargetKey, cluster: &Arc<Cluster>, answer: &mut Outbound) -> Outcome {
        let backend = self.explain_backend(call, target, cluster, 1.0);
        let outcome = backend.failure.clone().map_or(Outcome::Sent, Outcome::Failed);
        answer.backends.push(backend);
        outcome
    }

    fn explain_routes(
        &self,
        call: &Call,
        (parent, table): (&ClusterKey, &Arc<RouteTable>),
        cluster: &Arc<Cluster>,
        answer: &mut Outbound,
    ) -> Outcome {
        let found = match find_rule(table, parent, (&call.request, call.protocol), || None) {
            Ok(Some(found)) => found,
            Ok(None) => return self.explain_one(call, &TargetKey::Service(parent.clone()), cluster, answer),
            Err(error) => {
                answer.route = Some(choice(call, table, None));
                return failed(&error);
            }
        };
        let FoundRule { rule, path, .. } = found;
        answer.route = Some(choice(call, table, Some(&found)));
        answer.calls = json(&rule.calls);
        let hedge = rule.calls.hedge.as_ref();
        answer.is_hedged =
            hedge.is_some_and(|hedge| hedge.value.applies_to(call.is_grpc, hedged_name(&call.request, call.is_grpc)));
        self.explain_deadline(call, Some(rule), answer);
        if let Some((status, location)) = redirect(&call.request, &rule.filters, path, parent) {
            return redirected(status, &location);
        }
        answer.mirrors = mirrors(&rule.filters, 1.0);
        let mut request = call.request.clone();
        change(&mut request, &rule.filters, path);
        let weights: u64 = rule.backends.iter().map(|backend| u64::from(backend.weight)).sum();
        if weights == 0 {
            return failed(&ProxyError::NoBackend { route: rule.route.clone() });
        }
        let used = rule.backends.iter().enumerate().filter(|(_, backend)| backend.weight > 0);
        let is_only = used.clone().count() == 1;
        for (place, backend) in used {
            let share = f64::from(backend.weight) / weights as f64;
            answer.backends.push(self.explain_rules_backend(call, rule, place, share));
            answer.mirrors.extend(mirrors(&backend.filters, share));
            if !is_only {
                continue;
            }
            if let Some((status, location)) = redirect(&call.request, &backend.filters, path, parent) {
                // The relay copies no request that it redirects.
                answer.mirrors.clear();
                answer.backends.clear();
                return redirected(status, &location);
            }
            change(&mut request, &backend.filters, path);
        }
        answer.changes = changes(&call.request, &request);
        // The call counts as sent if at least one backend would take it.
        let failures: Option<Vec<Failure>> = answer.backends.iter().map(|backend| backend.failure.clone()).collect();
        failures.and_then(|all| all.into_iter().next()).map_or(Outcome::Sent, Outcome::Failed)
    }

    fn explain_rules_backend(&self, call: &Call, rule: &Rule, place: usize, share: f64) -> BackendChoice {
        let to = rule.backends.get(place).map(|backend| &backend.to);
        let cluster = match to {
            Some(BackendTarget::Cluster(key)) => self.targets.mesh().cluster(key),
            Some(BackendTarget::Invalid(_)) | None => None,
        };
        match cluster {
            Some(cluster) => {
                let target = TargetKey::Service(cluster.key.clone());
                let hedge_delay = self.explain_hedge_delay(call, rule, &target, cluster);
                BackendChoice { hedge_delay, ..self.explain_backend(call, &target, cluster, share) }
            }
            None => {
                let to = match to {
                    Some(BackendTarget::Cluster(key)) => key.to_string(),
                    Some(BackendTarget::Invalid(why)) => why.to_string(),
                    None => String::new(),
                };
                let failure = Some(failure(&unknown_backend(rule, place)));
                BackendChoice { to, share, failure, ..BackendChoice::default() }
            }
        }
    }

    /// Describes the current delay of a rule's hedges, if the delay is a percentile and the rule hedges the call.
    fn explain_hedge_delay(
        &self,
        call: &Call,
        rule: &Rule,
        target: &TargetKey,
        cluster: &Arc<Cluster>,
    ) -> Option<String> {
        let name = hedged_name(&call.request, call.is_grpc);
        let hedge = rule.calls.hedge.as_ref().filter(|hedge| hedge.value.applies_to(call.is_grpc, name))?;
        let tell = |state: &ClusterState| state.tell_hedge_delay(hedge.value.delay, name, self.now);
        match self.targets.find(target).and_then(|id| self.targets.get(id)) {
            Some(state) => tell(state),
            None => tell(&ClusterState::new(target.clone(), cluster.clone(), self.seed, self.now)),
        }
    }

    /// Explains which endpoint of a cluster would get the call. If the cluster has received no call yet, it has no
    /// state. In that case, this function uses the state that the first call would create.
    fn explain_backend(&self, call: &Call, target: &TargetKey, cluster: &Arc<Cluster>, share: f64) -> BackendChoice {
        let seed = self.seed ^ self.random.clone().u64(..);
        let fresh = || ClusterState::new(target.clone(), cluster.clone(), seed, self.now);
        let (known, first);
        let state = match self.targets.find(target).and_then(|id| self.targets.get(id)) {
            Some(state) => {
                known = state;
                known
            }
            None => {
                first = fresh();
                &first
            }
        };
        let max_waiting = self.limits.relay.max_waiting_calls_per_endpoint as usize;
        let picked = state.preview(self.now, call, Lane::Shared, &self.pools, max_waiting.max(1));
        let why_none = || failure(&state.why_none(self.now, (call, Lane::Shared), &self.pools, 0));
        let failure = picked.is_none().then(why_none);
        let choice = picked.and_then(|(id, why)| {
            let endpoint = state.member(id)?;
            let server = endpoint.proxy.as_ref().and_then(|proxy| self.targets.id_of(proxy));
            let server = server.map(|id| id.to_string());
            Some(EndpointChoice {
                address: endpoint.address,
                why,
                pod: endpoint.pod.as_deref().map(str::to_owned),
                server,
            })
        });
        let all = self.explain_endpoints(state);
        let omitted = all.len().saturating_sub(ENDPOINTS_MAX);
        let endpoints = all.into_iter().take(ENDPOINTS_MAX).map(|endpoint| EndpointState {
            address: endpoint.balancer.address,
            pod: endpoint.pod,
            state: endpoint.balancer.state.to_owned(),
            weight: endpoint.balancer.weight,
            in_flight: endpoint.balancer.in_flight,
            reason: endpoint.balancer.reason,
            waiting: endpoint.waiting,
            last_connect_error: endpoint.last_connect_error,
            is_silent: endpoint.is_silent,
        });
        let method = call.request.get(if call.is_grpc { Known::Path } else { Known::Method });
        let objectives = cluster.objectives.as_deref();
        let objective = objectives.and_then(|objectives| objectives.of(call.is_grpc, method.unwrap_or_default()));
        BackendChoice {
            to: target.to_string(),
            share,
            failure,
            balancer: cluster.balancer.to_string(),
            retry_budget: json(&cluster.retry_budget),
            hedge_delay: None,
            objective: objective.map(ToString::to_string),
            objective_set_by: objective.and(objectives).map(|objectives| objectives.set_by.to_string()),
            connect_timeout_ms: ms(cluster.settings.connect_timeout),
            max_waiting_per_endpoint: max_waiting as u64,
            choice,
            endpoints: endpoints.collect(),
            omitted,
            unready: cluster.unready_endpoints.len() - cluster.second_addresses().count(),
        }
    }

    /// Writes the time until the call's deadline into `answer`: the shorter of the client's timeout and the rule's
    /// timeout.
    fn explain_deadline(&self, call: &Call, rule: Option<&Rule>, answer: &mut Outbound) {
        if call.protocol == Protocol::Opaque {
            return;
        }
        let asked = call.request.get(Known::GrpcTimeout).and_then(grpc::parse_timeout);
        let limit = rule.and_then(|rule| rule.calls.request_timeout.as_ref()).filter(|limit| !limit.is_audited());
        let limit = limit.filter(|limit| limits_first(limit.value.after, asked));
        let (deadline, set_by) = match limit {
            Some(limit) => (Some(limit.value.after), Some(limit.set_by.to_string())),
            None => (asked, asked.map(|_| "the client".to_owned())),
        };
        (answer.deadline_ms, answer.deadline_set_by) = (deadline.map(ms), set_by);
    }
}

/// Describes the rule that a call follows, and the rules before it that do not match the call.
fn choice(call: &Call, table: &RouteTable, found: Option<&FoundRule<'_>>) -> RouteChoice {
    let before = found.map_or(table.entries().len(), |found| found.place);
    let head = Head(&call.request);
    let passed_over =
        table.entries().iter().take(before.min(PASSED_OVER_MAX)).enumerate().map(|(place, entry)| PassedOver {
            route: entry.rule.route.to_string(),
            rule: entry.rule.name.as_deref().map(str::to_owned),
            why: table.why_not(place, &head).unwrap_or_default(),
        });
    let matched = found.and_then(|found| table.entries().get(found.place));
    RouteChoice {
        kind: table.kind().name().to_owned(),
        route: found.filter(|_| table.kind() != RouteKind::Service).map(|found| found.rule.route.to_string()),
        rule: found.and_then(|found| found.rule.name.as_deref().map(str::to_owned)),
        matched: matched.map(|entry| entry.matches.to_string()),
        passed_over: passed_over.collect(),
        omitted: before.saturating_sub(PASSED_OVER_MAX),
    }
}

/// Lists the Services that get copies of requests, each with its share of the rule's calls. `share` is the share of the
/// rule's calls to which `filters` apply, 0 to 1: a filter of a backend copies only the calls to this backend.
fn mirrors(filters: &Filters, share: f64) -> Vec<String> {
    let text = |mirror: &Mirror| {
        let copied = share * f64::from(mirror.numerator) / f64::from(mirror.denominator.max(1));
        // Four decimals, because one call in a million may be copied.
        let percent = (copied * 1_000_000.0).round() / 10_000.0;
        format!("{} ({percent} % of the calls)", mirror.to)
    };
    filters.mirrors.iter().map(text).collect()
}

/// Lists the fields of a request that were added, changed or removed.
fn changes(before: &FieldSection, after: &FieldSection) -> Vec<String> {
    let lines = |fields: &FieldSection| -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields.iter().map(|line| (text(line.name), text(line.value))).collect()
    };
    let (before, after) = (lines(before), lines(after));
    let removed = before.iter().filter(|(name, _)| !after.iter().any(|(other, _)| other == name));
    let removed = removed.map(|(name, _)| format!("{name} removed"));
    let set = after.iter().filter(|line| !before.contains(line)).map(|(name, value)| format!("{name}: {value}"));
    set.chain(removed).collect()
}

fn redirected(status: u16, location: &[u8]) -> Outcome {
    Outcome::Redirected { status, location: String::from_utf8_lossy(location).into_owned() }
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
