//! Methods: the metrics of a cluster's most used methods.
//!
//! Clients may call any name. So a gRPC method gets a series of its own only when an answer shows that the endpoint has
//! this method. The table is bounded. If it is full, each call that could give a new method a series takes one use from
//! the least used method that has no calls in flight. If that method has no uses left, the new method replaces it in
//! the table. All methods that are not in the table share one series.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::FieldSection;
use leno_http2::fields::Known;
use leno_model::http_method;
use leno_model::route::{RouteKind, RouteName};
use leno_model::traffic::{Objective, Objectives};
use rustc_hash::FxHasher;

use crate::Relay;
use crate::call::record::{Ending, is_without_destination};
use crate::call::response::status_code;
use crate::call::{Call, CallId, Response};
use crate::link::grpc::{self, Status};
use crate::metrics::{
    Class, Exemplar, Measured, MethodLabels, MethodMetrics, MethodName, MethodOutcome, MethodTarget, WorkerMetrics,
};
use crate::target::cluster::ClusterState;
use crate::target::routes::CallRoute;

/// Interval at which the numbers of uses are halved.
const HALF_LIFE: Duration = Duration::from_secs(60);
/// Number of half-lives without a call after which a method loses its series.
const MAX_QUIET: u8 = 10;
/// Longest name of a gRPC method with a series of its own, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Name of the field that marks an answer made by a proxy.
pub(crate) const PROXY_ERROR: &[u8] = b"leno-proxy-error";

/// Identifies a method within its cluster. Methods with equal tags count as one method, which only makes the metrics
/// less accurate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MethodTag(u64);

/// The state of a call in the metrics by method: whether the call is counted, and in which series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallMethod {
    /// The metrics by method do not count the call: it is a mirrored copy, an opaque connection, a tap or a kubelet's
    /// probe.
    Uncounted,
    /// The call has neither been sent nor ended yet, so it is not counted yet.
    Unknown,
    /// The method had no series when the call began.
    Unnamed(MethodTag),
    /// The method had a series, which counted the call.
    Named(MethodTag),
}

/// The methods of a cluster that have series of their own.
///
/// Invariant: `tags` and `places` have the same length, and no tag occurs twice.
#[derive(Debug, Default)]
pub(crate) struct Methods {
    tags: Vec<MethodTag>,
    places: Vec<Place>,
    /// Index of the method that was looked up last.
    latest: usize,
    /// The labels that all series of the cluster have in common: the direction and the target.
    target: Option<Arc<MethodTarget>>,
    /// The series of all other methods; `None` before their first call.
    others: Option<Arc<MethodMetrics>>,
    /// When uses are halved again; `None` before the first sweep.
    halve_at: Option<Instant>,
}

#[derive(Debug)]
struct Place {
    /// Number of recent calls, minus the calls of methods outside the table that compete for this place in it.
    uses: u32,
    /// Number of calls in flight. While it is not 0, the method keeps its place.
    open: u32,
    /// Number of half-lives without a call.
    quiet: u8,
    name: MethodName,
    metrics: Arc<MethodMetrics>,
}

impl MethodTag {
    /// Returns the tag of a call's method; `None` if its request is not stored any more.
    fn of(call: &Call) -> Option<Self> {
        let mut hasher = FxHasher::default();
        if call.is_grpc {
            hasher.write(call.request.get(Known::Path)?);
        } else {
            hasher.write(http_label(call.request.get(Known::Method)?).as_bytes());
            if let Some(route) = named_route(call) {
                hasher.write_u8(route.kind as u8);
                hasher.write(route.namespace.as_bytes());
                hasher.write(route.name.as_bytes());
            }
        }
        Some(Self(hasher.finish()))
    }
}

impl Methods {
    /// Returns the index of a method.
    #[inline]
    fn find(&mut self, tag: MethodTag) -> Option<usize> {
        if self.tags.get(self.latest) != Some(&tag) {
            self.latest = self.tags.iter().position(|of| *of == tag)?;
        }
        Some(self.latest)
    }

    /// Counts a call in the series of its method. Returns `false` if the method has no series of its own.
    #[inline]
    fn begin(&mut self, tag: MethodTag) -> bool {
        let place = self.find(tag);
        let Some(place) = place.and_then(|place| self.places.get_mut(place)) else { return false };
        place.uses = place.uses.saturating_add(1);
        place.open += 1;
        place.quiet = 0;
        place.metrics.requests.add(1);
        true
    }

