//! Counts of calls by method: of gRPC by its service and method, of other HTTP by the request method and the route.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leno_model::route::RouteName;
use leno_model::traffic::{GrpcCodes, Objective};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::exemplars::{Exemplar, ExemplarLines, Exemplars, Latest};
use super::histogram::{Histogram, HistogramTotals, bucket};
use super::keyed::{CountByKey, Unkeyed};
use super::labels::Labels;
use super::objective::{self, ObjectiveMetrics, ObjectiveTotals};
use super::series::Part;
use super::text::{counter, encode_count, encode_seconds};
use super::{Counter, Direction, TargetLabel};
use crate::call::record::is_failure;

/// Maximum number of outcomes that one series distinguishes.
const OUTCOMES: usize = 8;

/// Inclusive upper bounds of the buckets of times to the deadline, in milliseconds. The first bucket has the calls with
/// no time left.
const TIME_LEFT_BOUNDS_MS: [u32; 4] = [0, 10, 100, 1_000];

/// Inclusive upper bounds of the buckets of durations, in milliseconds.
const DURATION_BOUNDS_MS: [u32; 16] = [1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1_000, 2_000, 5_000, 10_000];

/// Number of buckets of durations, including the bucket above all bounds.
const DURATION_BUCKETS: usize = DURATION_BOUNDS_MS.len() + 1;

/// Histograms of the times to the deadline, one for each point of [`Measured`].
type TimesLeft = [Histogram<{ TIME_LEFT_BOUNDS_MS.len() }>; Measured::ALL.len()];

/// Label value for methods and outcomes that metrics do not name:
/// - a method without a series of its own, because the limit on series is reached;
/// - a method that no endpoint has;
/// - an outcome without a counter of its own.
const OTHER: &str = "other";

/// A method of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MethodName {
    /// A method of gRPC, in the form `package.Service/Method`.
    Grpc(Arc<str>),
    /// A method of other HTTP: the request method, and the route that the call matched.
    Http(&'static str, Option<Arc<RouteName>>),
    /// Methods without a series of their own.
    Other,
}

/// The target of the calls that a series about a method counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodTarget {
    pub direction: Direction,
    pub target: TargetLabel,
}

/// The labels of a series about a method. The series of many methods have the same target, so they share it to save
/// memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodLabels {
    pub of: Arc<MethodTarget>,
    pub name: MethodName,
}

/// The outcome of a call, as a number. A number below 100 is the gRPC status. A number from 100 to 999 is the HTTP
/// status. From 2,000 on, the number is such a status plus 2,000, and the proxy found no destination for the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MethodOutcome(u16);

/// The point of a call at which its time to the deadline is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// When the request arrived.
    Received,
    /// When the latest attempt was sent.
    Sent,
    /// When the call ended.
    Ended,
}

/// One worker's counts of calls with the same [`MethodLabels`].
#[derive(Debug, Default)]
pub struct MethodMetrics {
    /// Number of calls that began. [`MethodMetrics::ended`] then counts each call once.
    pub requests: Counter,
    /// Number of messages in gRPC requests.
    pub request_messages: Counter,
    /// Number of messages in gRPC responses.
    pub response_messages: Counter,
    cancelled: Counter,
    denied: Counter,
    outcomes: CountByKey<MethodOutcome, OUTCOMES>,
    /// The calls whose outcome has no counter in `outcomes`.
    others: Unkeyed,
    durations: Histogram<{ DURATION_BOUNDS_MS.len() }>,
    extras: OnceLock<Box<Extras>>,
}

/// Numbers that only some methods have. The other methods need no memory for them.
#[derive(Debug, Default)]
struct Extras {
    /// Times to the deadlines of calls. Empty until a call has a deadline.
    time_left: OnceLock<Box<TimesLeft>>,
    /// Exemplars of the durations.
    exemplars: Exemplars<DURATION_BUCKETS>,
    /// Counts for the method's objective. Empty until the method has an objective.
    objective: OnceLock<Box<ObjectiveMetrics>>,
}

