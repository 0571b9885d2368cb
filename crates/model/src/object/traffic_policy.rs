//! A leno.dev/v1alpha1 TrafficPolicy: the time limits, retries, hedging and retry budget of some calls.
//!
//! A policy selects objects of its own namespace, as Gateway API's policies do (GEP-713). If one field is invalid, the
//! whole object is invalid, and the object's last valid version stays in force.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::call_values::{self, Fault};
use super::policy_target::{PolicyTarget, check_name, targets};
use super::route::written::Unread;
use super::{DNS_SUBDOMAIN_RULE, Identity, Object, annotations, identity, is_core, is_dns_subdomain};
use crate::balance::BudgetSettings;
use crate::manifest::Review;
use crate::problem::quoted;
use crate::spelling::closest;
use crate::traffic::status::{TargetKind, TargetRef};
use crate::traffic::{
    CallPolicy, DEFAULT_BACKOFF, GrpcCodes, HEDGES_MAX, Hedge, HedgeDelay, Mode, Objectives, PolicyKind,
    REPEATABLE_MAX, Retry, SHORTEST_IDLE, Setting, TimeLimit,
};

/// The `kind` of a TrafficPolicy.
pub(crate) const KIND: &str = "TrafficPolicy";

/// A TrafficPolicy or XBackendTrafficPolicy, reduced to the values that the mesh uses.
#[derive(Clone, Debug)]
pub struct TrafficPolicy {
    pub kind: PolicyKind,
    /// The policy's name, and where it was defined.
    pub identity: Identity,
    /// The objects that the policy selects, all in the policy's namespace.
    pub targets: Box<[PolicyTarget]>,
    /// The settings for each single call: time limits, retries and hedging.
    pub calls: CallPolicy,
    /// The limit on retries, counted over all calls to a Service.
    pub retry_budget: Option<Setting<BudgetSettings>>,
    /// The objectives for the calls to the selected Services (annotation `leno.dev/objective`).
    pub objectives: Option<Arc<Objectives>>,
    /// Remarks on fields that the mesh ignores or rounds, or that are missing. The policy's status lists these remarks.
    pub remarks: Box<[Box<str>]>,
}

/// A TrafficPolicy as its author writes it.
#[derive(Debug, Deserialize)]
#[serde(rename = "TrafficPolicy", rename_all = "camelCase")]
pub(crate) struct Written {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    // The reader ignores the next three fields. Without them here, it would report them as unknown.
    #[serde(default, rename = "apiVersion")]
    _api_version: Option<Unread>,
    #[serde(default, rename = "kind")]
    _kind: Option<Unread>,
    #[serde(default, rename = "status")]
    _status: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "TrafficPolicySpec", rename_all = "camelCase", default)]
struct Spec {
    target_refs: Vec<WrittenTarget>,
    timeouts: Option<WrittenTimeouts>,
    retry: Option<WrittenRetry>,
    hedge: Option<WrittenHedge>,
    budget: Option<WrittenBudget>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "LocalPolicyTargetReferenceWithSectionName", rename_all = "camelCase", default)]
struct WrittenTarget {
    group: String,
    kind: String,
    name: String,
    section_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "TrafficPolicyTimeouts", rename_all = "camelCase", default)]
struct WrittenTimeouts {
    mode: Option<String>,
    request: Option<String>,
    backend_request: Option<String>,
    stream_idle: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "TrafficPolicyRetry", rename_all = "camelCase", default)]
struct WrittenRetry {
    mode: Option<String>,
    grpc_codes: Option<Vec<String>>,
    http_codes: Option<Vec<u16>>,
    attempts: Option<i64>,
    backoff: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "TrafficPolicyHedge", rename_all = "camelCase", default)]
struct WrittenHedge {
    mode: Option<String>,
    delay: Option<String>,
    attempts: Option<i64>,
    methods: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "TrafficPolicyBudget", rename_all = "camelCase", default)]
struct WrittenBudget {
    mode: Option<String>,
    percent: Option<i64>,
    interval: Option<String>,
    min_per_second: Option<i64>,
}

/// Checks a TrafficPolicy and extracts what the mesh needs.
pub(crate) fn review(written: Written, review: &mut Review<'_>) -> Option<Object> {
    let identity = identity(&written.metadata, review, is_dns_subdomain, DNS_SUBDOMAIN_RULE);
    let Spec { target_refs, timeouts, retry, hedge, budget } = written.spec;
    let targets = targets(target_refs, "name a Service, an HTTPRoute or a GRPCRoute", review, target);
    let annotations = written.metadata.annotations.as_ref();
    let objectives = annotations::of_policy(annotations, &targets, review);
    let has_objective = annotations.is_some_and(|all| all.contains_key(annotations::OBJECTIVE));
    let mut reading = Reading { set_by: review.object().into(), review };
    if timeouts.is_none() && retry.is_none() && hedge.is_none() && budget.is_none() && !has_objective {
        let fix = format!("add timeouts, retry, hedge, budget or the annotation {}", annotations::OBJECTIVE);
        reading.problem("spec", "a policy that sets nothing", fix);
    }
    let not_services = |target: &PolicyTarget| target.reference.kind != TargetKind::Service;
    if let (Some(_), Some(other)) = (&budget, targets.iter().find(|target| not_services(target))) {
        let what = format!("a budget counts all calls to a Service, and a target is {}", other.reference.kind.name());
        reading.problem("spec.budget", what, "move it to a policy for the Service");
    }
    let mut calls = timeouts.map(|timeouts| reading.timeouts(&timeouts)).unwrap_or_default();
    calls.retry = retry.and_then(|retry| reading.retry(retry));
    calls.hedge = hedge.and_then(|hedge| reading.hedge(&hedge));
    let retry_budget = budget.and_then(|budget| reading.budget(&budget));
    let kind = PolicyKind::Traffic;
    let policy = TrafficPolicy { kind, identity, targets, calls, retry_budget, objectives, remarks: Box::default() };
    review.is_clean().then_some(Object::TrafficPolicy(Arc::new(policy)))
}