    /// Returns the index in the table for a new method; `None` if the table has no room. In a full table, the new
    /// method replaces a method without recent uses and without calls in flight. If there is no such method, the least
    /// used method without calls in flight loses one use.
    fn room(&mut self, max: usize) -> Option<usize> {
        if self.places.len() < max {
            return Some(self.places.len());
        }
        let idle = self.places.iter_mut().enumerate().filter(|(_, place)| place.open == 0);
        let (weakest, place) = idle.min_by_key(|(_, place)| place.uses)?;
        let is_free = place.uses == 0;
        place.uses = place.uses.saturating_sub(1);
        is_free.then_some(weakest)
    }

    fn insert(&mut self, at: usize, tag: MethodTag, name: MethodName, metrics: Arc<MethodMetrics>) {
        let place = Place { uses: 1, open: 1, quiet: 0, name, metrics };
        match (self.tags.get_mut(at), self.places.get_mut(at)) {
            (Some(old_tag), Some(old_place)) => (*old_tag, *old_place) = (tag, place),
            _ => {
                self.tags.push(tag);
                self.places.push(place);
            }
        }
    }

    /// Replaces the objectives of all series.
    pub(crate) fn set_objectives(&self, objectives: Option<&Objectives>) {
        for place in &self.places {
            place.metrics.set_objective(objective_of(objectives, &place.name));
        }
        if let Some(others) = &self.others {
            others.set_objective(objective_of(objectives, &MethodName::Other));
        }
    }

    /// Returns the names of all methods that have series of their own.
    pub(crate) fn names(&self) -> impl Iterator<Item = &MethodName> {
        self.places.iter().map(|place| &place.name)
    }

    /// Returns the name of a call's method in the metrics.
    pub(crate) fn name_of(&self, method: CallMethod) -> &MethodName {
        let place = match method {
            CallMethod::Named(tag) => self.tags.iter().position(|of| *of == tag),
            CallMethod::Uncounted | CallMethod::Unknown | CallMethod::Unnamed(_) => None,
        };
        place.and_then(|place| self.places.get(place)).map_or(&MethodName::Other, |place| &place.name)
    }

    /// Halves the numbers of uses once per half-life, and removes methods that are no longer called.
    pub(crate) fn sweep(&mut self, now: Instant) {
        if self.places.is_empty() || now < *self.halve_at.get_or_insert(now + HALF_LIFE) {
            return;
        }
        self.halve_at = Some(now + HALF_LIFE);
        for place in &mut self.places {
            place.uses /= 2;
            // Prometheus misses the first counts of a new series. So a method with an objective keeps its series even
            // without calls.
            let is_kept = place.open > 0 || place.metrics.has_objective();
            place.quiet = if is_kept { 0 } else { place.quiet + 1 };
        }
        let mut quiet = self.places.iter().map(|place| place.quiet >= MAX_QUIET).collect::<Vec<_>>().into_iter();
        self.tags.retain(|_| !quiet.next().unwrap_or_default());
        self.places.retain(|place| place.quiet < MAX_QUIET);
    }
}

impl ClusterState {
    /// Counts a call that is sent for the first time, or that ends without being sent. `max` is the limit of methods with a series of their own.
    #[inline]
    pub(crate) fn begin_method(&mut self, call: &mut Call, metrics: &WorkerMetrics, max: usize) {
        if call.method != CallMethod::Unknown {
            return;
        }
        let Some(tag) = MethodTag::of(call) else { return };
        if self.methods.begin(tag) {
            call.method = CallMethod::Named(tag);
        } else if call.is_grpc {
            call.method = CallMethod::Unnamed(tag);
        } else {
            // The names of HTTP request methods and of routes are fixed, so clients cannot create new names. No answer
            // has to prove that the method exists.
            let method = http_label(call.request.get(Known::Method).unwrap_or_default());
            self.name_method(
                call,
                tag,
                MethodName::Http(method, named_route(call).map(|route| Arc::new(route.clone()))),
                metrics,
                max,
            );
        }
    }