/// Counts of calls with the same labels, summed over the workers.
#[derive(Debug, Default)]
struct MethodTotals {
    requests: u64,
    messages: [u64; 2],
    outcomes: BTreeMap<MethodOutcome, u64>,
    cancelled: u64,
    denied: u64,
    /// Numbers of successes and failures among the calls whose outcome has no counter of its own.
    other_successes: u64,
    other_failures: u64,
    durations: HistogramTotals<{ DURATION_BOUNDS_MS.len() }>,
    /// The exemplars of the durations; `None` if no call was traced.
    exemplars: Option<Box<Latest<DURATION_BUCKETS>>>,
    /// Times to the deadlines of calls; `None` if no call had a deadline.
    time_left: Option<[HistogramTotals<{ TIME_LEFT_BOUNDS_MS.len() }>; Measured::ALL.len()]>,
    /// Counts for the method's objective; `None` if the method has never had an objective.
    objective: Option<ObjectiveTotals>,
}

/// All counts by method, summed over the workers.
#[derive(Debug, Default)]
pub(super) struct MethodScrape {
    methods: Vec<(Labels, MethodTotals)>,
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grpc(name) => f.write_str(name),
            Self::Http(method, None) => f.write_str(method),
            Self::Http(method, Some(route)) => write!(f, "{method} {}.{}", route.name, route.namespace),
            Self::Other => f.write_str(OTHER),
        }
    }
}

impl MethodOutcome {
    /// The endpoint reset the stream.
    pub const RESET: Self = Self(1_000);
    /// The client cancelled the call.
    pub const CANCELLED: Self = Self(1_001);
    /// A policy denied the call.
    pub const DENIED: Self = Self(1_002);

    /// Added to the status of calls for which the proxy found no destination. These calls have failed, but an
    /// application's answer with the same status is no failure.
    const NO_DESTINATION: u16 = 2_000;

    /// Returns the outcome of a call that was answered.
    #[inline]
    pub fn answered(http_status: u16, grpc_status: Option<u8>) -> Self {
        Self(grpc_status.map_or(http_status, u16::from))
    }

    /// Returns the outcome of a call that the proxy answered because it found no destination for the call.
    pub fn without_destination(http_status: u16, grpc_status: Option<u8>) -> Self {
        Self(Self::answered(http_status, grpc_status).0.saturating_add(Self::NO_DESTINATION))
    }

    fn is_failure(self) -> bool {
        match self.0 {
            code @ 0..100 => is_failure(200, u8::try_from(code).ok()),
            status @ 100..1_000 => is_failure(status, None),
            _ => true,
        }
    }

    fn labels(self) -> [(&'static str, String); 2] {
        let status = match self.0.checked_sub(Self::NO_DESTINATION).unwrap_or(self.0) {
            code @ 0..100 => {
                let name = u8::try_from(code).ok().and_then(GrpcCodes::name);
                ("grpc_status", name.map_or_else(|| code.to_string(), str::to_owned))
            }
            status @ 100..1_000 => ("status_code", status.to_string()),
            _ => ("error", "reset".to_owned()),
        };
        [("classification", if self.is_failure() { "failure" } else { "success" }.to_owned()), status]
    }
}

impl Measured {
    const ALL: [Self; 3] = [Self::Received, Self::Sent, Self::Ended];

    fn label(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Sent => "sent",
            Self::Ended => "ended",
        }
    }
}

impl MethodMetrics {
    /// Counts the end of a call. `duration` is from the request's headers to the response's end.
    #[inline]
    pub fn ended(&self, outcome: MethodOutcome, duration: Duration) {
        // A cancelled call would have taken longer, and a denied call does not reach the method. So their durations do
        // not show how long the method takes.
        match outcome {
            MethodOutcome::CANCELLED => return self.cancelled.add(1),
            MethodOutcome::DENIED => return self.denied.add(1),
            _ => {}
        }
        if !self.outcomes.count(outcome) {
            self.others.count(outcome.is_failure());
        }
        self.durations.record(&DURATION_BOUNDS_MS, duration);
    }

    /// Records a traced call as the exemplar of its duration's bucket. Call this after [`MethodMetrics::ended`], and
    /// not for a call that its client cancelled or that a policy denied.
    pub fn traced(&self, exemplar: Exemplar) {
        let extras = self.extras.get_or_init(Box::default);
        extras.exemplars.record(bucket(&DURATION_BOUNDS_MS, exemplar.duration), exemplar);
    }

