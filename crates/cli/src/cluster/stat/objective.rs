//! Computes the burn rates of methods' objectives.
//!
//! An objective allows a small share of the calls to miss it: the error budget. The burn rate measures how fast failed
//! or slow calls use up the budget. At a burn rate of 1, the budget lasts exactly for the period of the objective, such
//! as 30 days. The callers' proxies count the calls.

use std::collections::BTreeMap;

use leno_model::settings::format_duration;
use leno_model::traffic::Share;
use serde::Serialize;

use super::counts::{joined, share, sums};
use crate::cluster::scrape::Sample;
use crate::cluster::source::Growth;

/// The objective of a method.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Objective {
    /// The part about the share of calls that should succeed.
    pub(crate) success: Option<Part>,
    /// The part about the share of successful calls that should be fast.
    pub(crate) latency: Option<Part>,
    /// Maximum duration of a fast call.
    pub(crate) latency_ms: Option<f64>,
}

/// One part of an objective (success or latency), with the number of calls to which it applied within the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Part {
    /// The share of calls that should meet the objective, 0 to 1.
    pub(crate) ratio: f64,
    pub(crate) calls: f64,
    pub(crate) misses: f64,
    /// The share of calls that missed the objective, divided by the share that is allowed to miss it. `None` if there
    /// were no calls, or if the objective allows no miss.
    pub(crate) burn_rate: Option<f64>,
}

impl Part {
    /// The share of calls that missed the objective, 0 to 1; `None` if there were no calls.
    pub(crate) fn missed(&self) -> Option<f64> {
        share(self.misses, self.calls)
    }
}

impl Objective {
    /// The column headers of an objective.
    pub(crate) const HEADS: [&'static str; 2] = ["OBJECTIVE", "#BURN"];

    /// Returns, of the parts that `counts` selects, the part with the higher burn rate, and the name of this part.
    pub(crate) fn worse(&self, counts: impl Fn(&Part) -> bool) -> Option<(&'static str, &Part)> {
        let parts = [("success", self.success.as_ref()), ("latency", self.latency.as_ref())];
        let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part.filter(|part| counts(part))?)));
        parts.max_by(|(_, a), (_, b)| a.burn_rate.unwrap_or(-1.0).total_cmp(&b.burn_rate.unwrap_or(-1.0)))
    }

    /// The higher burn rate of the two parts; `None` if neither part has a burn rate.
    pub(crate) fn burn_rate(&self) -> Option<f64> {
        self.worse(|_| true).and_then(|(_, part)| part.burn_rate)
    }

    /// The objective in the form of the annotation `leno.dev/objective`.
    pub(crate) fn text(&self) -> String {
        let percent = |part: &Part| Share::of_ratio(part.ratio).to_string();
        let success = self.success.as_ref().map(|part| format!("success {} %", percent(part)));
        let latency = self.latency.as_ref().map(|part| {
            let bound = std::time::Duration::from_secs_f64(self.latency_ms.unwrap_or(0.0).max(0.0) / 1_000.0);
            format!("p{} {}", percent(part), format_duration(bound))
        });
        success.into_iter().chain(latency).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the objectives by key. `key` returns the key of a series, or `None` to ignore the series.
pub(crate) fn objectives<K: Ord>(proxies: &[Growth], key: impl Fn(&Sample) -> Option<K>) -> BTreeMap<K, Objective> {
    let of = |part: &'static str, key: &dyn Fn(&Sample) -> Option<K>, sample: &Sample| {
        (sample.label("objective") == part).then(|| key(sample)).flatten()
    };
    let counts = |name: &str, part: &'static str| {
        let pages = proxies.iter().map(|proxy| &proxy.grown);
        sums(name, pages, |sample| of(part, &key, sample))
    };
    let gauges = |name: &str, part: &'static str| {
        let pages = proxies.iter().map(|proxy| &proxy.now);
        // Take the largest value: proxies report different values only while they receive a new objective.
        joined(name, pages, |sample| of(part, &key, sample), f64::max)
    };
    let mut all = BTreeMap::<K, Objective>::new();
    for part in ["success", "latency"] {
        let calls = counts("leno_method_objective_calls_total", part);
        let misses = counts("leno_method_objective_misses_total", part);
        for (key, ratio) in gauges("leno_method_objective_ratio", part) {
            let [calls, misses] = [&calls, &misses].map(|counts| counts.get(&key).copied().unwrap_or(0.0));
            let burn_rate = share(misses, calls).filter(|_| ratio < 1.0).map(|missed| missed / (1.0 - ratio));
            let objective = all.entry(key).or_default();
            let place = if part == "success" { &mut objective.success } else { &mut objective.latency };
            *place = Some(Part { ratio, calls, misses, burn_rate });
        }
    }
    for (key, seconds) in gauges("leno_method_objective_bound_seconds", "latency") {
        if let Some(objective) = all.get_mut(&key) {
            objective.latency_ms = Some(seconds * 1_000.0);
        }
    }
    all
}

#[cfg(test)]
#[path = "objective_tests.rs"]
mod tests;
