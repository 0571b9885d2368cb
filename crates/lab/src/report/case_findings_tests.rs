use super::super::example::{recorded, run};
use super::*;
use crate::experiment::record::{Condition, Run};

fn at(scenario: Scenario, condition: Condition, (calls, errors, server_calls): (u64, u64, u64)) -> Run {
    let rate_per_s = Some(if condition.fault.is_chain() { 50 } else { 200 });
    let server_calls = Some(server_calls);
    Run { scenario, condition, rate_per_s, calls, errors, server_calls, ..run(TargetKind::Leno, 0, 1) }
}

#[test]
fn a_retry_storm_has_a_sentence_and_a_bound_for_each_fault() {
    let storm = |fault, policy, counts| at(Scenario::RetryStorm, Condition { fault, policy }, counts);
    let failing = Fault::Failing { percent: 50 };
    let recorded = recorded(vec![
        storm(failing, CallPolicy::Once, (500, 500, 1000)),
        storm(failing, CallPolicy::Retry, (600, 400, 1200)),
        storm(Fault::Chain, CallPolicy::RetryUnlimited, (0, 100, 2700)),
        storm(Fault::TracedChain, CallPolicy::Retry, (0, 100, 120)),
    ]);
    let findings = findings(&Results::new(&recorded), Scenario::RetryStorm);
    let wanted = "leno, servers fail 50 %: sent once, 50.0 % of the calls succeed, and the servers receive 1.00 calls for \
                  each; retries, 60.0 % of the calls succeed, and the servers receive 1.20 calls for each.";
    assert!(findings.iter().any(|finding| finding == wanted), "{findings:#?}");
    let bound = findings.iter().find(|finding| finding.contains("at most 60.0 %")).expect("a bound");
    assert!(bound.contains("87.5 %") && bound.contains("1.75 calls"), "{bound}");
    // The finding has a number although no call of the chain succeeds: it counts the calls that reach the servers.
    let chain = "retries without limit, the servers receive 27.00 calls for each.";
    assert!(findings.iter().any(|finding| finding.ends_with(chain)), "{findings:#?}");
    assert!(
        findings.iter().any(|finding| finding.contains("27 calls for each; with a budget of 20 percent each, 1.73"))
    );
    let traced = "services copy only the trace: retries, the servers receive 1.20 calls for each.";
    let bound = "only the last proxy retries. Within a budget of 20 percent, the last servers receive 1.20 calls for each; \
                 without limit, 3.";
    for end in [traced, bound] {
        assert!(findings.iter().any(|finding| finding.ends_with(end)), "{end}: {findings:#?}");
    }
}

#[test]
fn a_budget_does_not_lower_what_three_attempts_reach() {
    let bound = bound(Fault::Failing { percent: 10 }).expect("a bound");
    assert!(bound.contains("at most 99.9 %"), "{bound}");
}

#[test]
fn a_tail_is_beside_the_healthy_one_of_the_same_repeat() {
    let tail =
        |fault, policy, p999_ms, counts| Run { p999_ms, ..at(Scenario::Tail, Condition { fault, policy }, counts) };
    let slow = Fault::SlowAtTimes { percent: 1, slow_ms: 200 };
    let hedge = CallPolicy::Hedge("p95".parse().expect("a percentile"));
    let recorded = recorded(vec![
        tail(Fault::None, CallPolicy::Once, 2.0, (1000, 0, 1000)),
        tail(slow, CallPolicy::Once, 200.0, (1000, 0, 1000)),
        tail(slow, hedge, 3.0, (1000, 0, 1045)),
    ]);
    let findings = findings(&Results::new(&recorded), Scenario::Tail);
    let wanted = [
        "leno, no failures: sent once, the p99.9 is 2.00 ms.",
        "leno, 1 % of one server's calls 200 ms slower: sent once, the p99.9 is 200 ms, 100 × the healthy one; hedge p95, the \
         p99.9 is 3.00 ms, 1.50 × the healthy one, with 4.5 % further attempts.",
    ];
    assert_eq!(findings, wanted);
}

#[test]
fn scenarios_without_conditions_have_no_findings() {
    let recorded = recorded(vec![run(TargetKind::Leno, 0, 1)]);
    assert_eq!(findings(&Results::new(&recorded), Scenario::SlowPod), Vec::<String>::new());
}
