//! Writes and reads the parts of a call policy as facts (metadata that only Leno reads). The retry budget and the
//! objectives are in a Cluster, the other parts in a Route.
//!
//! Each part has its own facts. Two of them are the object that sets the part ([`SET_BY`]) and the part's mode
//! ([`MODE`]).
//!
//! A newer control plane may write a part in a form that the proxy does not know. If the part is a retry policy, a
//! hedging policy or objectives, the proxy leaves the part out. An error would reject the whole resource, and all calls
//! to a Service would fail in a proxy that has no earlier version of the resource. A retry budget in an unknown form
//! allows no retry: without the budget, the default budget would apply, which may allow more retries.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use leno_model::balance::BudgetSettings;
use leno_model::traffic::{
    BACKOFF_MAX, CallPolicy, GrpcCodes, HEDGES_MAX, Hedge, LONGEST_LIMIT, Mode, Objectives, REPEATABLE_MAX,
    RETRIES_MAX, Repeatable, Retry, SHORTEST_IDLE, Setting, TimeLimit,
};

use crate::facts::{
    BACKEND_TIMEOUT, BUDGET, BUDGET_INTERVAL, BUDGET_MIN_PER_SECOND, Facts, HEDGE, HEDGE_DELAY, HEDGE_METHODS,
    IDLE_TIMEOUT, MODE, OBJECTIVE, REQUEST_TIMEOUT, RETRIES, RETRY_BACKOFF, RETRY_GRPC_CODES, RETRY_HTTP_CODES, SET_BY,
};

use crate::pb::cluster::circuit_breakers::thresholds::RetryBudget;
use crate::pb::types;
use crate::proto::uint32;

