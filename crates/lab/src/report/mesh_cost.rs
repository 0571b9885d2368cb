//! Findings about the cost of a mesh in a cluster. Each mesh is compared with the same cluster without a mesh.

use crate::chart::number::significant;
use crate::experiment::record::{Run, Scenario, TargetKind};

use super::figures;
use super::group::{Group, Results};
use super::labels;
use super::ratio::ratio;
use super::spread::Estimate;
use super::statistic::Statistic;

/// Returns one sentence for each load, skew and mesh. Empty for an experiment outside of a cluster, or without runs of
/// the cluster without a mesh.
pub(super) fn findings(results: &Results, scenario: Scenario) -> Vec<String> {
    if results.experiment.cluster.is_none() {
        return Vec::new();
    }
    let meshes = results.of(scenario).filter(|group| group.target != TargetKind::Vanilla);
    meshes.filter_map(|group| finding(results, group)).collect()
}

fn finding(results: &Results, group: &Group) -> Option<String> {
    let bare = results.find(group.scenario, group.load, group.skew_ms, TargetKind::Vanilla)?;
    let loads = results.loads(group.scenario);
    let mut at = Vec::new();
    at.extend((loads.len() > 1).then(|| labels::load_among(group.load, &loads)));
    at.extend((results.skews(group.scenario).len() > 1).then(|| format!("{} ms skew", group.skew_ms)));
    let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
    let mut parts = vec![
        format!("p50 {}", added_ms(Statistic::P50.added(group, bare))),
        format!("p99 {}", added_ms(Statistic::P99.added(group, bare))),
        format!("calls/s {} ×", figures::ratio(ratio(group, bare, figures::rps))),
    ];
    let median = |figure: fn(&Run) -> Option<f64>| Some(significant(group.spread(figure)?.median));
    parts.extend(median(figures::cpu_us).map(|us| format!("{us} µs of CPU for each call in the proxies")));
    parts.extend(median(figures::loaded_mb).map(|mb| format!("{mb} MB in all proxies")));
    parts.extend(median(figures::control_plane_mb).map(|mb| format!("{mb} MB in the control plane")));
    Some(format!("{}{at}, beside no mesh: {}.", group.target.name(), parts.join(", ")))
}

/// Formats a difference of latencies: `+0.41 ms [0.30 – 0.52]`, or `≈ +0.41 ms` if the repeats cannot distinguish the
/// difference from 0.
fn added_ms(estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else { return "unknown".to_owned() };
    let sign = if estimate.value < 0.0 { "" } else { "+" };
    let value = format!("{sign}{} ms", significant(estimate.value));
    match estimate.interval {
        None => format!("{value} (too few repeats to be sure)"),
        Some(_) if estimate.may_be(0.0) => format!("≈ {value}"),
        Some((low, high)) => format!("{value} [{} – {}]", significant(low), significant(high)),
    }
}

#[cfg(test)]
#[path = "mesh_cost_tests.rs"]
mod tests;
