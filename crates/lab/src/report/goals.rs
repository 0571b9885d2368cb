//! Leno's goals, and their results: reached, missed or undecided.

use std::cmp::Ordering;

use crate::experiment::record::{CallPolicy, Fault, Scenario, TargetKind};

use super::figures;
use super::group::{Group, Load, Results};
use super::judge::{Finding, Limit, Verdict, sure_text};
use super::mesh_goals;
use super::ratio::ratio;
use super::spread::Estimate;
use super::statistic::Statistic;

/// A goal for more connections can be reached only if the uncertainty of its ratio is at most this fraction.
///
/// The ratio is the figure divided by the figure over the fewest connections; its uncertainty is half of the 95 %
/// interval. A larger uncertainty could hide a difference.
const FLAT_PLUS_MINUS: f64 = 0.2;

/// A goal and its result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Goal {
    pub(super) name: String,
    pub(super) load: Load,
    pub(super) verdict: Verdict,
    /// The figure that decides the goal, with its uncertainty. Also states the skew or the number of connections of its
    /// runs.
    pub(super) figure: String,
}

/// Leno's goals in `scenario`, as a single proxy and as a mesh.
///
/// Empty if the scenario was not measured, or if the experiment used a user's workload: the goals assume the lab's own
/// servers.
pub(super) fn goals(results: &Results, scenario: Scenario) -> Vec<Goal> {
    if results.experiment.workload.is_some() {
        return Vec::new();
    }
    let mut goals = of_target(results, scenario, TargetKind::Leno);
    let mut of_mesh = of_target(results, scenario, TargetKind::LenoMesh);
    of_mesh.extend(mesh_goals::goals(results, scenario));
    for goal in &mut of_mesh {
        goal.name.insert_str(0, "mesh: ");
    }
    goals.append(&mut of_mesh);
    goals
}

/// The goals of `target`, which must be [`TargetKind::Leno`] or [`TargetKind::LenoMesh`]. They are the same for both.
fn of_target(results: &Results, scenario: Scenario, target: TargetKind) -> Vec<Goal> {
    if scenario == Scenario::Connections {
        return flat_over_connections(results, target);
    }
    let mut goals = Vec::new();
    for load in results.loads(scenario) {
        let groups: Vec<&Group> =
            results.of(scenario).filter(|group| group.target == target && group.load == load).collect();
        let mut add = |name: &str, findings: Vec<Finding>| goals.extend(worst(name, load, findings));
        let skewed = || groups.iter().copied().filter(|group| group.skew_ms > 0);
        let each = |limit: Limit, estimate: fn(&Group) -> Option<Estimate>| -> Vec<Finding> {
            groups.iter().map(|group| limit.judge(estimate(group), group)).collect()
        };
        let share = |group: &Group| Some(group.spread(figures::share_percent)?.estimate());
        match scenario {
            Scenario::SlowPod => {
                let tail = |group: &Group| {
                    Limit::RatioAtMost(1.1).judge_latency(results.healthy(group), group, Statistic::P99)
                };
                add("p99 at every skew ≤ 1.10 × healthy", skewed().map(tail).collect());
                let shares = skewed().map(|group| Limit::PercentAtMost(0.5).judge(share(group), group));
                add("calls to the slow pod ≤ 0.5 %", shares.collect());
                let rate =
                    |group: &Group| Limit::RatioAtLeast(0.95).judge_beside(results.healthy(group), group, figures::rps);
                add("calls/s at every skew ≥ 0.95 × healthy", skewed().map(rate).collect());
                add("sd of p50 over repeats ≤ 5 %", groups.iter().map(|group| deviation(group)).collect());
            }
            Scenario::FastFail => add("calls to the failing pod ≤ 0.5 %", each(Limit::PercentAtMost(0.5), share)),
            Scenario::Recover => {
                let after = |group: &Group| Some(group.spread_of_all(figures::recovered_s)?.estimate());
                add("fair share again ≤ 5 s", each(Limit::SecondsAtMost(5.0), after));
            }
            Scenario::Tail => {
                let hedged = || groups.iter().copied().filter(|it| matches!(it.condition.policy, CallPolicy::Hedge(_)));
                let tail = |group: &Group| {
                    Limit::RatioAtMost(1.5).judge_latency(results.healthy(group), group, Statistic::P999)
                };
                // Judge only the hedging delay with the best result. A delay is a fixed time or a percentile of the
                // latencies. If that percentile lies among the slow calls, the delay is as long as a slow call, and the
                // hedge cannot help.
                for fault in faults(&groups) {
                    let tails = hedged().filter(|group| group.condition.fault == fault).map(tail);
                    if let Some(best) = tails.min_by(order) {
                        add(&format!("hedged p99.9 ≤ 1.50 × healthy, {fault}"), vec![best]);
                    }
                }
                let further = |group: &Group| Some(group.spread(figures::further_attempts_percent)?.estimate());
                let attempts = hedged().map(|group| Limit::PercentAtMost(5.0).judge(further(group), group));
                add("further attempts of hedges ≤ 5 %", attempts.collect());
            }
            Scenario::RetryStorm => {
                // A retry budget of 20 percent allows 1.20 attempts for each call. In a chain without protection, the
                // budgets of three proxies multiply: 1.20³ = 1.73. Each goal allows a little more, because some calls
                // are in flight at the start and at the end of the run.
                let attempts = |group: &Group| Some(group.spread_of_all(figures::attempts_per_call)?.estimate());
                let under = |name: &str, fault: fn(Fault) -> bool, limit: f64| {
                    let is_of =
                        |group: &&Group| group.condition.policy == CallPolicy::Retry && fault(group.condition.fault);
                    let judge = |group: &Group| Limit::RatioAtMost(limit).judge(attempts(group), group);
                    (name.to_owned(), groups.iter().copied().filter(is_of).map(judge).collect::<Vec<_>>())
                };
                for (name, findings) in [
                    under("calls at failing servers ≤ 1.25 × calls", |it| matches!(it, Fault::Failing { .. }), 1.25),
                    under("calls at the end of a chain ≤ 1.80 × calls", |it| it == Fault::Chain, 1.8),
                    under(
                        "calls at the end of a forwarding chain ≤ 1.30 × calls",
                        |it| it == Fault::ForwardingChain,
                        1.3,
                    ),
                    under("calls at the end of a traced chain ≤ 1.30 × calls", |it| it == Fault::TracedChain, 1.3),
                ] {
                    add(&name, findings);
                }
            }
            Scenario::Memory => {
                let kept = |group: &Group| Some(group.spread(figures::kept)?.estimate());
                add("memory after ≤ 1.10 × before", each(Limit::RatioAtMost(1.1), kept));
            }
            _ => {}
        }
    }
    goals
}

