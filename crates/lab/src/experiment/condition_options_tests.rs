use super::super::cases::tests::{error_of, options};

fn conditions(words: &str) -> Vec<String> {
    let options = options(words);
    options.conditions.conditions(options.scenario).iter().map(ToString::to_string).collect()
}

#[test]
fn a_retry_storm_has_every_fault_with_every_policy_and_two_chains_with_retries_only() {
    let conditions = conditions("retry-storm --fail-percent 30");
    assert_eq!(conditions.len(), 13, "{conditions:?}");
    for wanted in [
        "sent once",
        "servers fail 30 %; retries",
        "servers fail 30 %; retries without limit",
        "chain of three proxies, the last servers fail; retries",
        "the same chain, services forward pushback; retries",
        "the same chain with sidecars, services copy only the trace; retries",
    ] {
        assert!(conditions.iter().any(|condition| condition == wanted), "{wanted}: {conditions:?}");
    }
}

#[test]
fn a_tail_has_a_healthy_run_and_one_or_all_slow_servers_with_each_hedge() {
    let wanted = [
        "sent once",
        "2 % of one server's calls 100 ms slower; sent once",
        "2 % of one server's calls 100 ms slower; hedge p99.9",
        "2 % of all servers' calls 100 ms slower; sent once",
        "2 % of all servers' calls 100 ms slower; hedge p99.9",
    ];
    assert_eq!(conditions("tail --slow-percent 2 --slow-ms 100 --hedge off,p99.9"), wanted);
    assert_eq!(conditions("tail").len(), 9);
}

#[test]
fn other_scenarios_have_only_the_hedges_that_were_given() {
    assert_eq!(conditions("slow-pod"), ["sent once"]);
    assert_eq!(conditions("slow-pod --hedge 30ms,off"), ["hedge 30ms", "sent once"]);
}

#[test]
fn options_without_effect_are_named_with_the_fix() {
    for (words, flag, fix) in [
        ("slow-pod --fail-percent 50", "--fail-percent", "leave it out"),
        ("slow-pod --slow-ms 50", "--slow-ms", "leave it out"),
        ("handshakes --hedge p95", "--hedge", "leave it out"),
        ("retry-storm --hedge p95", "--hedge", "leave it out"),
        ("slow-pod --protocol http1 --hedge p95 --targets leno", "--hedge", "leave it out"),
        ("slow-pod --hedge p95 --targets leno,envoy", "no effect on envoy", "add off"),
        ("slow-pod --hedge p95,p95 --targets leno", "--hedge", "once"),
        ("retry-storm --targets haproxy", "--targets haproxy", "leave it out"),
        ("retry-storm --skew-ms 50", "--skew-ms", "leave it out"),
        ("retry-storm --protocol http1", "--protocol http1", "leave it out"),
        ("retry-storm --rate max", "--rate max", "leave it out"),
        ("retry-storm --exchange bidi-stream", "--exchange", "leave it out"),
        ("tail --skew-ms 50", "--skew-ms", "leave it out"),
        ("tail --backends 1", "--backends 1", "use 2 or more"),
    ] {
        let error = error_of(words);
        assert!(error.contains(flag) && error.contains(fix), "{words}: {error}");
    }
}
