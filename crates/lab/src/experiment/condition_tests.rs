use super::*;

#[test]
fn a_hedge_has_a_percentile_or_a_duration_and_reads_as_it_was_written() {
    for text in ["p50", "p95", "p99", "p99.9", "1ms", "30ms", "60000ms"] {
        assert_eq!(text.parse::<HedgeDelay>().map(|delay| delay.to_string()), Ok(text.to_owned()));
    }
    assert_eq!("p99.9".parse(), Ok(HedgeDelay::Percentile(999)));
    assert_eq!(parse_hedge("off"), Ok(CallPolicy::Once));
    for wrong in ["p49", "p100", "p9", "p95.", "p95.25", "p+5", "30", "0ms", "60001ms", "1s", ""] {
        let why = wrong.parse::<HedgeDelay>().expect_err(wrong);
        assert!(why.contains("is not a delay; write"), "{why}");
    }
}

#[test]
fn a_record_of_a_condition_can_be_read_again() {
    for condition in [
        Condition::default(),
        Condition { fault: Fault::Failing { percent: 50 }, policy: CallPolicy::RetryUnlimited },
        Condition { fault: Fault::TracedChain, policy: CallPolicy::Retry },
        Condition {
            fault: Fault::SlowAtTimes { percent: 1, slow_ms: 200 },
            policy: CallPolicy::Hedge(HedgeDelay::Percentile(999)),
        },
    ] {
        let text = serde_json::to_string(&condition).expect("JSON");
        assert_eq!(serde_json::from_str::<Condition>(&text).ok(), Some(condition), "{text}");
    }
}

#[test]
fn each_target_runs_only_under_conditions_that_it_can_act_on() {
    let fits = |fault, policy, target| Condition { fault, policy }.fits(target);
    let hedge = CallPolicy::Hedge(HedgeDelay::Ms(30));
    assert!(fits(Fault::None, CallPolicy::Once, TargetKind::Haproxy));
    assert!(!fits(Fault::None, CallPolicy::Retry, TargetKind::Haproxy));
    assert!(fits(Fault::Chain, CallPolicy::Retry, TargetKind::Envoy));
    assert!(!fits(Fault::None, hedge, TargetKind::Envoy));
    assert!(fits(Fault::None, hedge, TargetKind::LenoMesh));
    for chain in [Fault::ForwardingChain, Fault::TracedChain] {
        assert!(!fits(chain, CallPolicy::Retry, TargetKind::Envoy), "Envoy has no such protection: {chain}");
        assert!(fits(chain, CallPolicy::Retry, TargetKind::Leno), "{chain}");
        assert!(fits(chain, CallPolicy::Retry, TargetKind::LenoMesh), "{chain}");
    }
}