    /// Records the time `left` until a call's deadline at the point `at`.
    pub fn time_left(&self, at: Measured, left: Duration) {
        let all = self.extras.get_or_init(Box::default).time_left.get_or_init(Box::default);
        if let Some(time_left) = all.get(at as usize) {
            time_left.record(&TIME_LEFT_BOUNDS_MS, left);
        }
    }

    /// Replaces the method's objective.
    pub fn set_objective(&self, objective: Option<&Objective>) {
        if objective.is_some() || self.objective().is_some() {
            self.extras.get_or_init(Box::default).objective.get_or_init(Box::default).set(objective);
        }
    }

    /// Counts a call for the method's objective, if there is one. Must not be called for a call that its client
    /// cancelled or that a policy denied.
    #[inline]
    pub fn count_for_objective(&self, outcome: MethodOutcome, duration: Duration) {
        if let Some(objective) = self.objective() {
            objective.count(outcome.is_failure(), duration);
        }
    }

    /// Returns whether the method has an objective now.
    pub fn has_objective(&self) -> bool {
        self.objective().is_some_and(ObjectiveMetrics::is_set)
    }

    #[inline]
    fn objective(&self) -> Option<&ObjectiveMetrics> {
        self.extras.get()?.objective.get().map(Box::as_ref)
    }

    /// Returns the number of calls that have begun and not ended. Negative if calls that began in another series have
    /// ended in this series.
    pub fn in_flight(&self) -> i64 {
        let answered = self.outcomes.counts().map(|(_, count)| count).sum::<u64>() + self.outcomes.others();
        let ended = answered + self.cancelled.get() + self.denied.get();
        self.requests.get().wrapping_sub(ended).cast_signed()
    }

    /// Returns the number of ended calls that had a deadline.
    pub fn with_deadline(&self) -> u64 {
        let all = self.extras.get().and_then(|extras| extras.time_left.get());
        let ended = all.and_then(|all| all.get(Measured::Ended as usize));
        ended.map_or(0, |ended| {
            let mut totals = HistogramTotals::default();
            ended.add_to(&mut totals);
            totals.count()
        })
    }

    /// Adds these counts to `totals`. `is_held` tells whether the worker still updates the method's objective.
    fn add_to(&self, totals: &mut MethodTotals, is_held: bool) {
        totals.requests += self.requests.get();
        for (total, messages) in totals.messages.iter_mut().zip([&self.request_messages, &self.response_messages]) {
            *total += messages.get();
        }
        for (outcome, count) in self.outcomes.counts() {
            *totals.outcomes.entry(outcome).or_default() += count;
        }
        totals.cancelled += self.cancelled.get();
        totals.denied += self.denied.get();
        totals.other_successes += self.others.successes.get();
        totals.other_failures += self.others.failures.get();
        self.durations.add_to(&mut totals.durations);
        let Some(extras) = self.extras.get() else { return };
        extras.exemplars.add_to(&mut totals.exemplars);
        if let Some(own) = extras.objective.get() {
            own.add_to(totals.objective.get_or_insert_default(), is_held);
        }
        let Some(own) = extras.time_left.get() else { return };
        for (totals, own) in totals.time_left.get_or_insert_default().iter_mut().zip(own.iter()) {
            own.add_to(totals);
        }
    }
}

impl MethodLabels {
    /// Returns the labels of the series that counts all methods beyond the limit on series.
    pub(super) fn beyond_limit(&self) -> Self {
        let of = MethodTarget { direction: self.of.direction, target: TargetLabel::Other };
        Self { of: Arc::new(of), name: MethodName::Other }
    }

    fn labels(&self) -> Labels {
        let MethodTarget { direction, target } = &*self.of;
        let mut labels = vec![("direction", direction.label().to_owned())];
        target.push_names(*direction, &mut labels);
        match &self.name {
            MethodName::Grpc(path) => {
                let (service, method) = path.rsplit_once('/').unwrap_or(("", path));
                labels.push(("grpc_service", service.to_owned()));
                labels.push(("grpc_method", method.to_owned()));
            }
            MethodName::Http(method, route) => {
                labels.push(("http_method", (*method).to_owned()));
                if let Some(route) = route {
                    labels.push(("route_kind", route.kind.name().to_owned()));
                    labels.push(("route_namespace", route.namespace.to_string()));
                    labels.push(("route_name", route.name.to_string()));
                }
            }
            MethodName::Other => labels.push(("grpc_method", OTHER.to_owned())),
        }
        labels
    }
}