/// Reads a target; `None` if its kind is unknown.
fn target(field: &str, written: WrittenTarget, review: &mut Review<'_>) -> Option<TargetRef> {
    let WrittenTarget { group, kind, name, section_name } = written;
    let Some(known) = TargetKind::ALL.into_iter().find(|known| known.name() == kind) else {
        let fix = match closest(&kind, TargetKind::ALL.map(TargetKind::name)) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "use Service, HTTPRoute or GRPCRoute".to_owned(),
        };
        review.problem(&format!("{field}.kind"), format!("a policy cannot select {}", quoted(&kind)), fix);
        return None;
    };
    if group != known.group() && !(known == TargetKind::Service && is_core(&group)) {
        let what = format!("{} is not the group of a {}", quoted(&group), known.name());
        let fix = if known.group().is_empty() { "remove it".to_owned() } else { format!("use {}", known.group()) };
        review.problem(&format!("{field}.group"), what, fix);
    }
    check_name(field, "name", &name, review);
    if let Some(section) = &section_name {
        check_name(field, "sectionName", section, review);
    }
    Some(TargetRef { kind: known, name: name.into(), section_name: section_name.map(Into::into) })
}

/// Collects the problems of one policy while its fields are read.
struct Reading<'r, 'a> {
    review: &'r mut Review<'a>,
    /// The policy's kind and name.
    set_by: Arc<str>,
}

impl Reading<'_, '_> {
    fn problem(&mut self, field: &str, what: impl Into<String>, fix: impl Into<String>) {
        self.review.problem(field, what, fix);
    }

    /// Returns a valid value, or reports what is wrong with it.
    fn valid<T>(&mut self, field: &str, value: Result<T, Fault>) -> Option<T> {
        call_values::valid(field, value, self.review)
    }

    fn setting<T>(&self, value: T, mode: Mode) -> Setting<T> {
        Setting { value, mode, set_by: self.set_by.clone() }
    }

    fn mode(&mut self, part: &str, written: Option<&str>, known: &[(&str, Mode)]) -> Mode {
        let Some(text) = written else { return Mode::Enforce };
        if let Some((_, mode)) = known.iter().find(|(name, _)| *name == text) {
            return *mode;
        }
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let what = format!("{} is not a mode", quoted(text));
        self.problem(&format!("spec.{part}.mode"), what, format!("use {}", names.join(" or ")));
        Mode::Enforce
    }

    fn timeouts(&mut self, written: &WrittenTimeouts) -> CallPolicy {
        let mode = self.mode("timeouts", written.mode.as_deref(), &Mode::NAMED);
        let fields = [
            ("request", &written.request),
            ("backendRequest", &written.backend_request),
            ("streamIdle", &written.stream_idle),
        ];
        if mode == Mode::Off {
            let all = || Some(self.setting(TimeLimit::default(), mode));
            return CallPolicy {
                request_timeout: all(),
                backend_request_timeout: all(),
                stream_idle_timeout: all(),
                ..CallPolicy::default()
            };
        }
        if fields.iter().all(|(_, text)| text.is_none()) {
            self.problem("spec.timeouts", "no time limit", "add request, backendRequest or streamIdle");
        }
        let [request, backend_request, stream_idle] = fields.map(|(name, text)| {
            let text = text.as_deref()?;
            self.valid(&format!("spec.timeouts.{name}"), call_values::duration(text))
        });
        let some = |limit: Option<Duration>| limit.filter(|limit| !limit.is_zero());
        let order = call_values::check_order(some(request), some(backend_request));
        self.valid("spec.timeouts.backendRequest", order);
        if let Some(limit) = some(stream_idle).filter(|limit| *limit < SHORTEST_IDLE) {
            let what = format!("a stream that is idle for {limit:?}");
            self.problem("spec.timeouts.streamIdle", what, format!("use at least {SHORTEST_IDLE:?}"));
        }
        // As in HTTPRoutes, 0 means no limit.
        let limit = |after: Duration| self.setting(TimeLimit { after }, if after.is_zero() { Mode::Off } else { mode });
        CallPolicy {
            request_timeout: request.map(limit),
            backend_request_timeout: backend_request.map(limit),
            stream_idle_timeout: stream_idle.map(limit),
            ..CallPolicy::default()
        }
    }

