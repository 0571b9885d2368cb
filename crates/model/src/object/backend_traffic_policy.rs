//! Reads a gateway.networking.x-k8s.io/v1alpha1 XBackendTrafficPolicy, Gateway API's experimental policy for the retry
//! budget of Services (GEP-3388).
//!
//! The object becomes a [`TrafficPolicy`] that sets only a retry budget. The values in its `retryConstraint` have the
//! same limits as those in a TrafficPolicy's `budget`. Gateway API allows larger values, but an object with such a
//! value is invalid for Leno, so its last valid version stays in force.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::call_values::{self, Fault, MIN_PER_SECOND_MAX, valid};
use super::policy_target::{check_name, targets};
use super::route::SERVICE;
use super::route::written::Unread;
use super::{DNS_SUBDOMAIN_RULE, Object, TrafficPolicy, identity, is_core, is_dns_subdomain};
use crate::balance::BudgetSettings;
use crate::manifest::Review;
use crate::problem::quoted;
use crate::spelling::closest;
use crate::traffic::status::{TargetKind, TargetRef};
use crate::traffic::{CallPolicy, PolicyKind, Setting};

/// The API group of Gateway API's experimental kinds.
pub const GROUP: &str = "gateway.networking.x-k8s.io";
pub(crate) const API_VERSION: &str = "gateway.networking.x-k8s.io/v1alpha1";
pub(crate) const KIND: &str = "XBackendTrafficPolicy";

/// The limits that Gateway API sets for `count` in a `minRetryRate`.
const RATE_COUNT: std::ops::RangeInclusive<u32> = 1..=1_000_000;
const RATE_INTERVAL_MAX: Duration = Duration::from_secs(3_600);
/// The interval of a `minRetryRate` that sets no `interval`.
const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// The fields of an XBackendTrafficPolicy, as its author writes them.
#[derive(Debug, Deserialize)]
#[serde(rename = "XBackendTrafficPolicy", rename_all = "camelCase")]
pub(crate) struct Written {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    // These fields exist only so that they are not reported as unknown.
    #[serde(default, rename = "apiVersion")]
    _api_version: Option<Unread>,
    #[serde(default, rename = "kind")]
    _kind: Option<Unread>,
    #[serde(default, rename = "status")]
    _status: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "BackendTrafficPolicySpec", rename_all = "camelCase", default)]
struct Spec {
    target_refs: Vec<WrittenTarget>,
    retry_constraint: Option<RetryConstraint>,
    session_persistence: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "LocalPolicyTargetReference", default)]