impl MethodScrape {
    /// Sums the workers' counts.
    pub(super) fn new(parts: Vec<Part<MethodLabels, MethodMetrics>>) -> Self {
        let mut methods = BTreeMap::<MethodLabels, MethodTotals>::new();
        for Part { labels, metrics, is_held } in parts {
            let is_shared = labels.of.target == TargetLabel::Other;
            let totals = methods.entry(labels).or_default();
            metrics.add_to(totals, is_held);
            // One series counts all calls beyond the limit on series. These calls go to Services with different
            // objectives, so this series has no objective.
            totals.objective = totals.objective.filter(|_| !is_shared);
        }
        Self { methods: methods.into_iter().map(|(labels, totals)| (labels.labels(), totals)).collect() }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        self.encode_counts(encoder)?;
        self.encode_durations(encoder)?;
        self.encode_time_left(encoder)?;
        self.encode_objectives(encoder)
    }

    /// Returns the exemplars of the durations.
    pub(super) fn exemplars(&self) -> ExemplarLines {
        let mut exemplars = Vec::new();
        for (series, (_, totals)) in self.methods.iter().enumerate() {
            for (bucket, latest) in totals.exemplars.iter().flat_map(|all| all.iter().enumerate()) {
                exemplars.extend(latest.map(|latest| (series * DURATION_BUCKETS + bucket, latest)));
            }
        }
        ExemplarLines { prefix: "leno_method_duration_seconds_bucket{", exemplars }
    }

    fn encode_counts(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut requests = counter(encoder, "leno_method_requests", "Calls that began, by method")?;
        for (labels, totals) in &self.methods {
            encode_count(requests.encode_family(labels)?, totals.requests)?;
        }
        let mut responses = counter(encoder, "leno_method_responses", "Calls that ended, by method and outcome")?;
        for (labels, totals) in &self.methods {
            for (outcome, count) in &totals.outcomes {
                let outcome = outcome.labels();
                encode_count(responses.encode_family(&(labels.clone(), outcome))?, *count)?;
            }
            for (class, error, count) in [
                ("success", OTHER, totals.other_successes),
                ("failure", OTHER, totals.other_failures),
                ("cancelled", "cancelled", totals.cancelled),
                ("denied", "denied", totals.denied),
            ] {
                if count > 0 {
                    let labels = (labels.clone(), [("classification", class), ("error", error)]);
                    encode_count(responses.encode_family(&labels)?, count)?;
                }
            }
        }
        let mut messages = counter(encoder, "leno_method_messages", "Messages of gRPC calls, by method and side")?;
        for (labels, totals) in &self.methods {
            for (side, count) in ["request", "response"].into_iter().zip(totals.messages) {
                if totals.messages.iter().any(|count| *count > 0) {
                    encode_count(messages.encode_family(&(labels.clone(), [("side", side)]))?, count)?;
                }
            }
        }
        Ok(())
    }

    fn encode_durations(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Seconds from a call's headers to its response's end, by method; without cancelled and denied calls";
        let mut metric =
            encoder.encode_descriptor("leno_method_duration_seconds", help, None, MetricType::Histogram)?;
        for (labels, totals) in &self.methods {
            encode_seconds(metric.encode_family(labels)?, &totals.durations, &DURATION_BOUNDS_MS)?;
        }
        Ok(())
    }

    fn encode_objectives(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        objective::encode(
            self.methods.iter().filter_map(|(labels, totals)| Some((labels, totals.objective.as_ref()?))),
            encoder,
        )
    }

    fn encode_time_left(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Seconds that calls had until their deadlines, when they were received, sent and ended";
        let name = "leno_method_time_left_seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, totals) in &self.methods {
            let measured = totals.time_left.iter().flat_map(|all| Measured::ALL.into_iter().zip(all));
            for (at, times) in measured {
                let labels = (labels.clone(), [("at", at.label())]);
                encode_seconds(metric.encode_family(&labels)?, times, &TIME_LEFT_BOUNDS_MS)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "method_tests.rs"]
mod tests;