    /// Gives the gRPC method of a call a series of its own, if this response shows that the endpoint has the method.
    #[cold]
    pub(crate) fn learn_method(&mut self, call: &mut Call, fields: &FieldSection, metrics: &WorkerMetrics, max: usize) {
        // Servers answer with these statuses even to calls of a method that they do not have.
        const OF_ANY_NAME: [Status; 3] = [Status::Unimplemented, Status::Unauthenticated, Status::PermissionDenied];
        let CallMethod::Unnamed(tag) = call.method else { return };
        // Proxies and gateways also answer calls of methods that the server does not have.
        let is_of_the_server = grpc::is_grpc(fields) && !fields.iter().any(|field| field.name == PROXY_ERROR);
        let status = grpc::status(fields);
        if !call.is_grpc
            || !is_of_the_server
            || status_code(fields) != 200
            || OF_ANY_NAME.iter().any(|&of| status == Some(of as u8))
        {
            return;
        }
        // The answer to another call may have given the method its series in the meantime.
        if self.methods.begin(tag) {
            call.method = CallMethod::Named(tag);
            return;
        }
        if let Some(name) = call.request.get(Known::Path).and_then(grpc_name) {
            let name = MethodName::Grpc(name.into());
            self.name_method(call, tag, name, metrics, max);
        }
    }

    /// Gives a method a series of its own, if there is room in the table. `call` is the first call that the series
    /// counts.
    fn name_method(&mut self, call: &mut Call, tag: MethodTag, name: MethodName, metrics: &WorkerMetrics, max: usize) {
        call.method = CallMethod::Unnamed(tag);
        // Callers may call any port number, so a port that metrics do not name gets no series for its methods.
        if !self.is_named() {
            return;
        }
        let Some(place) = self.methods.room(max) else { return };
        let series = self.new_series(&name, metrics);
        series.requests.add(1);
        self.methods.insert(place, tag, name, series);
        call.method = CallMethod::Named(tag);
    }

    /// Counts the messages of a call that have begun since they were last counted.
    fn count_messages(&mut self, call: &mut Call, metrics: &WorkerMetrics) {
        let (CallMethod::Unnamed(tag) | CallMethod::Named(tag)) = call.method else { return };
        let series = self.method_series(Some(tag), metrics);
        series.request_messages.add(call.request_messages.take_new().into());
        series.response_messages.add(call.response_messages.take_new().into());
    }

    /// Counts the end of a call.
    pub(crate) fn method_ended(
        &mut self,
        call: &mut Call,
        ending: Ending,
        (class, grpc_status): (Class, Option<u8>),
        now: Instant,
        metrics: &WorkerMetrics,
    ) {
        let Some(series) = self.series_at_end(call, metrics) else { return };
        if !matches!(call.method, CallMethod::Named(_)) {
            series.requests.add(1);
        }
        let outcome = match (class, ending) {
            (Class::Cancelled, _) => MethodOutcome::CANCELLED,
            (Class::Denied, _) => MethodOutcome::DENIED,
            (_, Ending::Broken) => MethodOutcome::RESET,
            (_, Ending::ProxyError { why, .. }) if is_without_destination(why) => {
                MethodOutcome::without_destination(call.http_status, grpc_status)
            }
            _ => MethodOutcome::answered(call.http_status, grpc_status),
        };
        let duration = call.latency(now);
        series.ended(outcome, duration);
        series.request_messages.add(call.request_messages.take_new().into());
        series.response_messages.add(call.response_messages.take_new().into());
        if let Some(deadline) = call.deadline {
            let (whole, left) =
                (deadline.saturating_duration_since(call.started), deadline.saturating_duration_since(now));
            series.time_left(Measured::Received, whole);
            // The timer of the client or of the server may have fired a moment before ours.
            series.time_left(Measured::Ended, if ending.has_expired() { Duration::ZERO } else { left });
            if let Some(sent) = call.attempts.latest_sent_at() {
                series.time_left(Measured::Sent, deadline.saturating_duration_since(sent));
            }
        }
        if matches!(class, Class::Success | Class::Failure) {
            series.count_for_objective(outcome, duration);
        }
        self.release_method(call.method);
    }

    /// Records a traced call that has ended as an exemplar of its method. Call this after
    /// [`ClusterState::method_ended`].
    #[cold]
    pub(crate) fn method_traced(&mut self, call: &Call, exemplar: Exemplar, metrics: &WorkerMetrics) {
        if let Some(series) = self.series_at_end(call, metrics) {
            series.traced(exemplar);
        }
    }

