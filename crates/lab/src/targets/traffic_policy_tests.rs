use super::*;
use crate::experiment::condition::HedgeDelay;

#[test]
fn a_policy_names_the_service_and_the_part_that_the_condition_has() {
    assert_eq!(traffic_policy("backend", CallPolicy::Once), "");
    let retry = traffic_policy("backend", CallPolicy::Retry);
    assert!(retry.contains("- {kind: Service, name: backend}\n"), "{retry}");
    assert!(retry.ends_with("  retry: {grpcCodes: [UNAVAILABLE], attempts: 2}\n"), "{retry}");
    let unlimited = traffic_policy("backend", CallPolicy::RetryUnlimited);
    assert!(unlimited.starts_with(&retry) && unlimited.ends_with("  budget: {percent: 100, minPerSecond: 1000}\n"));
    let hedge = traffic_policy("backend", CallPolicy::Hedge(HedgeDelay::Percentile(999)));
    assert!(hedge.ends_with("  hedge: {delay: p99.9, methods: [leno.echo.v1.Echo/*]}\n"), "{hedge}");
}
