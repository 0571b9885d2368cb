//! Routes: applies the routes that are attached to a call's cluster. The worker finds a rule and chooses a backend once
//! for each call, however often the call is sent. If the rule has filters, the worker then changes the request, copies
//! it to mirrors, or answers it with a redirect. The relay treats an opaque connection as a call too, but a rule can
//! only choose its destination.

use std::sync::Arc;
use std::time::Duration;

use leno_http2::fields::{Known, PreparedField};
use leno_http2::{FieldSection, syntax};
use leno_model::balance::Method;
use leno_model::mesh::ClusterKey;
use leno_model::route::{BackendTarget, Filters, Found, PathMatch, RouteKind, RouteName, RouteTable, Rule, Scheme};
use leno_model::traffic::{CallPolicy, Hedge, Retry, Setting};

use crate::Relay;
use crate::call::CallId;
use crate::call::hedge::Unhedged;
use crate::call::mirror::MirrorCopies;
use crate::call::policy::PolicyProgress;
use crate::call::record::Ending;
use crate::call::reply::ProxyError;
use crate::call::retry_policy::Unretried;
use crate::certain::Certain;
use crate::link::grpc;
use crate::metrics::{Class, RouteLabels, RouteMetrics};
use crate::pool::hop::Protocol;
use crate::target::cluster::{ClusterId, TargetKey};
use crate::target::filter;
use crate::target::request_head::Head;

/// The routes that are attached to a cluster, and the rules that its calls have matched.
#[derive(Debug)]
pub(crate) struct Routes {
    parent: ClusterKey,
    table: Arc<RouteTable>,
    /// For each rule of the table, at the same index: the matched rule; `None` until a call has matched it.
    matched: Box<[Option<Arc<MatchedRule>>]>,
}

/// A rule that calls have matched.
#[derive(Debug)]
pub(crate) struct MatchedRule {
    rule: Arc<Rule>,
    /// The rule's backends, in the order of the rule.
    backends: Box<[RuleBackend]>,
    /// The metrics of requests that go to no backend.
    metrics: Arc<RouteMetrics>,
    /// The limit for a whole call, if the rule has a limit that is enforced.
    timeout: Option<RuleTimeout>,
}

/// The time that a rule allows a whole call.
#[derive(Debug)]
pub(crate) struct RuleTimeout {
    pub(crate) after: Duration,
    /// The field `grpc-timeout` with this time, for gRPC servers.
    pub(crate) field: PreparedField,
}

#[derive(Debug)]
struct RuleBackend {
    /// The backend's cluster, valid only in the current mesh; `None` if the mesh does not have the cluster.
    cluster: Option<ClusterId>,
    metrics: Arc<RouteMetrics>,
}

/// The rule that a call matched, and the rule's state for this call.
#[derive(Debug)]
pub(crate) struct CallRoute {
    rule: Arc<MatchedRule>,
    /// Index of the chosen backend; `None` if the proxy answered the request itself.
    backend: Option<usize>,
    /// Whether the rule, and not the caller, has set the call's deadline.
    pub(crate) sets_deadline: bool,
    /// Milliseconds from the call's start to the end of its request; 0 if the request ended before the call had a rule.
    pub(crate) request_ms: u32,
    /// The mirrored copies of the request that are in flight.
    pub(crate) mirrors: Vec<CallId>,
    /// The method of the call, if the policy of the rule hedges this method.
    pub(crate) hedged_method: Option<Method>,
    /// State of the call that the rule's policy needs; `None` as long as no setting of the policy has needed any.
    pub(crate) progress: Option<Box<PolicyProgress>>,
}

/// The destination of a call, according to the routes.
enum Destination {
    /// Routes of the cluster's kind do not apply to the call, so it goes to the cluster itself.
    Unrouted,
    /// The call goes to this cluster, and copies of the call go to other clusters.
    Cluster(ClusterId, Option<Box<MirrorCopies>>),
    /// The proxy answers the call with a status and a `location`.
    Redirect(u16, Vec<u8>),
}

impl Routes {
    pub(crate) fn new(parent: ClusterKey, table: Arc<RouteTable>) -> Self {
        let matched = table.entries().iter().map(|_| None).collect();
        Self { parent, table, matched }
    }

    /// If the table is plain ([`RouteTable::is_plain`]), and a call has already matched its only rule, returns this
    /// rule and the rule's only backend. Returns `None` for a request without a path.
    fn plain_rule(&self, request: &FieldSection) -> Option<(&Arc<MatchedRule>, ClusterId)> {
        let matched = self.matched.first().filter(|_| self.table.is_plain())?.as_ref()?;
        let has_path = request.get(Known::Path).is_some_and(|path| path.starts_with(b"/"));
        Some((matched, matched.backends.first()?.cluster?)).filter(|_| has_path)
    }
}