/// An error: the name of an invalid fact, and what is wrong with its value.
type Fault = (&'static str, String);

/// Adds the facts of a policy.
pub(crate) fn with_policy(facts: Facts, policy: &CallPolicy) -> Facts {
    let limits = [
        (REQUEST_TIMEOUT, &policy.request_timeout),
        (BACKEND_TIMEOUT, &policy.backend_request_timeout),
        (IDLE_TIMEOUT, &policy.stream_idle_timeout),
    ];
    let facts = limits.into_iter().fold(facts, |facts, (name, limit)| {
        with_setting(facts, name, limit.as_ref(), |facts, limit| facts.with(name, &limit.after.as_millis()))
    });
    let facts = with_setting(facts, RETRIES, policy.retry.as_ref(), |facts, retry| {
        facts
            .with(RETRIES, &retry.attempts)
            .with(RETRY_BACKOFF, &retry.backoff.as_millis())
            .with(RETRY_HTTP_CODES, &listed(retry.http_codes.iter()))
            .with(RETRY_GRPC_CODES, &listed(retry.grpc_codes.iter().map(|(code, _)| code)))
    });
    with_setting(facts, HEDGE, policy.hedge.as_ref(), |facts, hedge| {
        facts
            .with(HEDGE, &hedge.attempts)
            .with(HEDGE_DELAY, &hedge.delay)
            .with(HEDGE_METHODS, &listed(hedge.methods.iter()))
    })
}

/// Adds the facts of a retry budget, if there is one.
pub(crate) fn with_budget(facts: Facts, budget: Option<&Setting<BudgetSettings>>) -> Facts {
    with_setting(facts, BUDGET, budget, |facts, budget| {
        facts
            .with(BUDGET, &budget.percent)
            .with(BUDGET_INTERVAL, &budget.interval.as_millis())
            .with(BUDGET_MIN_PER_SECOND, &budget.min_per_second)
    })
}

/// Converts a retry budget to Envoy's form. Leno limits the retries of an interval to a percentage of the calls of this
/// interval; Envoy limits the retries in flight to a percentage of the requests in flight. The two limits are equal if
/// retries take as long as other requests. With `budget_interval`, Envoy would limit the retries in flight to a
/// percentage of all requests of the interval, which allows far more retries.
///
/// If `min_retry_concurrency` is missing, Envoy always allows 3 retries in flight. Leno's minimum is a number of
/// retries per second. Only a minimum of zero can be converted to a number in flight, so this function omits any other
/// minimum.
pub(crate) fn envoy_budget(budget: &BudgetSettings) -> RetryBudget {
    RetryBudget {
        budget_percent: Some(types::Percent { value: budget.percent.into() }),
        min_retry_concurrency: (budget.min_per_second == 0).then(|| uint32(0)),
        budget_interval: None,
    }
}

/// Adds the facts of objectives, if there are any.
pub(crate) fn with_objectives(facts: Facts, objectives: Option<&Objectives>) -> Facts {
    match objectives {
        Some(objectives) => facts.with(OBJECTIVE, objectives).with(format!("{OBJECTIVE}{SET_BY}"), &*objectives.set_by),
        None => facts,
    }
}

fn with_setting<T>(facts: Facts, name: &str, part: Option<&Setting<T>>, add: impl Fn(Facts, &T) -> Facts) -> Facts {
    let Some(Setting { value, mode, set_by }) = part else { return facts };
    let facts = add(facts, value).with(format!("{name}{SET_BY}"), set_by);
    if *mode == Mode::Enforce { facts } else { facts.with(format!("{name}{MODE}"), mode.name()) }
}

/// Reads the call policy of one rule of the route object `route`. If the facts name no object that set a part, the
/// result names `route`.
pub(crate) fn policy(facts: &Facts, route: &str) -> Result<CallPolicy, Fault> {
    let limit = |name| {
        let after = milliseconds(facts, name)?.map(|after| after.min(LONGEST_LIMIT));
        Ok(after.map(|after| setting(facts, name, TimeLimit { after }, route)))
    };
    let idle = limit(IDLE_TIMEOUT)?;
    if idle.as_ref().is_some_and(|limit| limit.value.after < SHORTEST_IDLE) {
        return Err((IDLE_TIMEOUT, format!("is less than {SHORTEST_IDLE:?}")));
    }
    Ok(CallPolicy {
        request_timeout: limit(REQUEST_TIMEOUT)?,
        backend_request_timeout: limit(BACKEND_TIMEOUT)?,
        stream_idle_timeout: idle,
        retry: retry(facts).map(|retry| setting(facts, RETRIES, retry, route)),
        hedge: hedge(facts).map(|hedge| setting(facts, HEDGE, hedge, route)),
    })
}

/// Reads the retry budget of a cluster; `None` if there is none. A budget that cannot be read allows no retry.
pub(crate) fn budget(facts: &Facts, cluster: &str) -> Option<Setting<BudgetSettings>> {
    facts.get(BUDGET)?;
    let read = || {
        Some(BudgetSettings {
            percent: number(facts, BUDGET, 0..=100)?,
            interval: milliseconds(facts, BUDGET_INTERVAL).ok()?.unwrap_or_default(),
            min_per_second: number(facts, BUDGET_MIN_PER_SECOND, 0..=u32::MAX)?,
        })
    };
    let no_retry = BudgetSettings { percent: 0, min_per_second: 0, ..BudgetSettings::default() };
    Some(setting(facts, BUDGET, read().unwrap_or(no_retry), cluster))
}

/// Reads the objectives of a cluster; `None` if there are none, or if they cannot be read.
pub(crate) fn objectives(facts: &Facts, cluster: &str) -> Option<Arc<Objectives>> {
    let set_by = facts.get(&format!("{OBJECTIVE}{SET_BY}")).unwrap_or(cluster).into();
    Objectives::read(facts.get(OBJECTIVE)?, set_by).ok().map(Arc::new)
}

fn setting<T>(facts: &Facts, name: &str, value: T, otherwise: &str) -> Setting<T> {
    // A newer control plane may write a mode that this proxy does not know. A part in an unknown mode must not affect
    // calls, so read the mode as `Audit`.
    let is_audit = facts.get(&format!("{name}{MODE}")).is_some_and(|mode| mode != Mode::Enforce.name());
    let set_by: Arc<str> = facts.get(&format!("{name}{SET_BY}")).unwrap_or(otherwise).into();
    Setting { value, mode: if is_audit { Mode::Audit } else { Mode::Enforce }, set_by }
}

/// Reads the conditions for retries; `None` if there are none, or if they cannot be read. Lowers values above the
/// proxy's limits to the limits.
fn retry(facts: &Facts) -> Option<Retry> {
    let mut http_codes: Vec<u16> = list(facts, RETRY_HTTP_CODES)?;
    http_codes.sort_unstable();
    let grpc_codes: Vec<u8> = list(facts, RETRY_GRPC_CODES)?;
    let attempts = attempts(facts, RETRIES, RETRIES_MAX)?;
    let backoff = milliseconds(facts, RETRY_BACKOFF).ok()??;
    Some(Retry {
        attempts,
        backoff: backoff.min(BACKOFF_MAX),
        http_codes: http_codes.into(),
        grpc_codes: grpc_codes.into_iter().fold(GrpcCodes::default(), GrpcCodes::with),
    })
}

/// Reads the conditions for hedging; `None` if there are none, or if they cannot be read. Lowers the number of hedges
/// to the proxy's limit.
fn hedge(facts: &Facts) -> Option<Hedge> {
    let methods: Vec<Repeatable> = list(facts, HEDGE_METHODS)?;
    let attempts = attempts(facts, HEDGE, HEDGES_MAX)?;
    let delay = facts.get(HEDGE_DELAY)?.parse().ok()?;
    (methods.len() <= REPEATABLE_MAX).then(|| Hedge { attempts, delay, methods: methods.into() })
}

/// Reads a number of further attempts, which is at least 1, and lowers it to `max`.
fn attempts(facts: &Facts, name: &str, max: u8) -> Option<u8> {
    let attempts: u32 = number(facts, name, 1..=u32::MAX)?;
    Some(u8::try_from(attempts).map_or(max, |attempts| attempts.min(max)))
}

/// Lists values, separated by commas.
fn listed(values: impl Iterator<Item = impl ToString>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}

/// Reads values that are separated by commas; `None` if one of them cannot be read.
fn list<T: FromStr>(facts: &Facts, name: &str) -> Option<Vec<T>> {
    let texts = facts.get(name).unwrap_or_default().split(',').filter(|text| !text.is_empty());
    texts.map(|text| text.parse().ok()).collect()
}

fn milliseconds(facts: &Facts, name: &'static str) -> Result<Option<Duration>, Fault> {
    let number = facts.get(name).map(str::parse).transpose();
    Ok(number.map_err(|_| (name, "is no number".to_owned()))?.map(Duration::from_millis))
}

fn number<T: FromStr + PartialOrd>(facts: &Facts, name: &str, allowed: RangeInclusive<T>) -> Option<T> {
    facts.get(name)?.parse::<T>().ok().filter(|number| allowed.contains(number))
}