    /// Returns the series that counts the end of a call; `None` if the metrics by method do not count the call.
    #[inline]
    fn series_at_end(&mut self, call: &Call, metrics: &WorkerMetrics) -> Option<&MethodMetrics> {
        let tag = match call.method {
            CallMethod::Uncounted => return None,
            // `begin_method` gives every call a tag, unless the request is not stored any more.
            CallMethod::Unknown => MethodTag::of(call),
            CallMethod::Unnamed(_) => None,
            CallMethod::Named(tag) => Some(tag),
        };
        Some(self.method_series(tag, metrics))
    }

    /// Subtracts an ended call from its method's number of calls in flight.
    fn release_method(&mut self, method: CallMethod) {
        let CallMethod::Named(tag) = method else { return };
        if let Some(place) = self.methods.find(tag).and_then(|place| self.methods.places.get_mut(place)) {
            place.open = place.open.saturating_sub(1);
        }
    }

    /// Returns the series of a method. Methods without a series of their own share one series.
    #[inline]
    fn method_series(&mut self, tag: Option<MethodTag>, metrics: &WorkerMetrics) -> &MethodMetrics {
        let place = tag.and_then(|tag| self.methods.find(tag));
        if place.is_none() && self.methods.others.is_none() {
            self.methods.others = Some(self.new_series(&MethodName::Other, metrics));
        }
        let own = place.and_then(|place| self.methods.places.get(place)).map(|place| &place.metrics);
        own.unwrap_or_else(|| self.methods.others.get_or_insert_default())
    }

    /// Returns the series of a method that is not in the table, with the method's objective. The series may have had
    /// another objective when the method was in the table before.
    #[cold]
    fn new_series(&mut self, name: &MethodName, metrics: &WorkerMetrics) -> Arc<MethodMetrics> {
        let series = metrics.method(&self.method_labels(name.clone()));
        series.set_objective(objective_of(self.cluster.objectives.as_deref(), name));
        series
    }

    fn method_labels(&mut self, name: MethodName) -> MethodLabels {
        let (direction, target) = (self.target.direction(), self.label());
        let of = self.methods.target.get_or_insert_with(|| Arc::new(MethodTarget { direction, target })).clone();
        MethodLabels { of, name }
    }
}

impl Call {
    /// Returns whether the response may give the method of the call a series of its own.
    pub(crate) fn may_be_named(&self) -> bool {
        matches!(self.method, CallMethod::Unnamed(_)) && self.is_grpc && self.response == Response::Awaited
    }
}

impl Relay {
    /// Counts the new messages of all streams, so that the metrics of a long stream grow before the stream ends.
    pub(crate) fn count_messages_of_streams(&mut self) {
        let is_stream = |call: &Call| [call.request_messages, call.response_messages].iter().any(|of| of.begun() > 1);
        let has_new = |call: &Call| call.request_messages.has_new() || call.response_messages.has_new();
        let streams = self.calls.iter().filter(|(_, call)| is_stream(call) && has_new(call)).map(|(id, _)| id);
        for id in streams.collect::<Vec<_>>() {
            self.count_messages(id);
        }
    }

    /// Counts the new messages of a call.
    #[cold]
    pub(crate) fn count_messages(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(id) else { return };
        if let Some(cluster) = self.targets.get_mut(call.cluster) {
            cluster.count_messages(call, &self.metrics);
        }
    }
}

/// Returns the route that a call matched; `None` if only the policy of its Service applies.
fn named_route(call: &Call) -> Option<&RouteName> {
    call.route.as_ref().map(CallRoute::name).filter(|name| name.kind != RouteKind::Service)
}

/// Returns the objective of a method.
fn objective_of<'a>(objectives: Option<&'a Objectives>, name: &MethodName) -> Option<&'a Objective> {
    match name {
        MethodName::Grpc(name) => objectives?.of(true, format!("/{name}").as_bytes()),
        MethodName::Http(method, _) => objectives?.of(false, method.as_bytes()),
        MethodName::Other => objectives?.of_others(),
    }
}

/// Returns the name of a gRPC method without the first slash, if it may be a label.
fn grpc_name(path: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(path).ok()?.strip_prefix('/')?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let has_both = name.split_once('/').is_some_and(|(service, _)| !service.is_empty()) && !name.ends_with('/');
    let is_name = name.len() <= MAX_NAME_BYTES && has_both && name.bytes().all(is_plain);
    is_name.then_some(name)
}

/// Returns the label of a request method.
fn http_label(method: &[u8]) -> &'static str {
    http_method::known(method).unwrap_or("other")
}

#[cfg(test)]
#[path = "methods_tests.rs"]
mod tests;
