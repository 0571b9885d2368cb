//! The findings of scenarios with conditions. A condition is a fault together with a call policy. Each finding
//! describes one fault and one target.

use crate::chart::number::{NONE, significant};
use crate::experiment::record::{CallPolicy, Fault, Scenario, TargetKind};

use super::figures;
use super::group::{Group, Results};
use super::statistic::Statistic;

/// Maximum number of retries that Leno's default retry budget allows, as a fraction of the calls.
const BUDGET: f64 = 0.2;
/// Maximum number of attempts at a call, retries included.
const ATTEMPTS: i32 = 3;

/// The findings in sentences; empty for scenarios without conditions.
pub(super) fn findings(results: &Results, scenario: Scenario) -> Vec<String> {
    if !scenario.has_conditions() {
        return Vec::new();
    }
    let mut faults: Vec<Fault> = results.conditions(scenario).into_iter().map(|condition| condition.fault).collect();
    faults.dedup();
    let of_fault = |fault| {
        let mut findings: Vec<String> = results
            .targets(scenario)
            .into_iter()
            .filter_map(|target| finding(results, scenario, fault, target))
            .collect();
        findings.extend(bound(fault).filter(|_| !findings.is_empty()));
        findings
    };
    faults.into_iter().flat_map(of_fault).collect()
}

/// Describes the calls of one target under one fault in a sentence, with a part for each call policy. A part states the
/// latency, or the success and the calls that the servers receive; for a chain, only these calls. `None` if the target
/// has no run with this fault.
fn finding(results: &Results, scenario: Scenario, fault: Fault, target: TargetKind) -> Option<String> {
    let groups: Vec<&Group> =
        results.of(scenario).filter(|group| (group.condition.fault, group.target) == (fault, target)).collect();
    let parts: Vec<String> = groups.iter().filter_map(|group| part(results, group)).collect();
    (!parts.is_empty()).then(|| format!("{}, {fault}: {}.", target.name(), parts.join("; ")))
}

fn part(results: &Results, group: &Group) -> Option<String> {
    let policy = group.condition.policy;
    let attempts = group.spread_of_all(figures::attempts_per_call)?.median;
    if group.scenario == Scenario::RetryStorm {
        let attempts = format!("the servers receive {attempts:.2} calls for each");
        if group.condition.fault.is_chain() {
            return Some(format!("{policy}, {attempts}"));
        }
        let success = group.spread_of_all(figures::success_percent)?.median;
        return Some(format!("{policy}, {success:.1} % of the calls succeed, and {attempts}"));
    }
    let p999 = group.spread(figures::p999_ms).map_or_else(|| NONE.to_owned(), |spread| significant(spread.median));
    let healthy = results.healthy(group).filter(|healthy| healthy.condition != group.condition);
    let beside = healthy.and_then(|healthy| Statistic::P999.ratio(group, healthy));
    let beside = beside.map_or_else(String::new, |ratio| format!(", {} × the healthy one", significant(ratio.value)));
    let further = match policy {
        CallPolicy::Hedge(_) => format!(", with {:.1} % further attempts", (attempts - 1.0) * 100.0),
        _ => String::new(),
    };
    Some(format!("{policy}, the p99.9 is {p999} ms{beside}{further}"))
}

/// States the theoretical limits of retries against a fault: the most successes, and the most calls that the servers
/// receive. The limits are computed, not measured. `None` for faults without such limits.
fn bound(fault: Fault) -> Option<String> {
    match fault {
        Fault::None | Fault::SlowAtTimes { .. } | Fault::AllSlowAtTimes { .. } => None,
        Fault::Failing { percent } => {
            let fails = f64::from(percent) / 100.0;
            let within = (100.0 * (1.0 - fails) * (1.0 + BUDGET)).min(100.0 * (1.0 - fails.powi(ATTEMPTS)));
            let unlimited = 100.0 * (1.0 - fails.powi(ATTEMPTS));
            let attempts: f64 = (0..ATTEMPTS).map(|retries| fails.powi(retries)).sum();
            Some(format!(
                "The bound: if each attempt fails with a probability of {percent} %, retries within a budget of 20 percent \
                 bring at most {within:.1} % of the calls to success. Three attempts without limit bring {unlimited:.1} %, \
                 and the servers then receive {attempts:.2} calls for each."
            ))
        }
        Fault::Chain => Some(format!(
            "The bound: three proxies in a row that each make three attempts send the last servers {} calls for each; with \
             a budget of 20 percent each, {:.2}.",
            ATTEMPTS.pow(3),
            (1.0 + BUDGET).powi(3)
        )),
        Fault::ForwardingChain => Some(one_retrying_proxy("if the services forward the pushback")),
        Fault::TracedChain => {
            Some(one_retrying_proxy("if the proxy beside a service recognizes the trace of the service's failed call"))
        }
    }
}

/// The limit for a chain in which only the last proxy retries. `condition` is the clause that begins with "if", for
/// example "if the services forward the pushback".
fn one_retrying_proxy(condition: &str) -> String {
    format!(
        "The bound: {condition}, only the last proxy retries. Within a budget of 20 percent, the last servers receive \
         {:.2} calls for each; without limit, {ATTEMPTS}.",
        1.0 + BUDGET
    )
}

#[cfg(test)]
#[path = "case_findings_tests.rs"]
mod tests;