struct WrittenTarget {
    group: String,
    kind: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RetryConstraint {
    budget: Option<BudgetDetails>,
    min_retry_rate: Option<RequestRate>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BudgetDetails {
    percent: Option<i64>,
    interval: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestRate {
    count: Option<i64>,
    interval: Option<String>,
}

/// Checks an XBackendTrafficPolicy, and extracts the parts that the mesh keeps.
pub(crate) fn review(written: Written, review: &mut Review<'_>) -> Option<Object> {
    let identity = identity(&written.metadata, review, is_dns_subdomain, DNS_SUBDOMAIN_RULE);
    let Spec { target_refs, retry_constraint, session_persistence } = written.spec;
    let targets = targets(target_refs, "name a Service", review, target);
    let mut remarks: Vec<Box<str>> = Vec::new();
    if session_persistence.is_some() {
        remarks.push("sessionPersistence is not supported".into());
    }
    let retry_budget = match retry_constraint {
        Some(constraint) => {
            budget(&constraint, &mut remarks, review).map(|budget| Setting::enforced(budget, &review.object().into()))
        }
        // A missing retryConstraint is not a mistake, because Gateway API accepts such an object. If it were a mistake,
        // an author could not remove the retryConstraint: the last valid version would stay in force.
        None => {
            remarks.push("without retryConstraint, the policy has no effect".into());
            None
        }
    };
    for remark in &remarks {
        review.notice("spec", &**remark);
    }
    let policy = TrafficPolicy {
        kind: PolicyKind::BackendTraffic,
        identity,
        targets,
        calls: CallPolicy::default(),
        retry_budget,
        objectives: None,
        remarks: remarks.into(),
    };
    review.is_clean().then_some(Object::TrafficPolicy(Arc::new(policy)))
}

/// Reads a target. `None` if the target is not a Service: Leno ignores a target of another kind, such as a
/// ServiceImport, because another implementation may use it.
fn target(field: &str, written: WrittenTarget, review: &mut Review<'_>) -> Option<TargetRef> {
    let WrittenTarget { group, kind, name } = written;
    if let Some(meant) = closest(&kind, [SERVICE]).filter(|_| is_core(&group) && kind != SERVICE) {
        let what = format!("a policy cannot select {}", quoted(&kind));
        review.problem(&format!("{field}.kind"), what, format!("did you mean {meant}?"));
        return None;
    }
    if kind != SERVICE || !is_core(&group) {
        review.notice(field, "ignored: the mesh applies this policy only to Services, whose group is \"\" or core");
        return None;
    }
    check_name(field, "name", &name, review);
    Some(TargetRef { kind: TargetKind::Service, name: name.into(), section_name: None })
}

fn budget(written: &RetryConstraint, remarks: &mut Vec<Box<str>>, review: &mut Review<'_>) -> Option<BudgetSettings> {
    let usual = BudgetSettings::default();
    let (mut percent, mut interval) = (Some(usual.percent), Some(usual.interval));
    if let Some(budget) = &written.budget {
        let field = |name| format!("spec.retryConstraint.budget.{name}");
        if let Some(written) = budget.percent {
            percent = valid(&field("percent"), call_values::percent(written), review);
        }
        if let Some(text) = &budget.interval {
            interval = valid(&field("interval"), call_values::budget_interval(text), review);
        }
    }
    let min_per_second = match &written.min_retry_rate {
        Some(rate) => min_per_second(rate, usual.min_per_second, remarks, review),
        None => Some(usual.min_per_second),
    };
    Some(BudgetSettings { percent: percent?, interval: interval?, min_per_second: min_per_second? })
}

/// Converts a `minRetryRate` to whole retries per second, rounded up, because the rate is a minimum. If it were rounded
/// down, a rate of less than one retry per second would become 0, which is no minimum at all.
fn min_per_second(rate: &RequestRate, usual: u32, remarks: &mut Vec<Box<str>>, review: &mut Review<'_>) -> Option<u32> {
    const FIELD: &str = "spec.retryConstraint.minRetryRate";
    let count = match rate.count {
        Some(count) => valid(&format!("{FIELD}.count"), call_values::number(count, RATE_COUNT), review),
        None => Some(usual),
    };
    let interval = match rate.interval.as_deref() {
        Some(text) => valid(&format!("{FIELD}.interval"), rate_interval(text), review),
        None => Some(RATE_INTERVAL),
    };
    let (count, interval_ms) = (u64::from(count?), u64::try_from(interval?.as_millis()).ok()?);
    let per_second = (count * 1_000).div_ceil(interval_ms);
    let Some(per_second) = u32::try_from(per_second).ok().filter(|rate| *rate <= MIN_PER_SECOND_MAX) else {
        let fix = format!("use at most {MIN_PER_SECOND_MAX}: a lower count, or a longer interval");
        review.problem(FIELD, format!("{per_second} retries per second"), fix);
        return None;
    };
    if !(count * 1_000).is_multiple_of(interval_ms) {
        remarks.push(format!("minRetryRate is rounded up to {per_second} per second").into());
    }
    Some(per_second)
}

/// Reads the interval of a rate. The result is never zero.
fn rate_interval(text: &str) -> Result<Duration, Fault> {
    let interval = call_values::duration(text)?;
    if interval.is_zero() || interval > RATE_INTERVAL_MAX {
        return Err(Fault::new("too short or too long".to_owned(), "use 1ms to 1h"));
    }
    Ok(interval)
}

#[cfg(test)]
#[path = "backend_traffic_policy_tests.rs"]
mod tests;