impl CallRoute {
    fn new(rule: Arc<MatchedRule>) -> Self {
        Self {
            rule,
            backend: None,
            sets_deadline: false,
            request_ms: 0,
            mirrors: Vec::new(),
            hedged_method: None,
            progress: None,
        }
    }

    /// Returns the name of the route that the rule belongs to.
    pub(crate) fn name(&self) -> &RouteName {
        &self.rule.rule.route
    }

    /// Returns the rule's own name, if it has one.
    pub(crate) fn rule_name(&self) -> Option<&str> {
        self.rule.rule.name.as_deref()
    }

    /// Returns the rule's policy for the call, such as time limits, retries and hedges.
    pub(crate) fn policy(&self) -> &CallPolicy {
        &self.rule.rule.calls
    }

    /// Returns the rule's limit for the whole call, if the rule has a limit that is enforced.
    pub(crate) fn timeout(&self) -> Option<&RuleTimeout> {
        self.rule.timeout.as_ref()
    }

    pub(crate) fn retry(&self) -> Option<&Setting<Retry>> {
        self.policy().retry.as_ref()
    }

    pub(crate) fn hedge(&self) -> Option<&Setting<Hedge>> {
        self.policy().hedge.as_ref()
    }

    /// Returns whether the rule has retries or hedges, which take from the budget of the call's cluster.
    pub(crate) fn may_begin_further_attempts(&self) -> bool {
        self.retry().is_some() || self.hedge().is_some()
    }

    /// Counts a hedge, or the reason why the call gets no hedge.
    pub(crate) fn count_hedge(&self, unhedged: Option<Unhedged>) {
        match unhedged {
            None => self.metrics().hedges.requests.add(1),
            Some(why) => self.metrics().hedge_skipped(why.reason()),
        }
    }

    /// Counts a call that a hedge answered before the first attempt.
    pub(crate) fn count_hedge_success(&self) {
        self.metrics().hedges.successes.add(1);
    }

    /// Counts a retry, or the reason why the call gets no retry.
    pub(crate) fn count_retry(&self, unretried: Option<Unretried>) {
        match unretried {
            None => self.metrics().retries.requests.add(1),
            Some(why) => self.metrics().retry_skipped(why.reason()),
        }
    }

    /// Counts a call that was retried and has ended without a failure.
    pub(crate) fn count_retry_success(&self) {
        self.metrics().retries.successes.add(1);
    }

    /// Counts how the call ended. `took` is the time from its request's headers to its response's end. `response_took`
    /// is the time that the endpoint of the last attempt took, if the attempt was sent.
    pub(crate) fn ended(
        &self,
        http_status: u16,
        (class, grpc_status): (Class, Option<u8>),
        ending: Ending,
        (took, response_took): (Duration, Option<Duration>),
    ) {
        let status = (http_status != 0).then_some(http_status);
        let (grpc_status, error) = match ending {
            Ending::Answered { .. } => (grpc_status, (class == Class::Denied).then_some("denied")),
            Ending::ProxyError { why, .. } => (grpc_status, Some(why)),
            Ending::Broken => (None, Some("reset")),
            Ending::Cancelled | Ending::Complete => (None, Some("cancelled")),
        };
        let metrics = self.metrics();
        metrics.ended(status, grpc_status, error, took);
        if let Some(took) = response_took {
            metrics.responded(took);
        }
    }

    /// Returns the metrics of the calls that the rule sends to the chosen backend.
    pub(crate) fn metrics(&self) -> &RouteMetrics {
        let chosen = self.backend.and_then(|place| self.rule.backends.get(place));
        chosen.map_or(&*self.rule.metrics, |backend| &*backend.metrics)
    }

    /// Changes the header fields of a response: first by the filters of the chosen backend, then by the filters of the
    /// rule.
    pub(crate) fn modify_response(&self, fields: &mut FieldSection) {
        let chosen = self.backend.and_then(|place| self.rule.rule.backends.get(place));
        let filters = chosen.map(|backend| &backend.filters).into_iter().chain([&*self.rule.rule.filters]);
        for modifier in filters.filter_map(|filters| filters.response_headers.as_ref()) {
            filter::modify(fields, modifier);
        }
    }
}