/// Judges the standard deviation of the p50 over the repeats.
fn deviation(group: &Group) -> Finding {
    let judge = || Limit::PercentAtMost(5.0).judge(sd_percent(group), group);
    Statistic::P50.why_not([group]).map_or_else(judge, Finding::unknown)
}

fn sd_percent(group: &Group) -> Option<Estimate> {
    let sd = group.spread(figures::p50_ms)?.relative_sd()?;
    let percent = |(least, most)| (least * 100.0, most * 100.0);
    Some(Estimate { value: sd.value * 100.0, interval: sd.interval.map(percent), ..sd })
}

/// Creates a goal whose result is the worst of `findings`. `None` if there are no findings.
pub(super) fn worst(name: &str, load: Load, findings: Vec<Finding>) -> Option<Goal> {
    let Finding { verdict, text: figure, .. } = findings.into_iter().max_by(order)?;
    Some(Goal { name: name.to_owned(), load, verdict, figure })
}

/// Orders findings from the best to the worst: first by verdict, then by badness.
fn order(a: &Finding, b: &Finding) -> Ordering {
    a.verdict.cmp(&b.verdict).then(a.badness.total_cmp(&b.badness))
}

/// The faults of the groups, each once.
fn faults(groups: &[&Group]) -> Vec<Fault> {
    let mut faults: Vec<Fault> = groups.iter().map(|group| group.condition.fault).collect();
    faults.dedup();
    faults
}

/// Returns the goals that p50 and p99 stay the same with more connections. Such a goal is reached if the percentile's
/// median stays within the range that the repeats have over the fewest connections.
fn flat_over_connections(results: &Results, target: TargetKind) -> Vec<Goal> {
    let scenario = Scenario::Connections;
    let groups: Vec<&Group> = results.of(scenario).filter(|group| group.target == target).collect();
    let mut goals = Vec::new();
    for skew_ms in results.skews(scenario) {
        // The groups are in ascending order of connections, so the first group has the fewest connections.
        let mut of_skew = groups.iter().filter(|group| group.skew_ms == skew_ms);
        let Some(fewest) = of_skew.next() else { continue };
        let more: Vec<&&Group> = of_skew.filter(|group| group.load.rate_per_s == fewest.load.rate_per_s).collect();
        for statistic in [Statistic::P50, Statistic::P99] {
            let findings = more.iter().map(|group| flat(group, fewest, statistic)).collect();
            let name = format!("{statistic} the same with more connections, skew {skew_ms} ms");
            goals.extend(worst(&name, fewest.load, findings));
        }
    }
    goals
}

/// Judges whether the median of a statistic lies within the range that the repeats of `fewest` span.
fn flat(group: &Group, fewest: &Group, statistic: Statistic) -> Finding {
    if let Some(why) = statistic.why_not([group, fewest]) {
        return Finding::unknown(why);
    }
    let figure = statistic.figure();
    let spreads = group.spread(figure).zip(fewest.spread(figure));
    let Some(((spread, base), ratio)) = spreads.zip(ratio(group, fewest, figure)) else {
        return Finding::unknown("nothing was measured".to_owned());
    };
    let within = (base.min..=base.max).contains(&spread.median);
    let sure = ratio.plus_minus().is_some_and(|part| part <= FLAT_PLUS_MINUS);
    let verdict = match (within, ratio.may_be(1.0)) {
        (true, _) if sure => Verdict::Reached,
        (false, false) => Verdict::Missed,
        _ => Verdict::CannotTell,
    };
    let figure = sure_text(&ratio, "×", true);
    let (many, few) = (group.load.connections, fewest.load.connections);
    Finding { verdict, badness: (ratio.value - 1.0).abs(), text: format!("{figure}, {many} beside {few}") }
}

#[cfg(test)]
#[path = "goals_tests.rs"]
mod tests;