    fn retry(&mut self, written: WrittenRetry) -> Option<Setting<Retry>> {
        let mode = self.mode("retry", written.mode.as_deref(), &Mode::NAMED);
        if mode == Mode::Off {
            return Some(self.setting(Retry::default(), mode));
        }
        let http_codes = call_values::http_codes(written.http_codes.unwrap_or_default());
        let http_codes = self.valid("spec.retry.httpCodes", http_codes);
        let mut grpc_codes = GrpcCodes::default();
        for (index, name) in written.grpc_codes.iter().flatten().enumerate() {
            let field = format!("spec.retry.grpcCodes[{index}]");
            match GrpcCodes::code(name) {
                Some(0) => self.problem(&field, "OK is no failure", "remove it"),
                Some(code) => grpc_codes = grpc_codes.with(code),
                None => {
                    let fix = match closest(name, GrpcCodes::names()) {
                        Some(meant) => format!("did you mean {meant}?"),
                        None => "use a name such as UNAVAILABLE".to_owned(),
                    };
                    self.problem(&field, format!("{} is not a gRPC status", quoted(name)), fix);
                }
            }
        }
        let attempts = self.valid("spec.retry.attempts", call_values::attempts(written.attempts.unwrap_or(1)));
        let backoff = match written.backoff.as_deref() {
            Some(text) => self.valid("spec.retry.backoff", call_values::duration(text).and_then(call_values::backoff)),
            None => Some(DEFAULT_BACKOFF),
        };
        let retry = Retry { http_codes: http_codes?, grpc_codes, attempts: attempts?, backoff: backoff? };
        Some(self.setting(retry, mode))
    }

    fn hedge(&mut self, written: &WrittenHedge) -> Option<Setting<Hedge>> {
        let mode = self.mode("hedge", written.mode.as_deref(), &Mode::NAMED);
        if mode == Mode::Off {
            let none = Hedge { delay: HedgeDelay::Fixed(Duration::ZERO), attempts: 1, methods: Arc::default() };
            return Some(self.setting(none, mode));
        }
        let delay = match written.delay.as_deref() {
            Some(text) => self.parsed("spec.hedge.delay", "a delay", text),
            None => {
                self.problem("spec.hedge.delay", "missing", "write a duration, or a percentile such as p95");
                None
            }
        };
        let attempts = written.attempts.unwrap_or(1);
        let valid_attempts = u8::try_from(attempts).ok().filter(|attempts| (1..=HEDGES_MAX).contains(attempts));
        if valid_attempts.is_none() {
            let what = format!("{attempts} further attempts at one call");
            self.problem("spec.hedge.attempts", what, format!("use 1 to {HEDGES_MAX}, or remove the field hedge"));
        }
        let names = written.methods.as_deref().unwrap_or_default();
        if names.is_empty() {
            let fix = "name the methods whose calls may be sent twice, as shop.v1.Cart/GetItem";
            self.problem("spec.hedge.methods", "missing", fix);
        } else if names.len() > REPEATABLE_MAX {
            let fix = format!("use at most {REPEATABLE_MAX}, or one policy for each rule of a route");
            self.problem("spec.hedge.methods", format!("{} methods", names.len()), fix);
        }
        let mut methods = Vec::new();
        for (index, name) in names.iter().enumerate() {
            methods.extend(self.parsed(&format!("spec.hedge.methods[{index}]"), "a method", name));
        }
        Some(self.setting(Hedge { delay: delay?, attempts: valid_attempts?, methods: methods.into() }, mode))
    }

    fn parsed<T: FromStr<Err: fmt::Display>>(&mut self, field: &str, noun: &str, text: &str) -> Option<T> {
        let fault = |fix: T::Err| Fault::new(format!("{} is not {noun}", quoted(text)), fix.to_string());
        self.valid(field, text.parse().map_err(fault))
    }

    fn budget(&mut self, written: &WrittenBudget) -> Option<Setting<BudgetSettings>> {
        let usual = BudgetSettings::default();
        let mode = self.mode("budget", written.mode.as_deref(), &[("Enforce", Mode::Enforce), ("Audit", Mode::Audit)]);
        let percent = written.percent.map_or(Ok(usual.percent), call_values::percent);
        let interval = written.interval.as_deref().map_or(Ok(usual.interval), call_values::budget_interval);
        let min_per_second = written.min_per_second.map_or(Ok(usual.min_per_second), call_values::min_per_second);
        let percent = self.valid("spec.budget.percent", percent);
        let interval = self.valid("spec.budget.interval", interval);
        let min_per_second = self.valid("spec.budget.minPerSecond", min_per_second);
        let budget = BudgetSettings { percent: percent?, interval: interval?, min_per_second: min_per_second? };
        Some(self.setting(budget, mode))
    }
}

#[cfg(test)]
#[path = "traffic_policy_tests.rs"]
mod tests;