impl Relay {
    /// Applies the routes that are attached to a call's cluster, and admits the call to the backend that they choose.
    /// Without routes, admits the call to the cluster itself.
    #[inline]
    pub(crate) fn apply_routes(&mut self, id: CallId, cluster: ClusterId) {
        let Some(routes) = self.targets.get(cluster).and_then(|state| state.routes.as_ref()) else {
            return self.admit(id, cluster);
        };
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        match routes.plain_rule(&call.request) {
            Some((matched, backend)) => {
                let route = call.route.insert(CallRoute::new(matched.clone()));
                route.backend = Some(0);
                route.metrics().requests.add(1);
                self.admit(id, backend);
            }
            None => self.choose_by_routes(id, cluster),
        }
    }

    fn choose_by_routes(&mut self, id: CallId, cluster: ClusterId) {
        let routes = self.targets.get_mut(cluster).and_then(|state| state.routes.take());
        let Some(mut routes) = routes.certain() else { return self.admit(id, cluster) };
        let destination = self.choose_destination(id, &mut routes);
        if let Some(state) = self.targets.get_mut(cluster) {
            state.routes = Some(routes);
        }
        match destination {
            Ok(Destination::Unrouted) => self.admit(id, cluster),
            Ok(Destination::Cluster(cluster, copies)) => {
                self.admit(id, cluster);
                if let Some(copies) = copies {
                    self.mirror(id, *copies);
                }
            }
            // The call goes to no backend, so it counts as a call to the Service that the routes are attached to.
            Ok(Destination::Redirect(status, location)) => {
                self.join_cluster(id, cluster);
                self.redirect(id, status, &location);
            }
            Err(error) => {
                self.join_cluster(id, cluster);
                self.fail(id, &error);
            }
        }
    }

    fn choose_destination(&mut self, id: CallId, routes: &mut Routes) -> Result<Destination, ProxyError> {
        let gone = || ProxyError::NoRoute("the call is over".to_owned());
        let call = self.calls.get(id).ok_or_else(gone)?;
        let server = || self.downstreams.get(call.client).and_then(|client| client.link.codec.server());
        let found = find_rule(&routes.table, &routes.parent, (&call.request, call.protocol), server)?;
        let Some(Found { rule, path, place }) = found else { return Ok(Destination::Unrouted) };
        let matched = self.matched_rule(&routes.parent, routes.matched.get_mut(place), rule);
        let call = self.calls.get_mut(id).ok_or_else(gone)?;
        let route = call.route.insert(CallRoute::new(matched));
        if let Some((status, location)) = redirect(&call.request, &rule.filters, path, &routes.parent) {
            route.metrics().requests.add(1);
            return Ok(Destination::Redirect(status, location));
        }
        self.take_backend(id, rule, path, &routes.parent)
    }

    /// Returns a rule with its clusters and metrics. The first call that matches the rule looks up these clusters and
    /// metrics. `place` is the rule's entry in the list of matched rules, which stores the result.
    fn matched_rule(
        &mut self,
        parent: &ClusterKey,
        place: Option<&mut Option<Arc<MatchedRule>>>,
        rule: &Arc<Rule>,
    ) -> Arc<MatchedRule> {
        match place {
            Some(Some(known)) => known.clone(),
            Some(unknown) => unknown.insert(Arc::new(self.prepare_rule(parent, rule))).clone(),
            None => Arc::new(self.prepare_rule(parent, rule)),
        }
    }

    /// Chooses a backend, and applies the filters of the rule and of the backend to the request.
    fn take_backend(
        &mut self,
        id: CallId,
        rule: &Rule,
        path: &PathMatch,
        parent: &ClusterKey,
    ) -> Result<Destination, ProxyError> {
        let random = self.random.u64(..);
        let no_backend = || ProxyError::NoBackend { route: rule.route.clone() };
        let chosen = rule.choose(random);
        let place =
            chosen.and_then(|backend| rule.backends.iter().position(|candidate| std::ptr::eq(candidate, backend)));
        let call = self.calls.get_mut(id).ok_or_else(no_backend)?;
        let route = call.route.as_mut().ok_or_else(no_backend)?;
        route.backend = place;
        route.metrics().requests.add(1);
        let backend = chosen.ok_or_else(no_backend)?;
        let cluster = place.and_then(|place| route.rule.backends.get(place)?.cluster);
        let cluster = cluster.ok_or_else(|| unknown_backend(rule, place.unwrap_or_default()))?;
        if let Some((status, location)) = redirect(&call.request, &backend.filters, path, parent) {
            return Ok(Destination::Redirect(status, location));
        }
        let copied = self.choose_mirrors(id, [&*rule.filters, &backend.filters]);
        let call = self.calls.get_mut(id).ok_or_else(no_backend)?;
        change(&mut call.request, &rule.filters, path);
        let copies = copied.map(|drawn| drawn.copy(&call.request));
        change(&mut call.request, &backend.filters, path);
        Ok(Destination::Cluster(cluster, copies))
    }

