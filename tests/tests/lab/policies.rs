//! Retries and hedges of Leno's proxy, as the servers see them.

use super::*;

#[test]
fn retries_within_the_budget_and_without_one_are_told_apart_at_the_servers() {
    let out = new_dir();
    let words = "retry-storm --targets leno --rate 100 --duration-s 1 --warm-up-s 0 --repeat 1";
    let runs = run_well(words, out.path());
    assert_eq!(runs.len(), 13, "{}", experiment(out.path())["skipped"]);
    for run in &runs {
        let sent = number(run, "calls") + number(run, "errors");
        let (succeeded, arrived) = (number(run, "calls") / sent, number(run, "server_calls") / sent);
        // A new retry budget allows 100 retries at once. Without a chain of services, a run of one second needs fewer
        // retries, so the budget does not limit them. The servers begin to count a little later than the load
        // generator, so they may count fewer calls.
        let (fault, policy) = (&run["condition"]["fault"], run["condition"]["policy"].as_str());
        let is_sent_once = policy.is_none_or(|policy| policy == "once");
        let (success, arrivals) = match fault.as_str() {
            Some("forwarding-chain" | "traced-chain") => (0.0..=0.0, 1.5..=3.3),
            Some("chain") if is_sent_once => (0.0..=0.0, 0.7..=1.1),
            Some("chain") => (0.0..=0.0, 3.3..=28.0),
            None if fault.is_object() && is_sent_once => (0.25..=0.75, 0.8..=1.05),
            None if fault.is_object() => (0.6..=1.0, 1.3..=2.2),
            _ => (1.0..=1.0, 0.8..=1.05),
        };
        assert!(success.contains(&succeeded) && arrivals.contains(&arrived), "{run}");
        assert!(number(run, "proxy_cpu_us_per_call") >= 0.0, "{run}");
    }
    let summary = fs::read_to_string(out.path().join("summary.md")).expect("a report");
    assert!(summary.contains("at most 60.0 %"), "{summary}");
}

#[test]
fn a_hedge_is_a_further_attempt_at_the_servers() {
    let out = new_dir();
    let words =
        "tail --hedge off,10ms --slow-percent 5 --slow-ms 100 --rate 400 --duration-s 1 --warm-up-s 0 --repeat 1";
    let runs = run_well(words, out.path());
    assert_eq!(runs.len(), 5, "{}", experiment(out.path())["skipped"]);
    for run in &runs {
        assert_eq!(number(run, "errors"), 0.0, "{run}");
        let further = number(run, "server_calls") / number(run, "calls") - 1.0;
        let is_hedged = run["condition"]["policy"]["hedge"] == "10ms";
        let with_all_slow = run["condition"]["fault"]["all-slow-at-times"].is_object();
        // If all servers are slow at times, about 20 of 400 calls are slow, and some of them are hedged. If only one
        // server is slow, the balancer avoids it, so possibly no call is hedged.
        let least = if is_hedged && with_all_slow { 0.005 } else { -0.05 };
        let most = if is_hedged { 0.25 } else { 0.05 };
        assert!((least..=most).contains(&further), "{run}");
    }
    let report = fs::read_to_string(out.path().join("report.html")).expect("a report");
    assert!(report.contains("hedge 10ms"), "no case is named");
}