    /// Looks up the clusters and metrics for calls that match a rule.
    fn prepare_rule(&mut self, parent: &ClusterKey, rule: &Arc<Rule>) -> MatchedRule {
        let labels = |backend: Option<&ClusterKey>| RouteLabels {
            parent: parent.clone(),
            route: rule.route.clone(),
            backend: backend.cloned(),
        };
        let backends = rule.backends.iter().map(|backend| {
            let key = match &backend.to {
                BackendTarget::Cluster(key) => Some(key),
                BackendTarget::Invalid(_) => None,
            };
            let cluster = key.and_then(|key| self.state_of(key));
            RuleBackend { cluster, metrics: self.metrics.route(&labels(key)) }
        });
        let backends = backends.collect();
        let limit = rule.calls.request_timeout.as_ref().filter(|limit| !limit.is_audited());
        let timeout = limit.map(|limit| {
            let after = limit.value.after;
            RuleTimeout { after, field: PreparedField::new(Known::GrpcTimeout, grpc::format_timeout(after).as_bytes()) }
        });
        MatchedRule { rule: rule.clone(), backends, metrics: self.metrics.route(&labels(None)), timeout }
    }

    /// Returns a Service's cluster, if the mesh has it.
    pub(crate) fn state_of(&mut self, key: &ClusterKey) -> Option<ClusterId> {
        let cluster = self.targets.mesh().cluster(key)?.clone();
        Some(self.service_state(&cluster))
    }
}

/// Finds the rule for a request. Returns `None` if routes of the table's kind do not apply to the call: the call then
/// goes to the Service itself. `server` returns the server name of a TLS connection, if it has one; `None` for other
/// connections.
pub(crate) fn find_rule<'a, 'b>(
    table: &'a RouteTable,
    parent: &ClusterKey,
    (request, protocol): (&FieldSection, Protocol),
    server: impl FnOnce() -> Option<Option<&'b str>>,
) -> Result<Option<Found<'a>>, ProxyError> {
    let found = match table.kind() {
        RouteKind::Grpc | RouteKind::Http | RouteKind::Service if protocol == Protocol::Opaque => return Ok(None),
        RouteKind::Grpc | RouteKind::Http | RouteKind::Service | RouteKind::Tcp => table.find(&Head(request)),
        RouteKind::Tls => match server() {
            Some(name) => table.find_server(name),
            None => return Ok(None),
        },
    };
    // For a Service without routes, no match is no error: its only rule matches every path, but some requests have no
    // path.
    if found.is_none() && table.kind() != RouteKind::Service {
        return Err(ProxyError::NoMatch { cluster: parent.to_string() });
    }
    Ok(found)
}

/// Returns the error for a call whose backend is not a cluster of the mesh. `place` is the backend's index in the rule.
pub(crate) fn unknown_backend(rule: &Rule, place: usize) -> ProxyError {
    let why = match rule.backends.get(place).map(|backend| &backend.to) {
        Some(BackendTarget::Invalid(why)) => why.to_string(),
        Some(BackendTarget::Cluster(key)) => format!("the mesh has no Service {key}"),
        None => "it has no such backend".to_owned(),
    };
    ProxyError::InvalidBackend { route: rule.route.clone(), why }
}

/// Returns the redirect for a request to the Service `parent`, if the filters contain a redirect. If the request's
/// authority is not a host, such as `a@b`, the Service's name replaces it. Otherwise the `location` would be invalid, or
/// would lead to another host than it seems to name.
pub(crate) fn redirect(
    request: &FieldSection,
    filters: &Filters,
    path: &PathMatch,
    parent: &ClusterKey,
) -> Option<(u16, Vec<u8>)> {
    let redirect = filters.redirect.as_ref()?;
    let locate = |request: &FieldSection| redirect.location(&Head(request), Scheme::Http, parent.port, path);
    // If a user names only a port, a gRPC client sends for example `:50051`. This is a valid authority, but a URI needs
    // a host.
    let is_host = |authority: &[u8]| syntax::is_authority(authority) && !authority.starts_with(b":");
    if request.get(Known::Authority).is_some_and(is_host) {
        return Some(locate(request));
    }
    let mut to_service = request.clone();
    to_service.set(Known::Authority, TargetKey::Service(parent.clone()).host().as_bytes());
    Some(locate(&to_service))
}

/// Applies the filters to a request: changes its header fields, host and path.
pub(crate) fn change(request: &mut FieldSection, filters: &Filters, path: &PathMatch) {
    if let Some(modifier) = &filters.request_headers {
        filter::modify(request, modifier);
    }
    if let Some(rewrite) = &filters.rewrite {
        filter::rewrite(request, rewrite, path);
    }
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
