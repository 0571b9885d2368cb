use clap::Parser;

use super::*;
use crate::experiment::record::TargetKind;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// Parses the options of `leno lab run` followed by these words.
pub(in crate::experiment) fn options(words: &str) -> Options {
    let line = Line::try_parse_from(["run"].into_iter().chain(words.split(' ')));
    line.unwrap_or_else(|error| panic!("{words}: {error}")).options
}

pub(in crate::experiment) fn error_of(words: &str) -> String {
    let error = options(words).settings().expect_err(words).to_string();
    assert!(!error.contains('\n'), "more than one line: {error}");
    error
}

fn cases(words: &str) -> Vec<Case> {
    options(words).settings().unwrap_or_else(|error| panic!("{words}: {error}")).cases
}

#[test]
fn every_skew_meets_every_number_of_connections_and_every_rate() {
    let cases = cases("slow-pod --skew-ms 0,50 --connections 1,4 --rate max,2000");
    assert_eq!(cases.len(), 8);
    let condition = Condition::default();
    let closed = Case { skew_ms: 50, connections: 4, concurrency: 200, rate_per_s: None, condition };
    let open = Case { skew_ms: 0, connections: 1, concurrency: 1000, rate_per_s: Some(2000), condition };
    assert!(cases.contains(&closed) && cases.contains(&open), "{cases:?}");
}

#[test]
fn every_scenario_runs_without_options() {
    for (scenario, count) in [
        ("slow-pod", 3),
        ("connections", 4),
        ("fast-fail", 1),
        ("recover", 1),
        ("memory", 1),
        ("tcp", 1),
        ("handshakes", 1),
        ("ladder", 4),
        ("capacity", 1),
        ("crowd", 1),
        ("footprint", 1),
        ("steady", 1),
        ("rollout", 1),
        ("streams", 1),
        ("methods", 2),
        ("graph", 2),
        ("retry-storm", 13),
        ("tail", 9),
    ] {
        assert_eq!(cases(scenario).len(), count, "{scenario}");
    }
}

#[test]
fn memory_leaves_out_the_targets_without_a_proxy_unless_they_are_asked_for() {
    let settings = options("memory").settings().expect("it can be");
    assert_eq!(settings.targets, [TargetKind::Leno, TargetKind::Haproxy, TargetKind::Envoy]);
    let error = error_of("memory --targets leno,l4");
    assert!(error.contains("--targets l4 has no proxy"), "{error}");
}

#[test]
fn http1_has_one_request_at_a_time_on_each_connection_and_in_an_open_loop_more_may_wait() {
    let closed = cases("slow-pod --protocol http1 --skew-ms 0");
    assert_eq!((closed[0].connections, closed[0].concurrency), (200, 200));
    let open = cases("slow-pod --protocol http1 --skew-ms 0 --connections 10 --rate 100");
    assert_eq!((open[0].connections, open[0].concurrency), (10, 1000));
}

#[test]
fn scenarios_without_calls_have_the_targets_that_speak_tls_and_what_to_compare_them_with() {
    use TargetKind::{Direct, EnvoyMesh, HaproxyMesh, LenoMesh, Tunnel};
    let targets = |words| options(words).settings().expect("it can be").targets;
    assert_eq!(targets("tcp"), [Direct, LenoMesh, HaproxyMesh, EnvoyMesh, Tunnel]);
    assert_eq!(targets("handshakes"), [LenoMesh, HaproxyMesh, EnvoyMesh, Tunnel]);
}

#[test]
fn impossible_options_are_named_with_the_fix() {
    for (words, flag, fix) in [
        ("fast-fail --skew-ms 50", "--skew-ms", "leave it out"),
        ("recover --skew-ms 0,50", "--skew-ms 0", "use 10 or more"),
        ("recover --duration-s 9", "--duration-s 9", "use 10 or more"),
        ("memory --rate max", "--rate", "leave it out"),
        ("memory --concurrency 20000", "--concurrency", "leave it out"),
        ("memory --duration-s 20", "--duration-s", "leave it out"),
        ("slow-pod --connections 8 --concurrency 4", "--concurrency 4", "--concurrency 8"),
        ("tcp --rate max", "--rate", "leave it out"),
        ("handshakes --skew-ms 0", "--skew-ms", "leave it out"),
        ("handshakes --targets leno", "--targets leno", "leave it out"),
        ("slow-pod --targets tunnel", "--targets tunnel", "leave it out"),
        ("slow-pod --protocol http1 --concurrency 10", "--concurrency", "use --connections"),
        ("memory --protocol http1", "--protocol http1", "leave it out"),
        ("memory --protocol http2", "--protocol http2", "leave it out"),
        ("footprint --protocol http1", "--protocol http1", "leave it out"),
        ("graph --protocol http2", "--protocol http2", "leave it out"),
        ("capacity --rate 100", "--rate", "leave it out"),
        ("crowd --max-p99-ms 10", "--max-p99-ms", "leave it out"),
        ("footprint --targets l4", "--targets l4", "leave l4 out in footprint"),
        ("steady --warm-up-s 3", "--warm-up-s", "leave it out"),
        ("steady --warm-up-rate half", "--warm-up-rate", "leave it out"),
        ("steady --duration-s 9", "--duration-s 9", "use 10 or more"),
        ("rollout --duration-s 9", "--duration-s 9", "use 10 or more"),
        ("rollout --protocol http1", "--protocol http1", "leave it out"),
        ("streams --exchange unary", "--exchange unary", "use bidi-stream"),
        ("methods --rate max", "--rate max", "leave it out"),
        ("graph --targets l4", "--targets l4", "leave it out"),
        ("graph --depth 5 --fan-out 3", "121 services", "at most 40"),
        ("graph --backends 3", "--backends", "leave it out"),
        ("slow-pod --depth 3", "--depth", "leave it out"),
        ("slow-pod --targets leno,leno", "--targets", "once"),
        ("slow-pod --skew-ms 50,0,50", "--skew-ms", "once"),
    ] {
        let error = error_of(words);
        assert!(error.contains(flag) && error.contains(fix), "{words}: {error}");
    }
}

#[test]
fn a_rate_is_a_number_or_max() {
    assert_eq!(options("slow-pod --rate 1,max").rate, Some(vec![Rate::PerSecond(1), Rate::Max]));
    for wrong in ["0", "fast", "-1", "1000001", ""] {
        let line = Line::try_parse_from(["run", "slow-pod", &format!("--rate={wrong}")]);
        assert!(line.is_err(), "{wrong}");
    }
}

#[test]
fn in_an_open_loop_most_connections_may_be_idle() {
    let crowd = cases("crowd");
    let condition = Condition::default();
    assert_eq!(crowd, [Case { skew_ms: 0, connections: 10_000, concurrency: 1000, rate_per_s: Some(1000), condition }]);
    let ladder = cases("ladder");
    assert_eq!(ladder.iter().map(|case| case.rate_per_s).collect::<Vec<_>>(), [100, 500, 1000, 5000].map(Some));
    assert_eq!(options("ladder").settings().expect("it can be").backends, 10);
}

#[test]
fn a_chain_has_a_quarter_of_the_rate() {
    for case in cases("retry-storm --rate 400") {
        let rate = if case.condition.fault.is_chain() { 100 } else { 400 };
        assert_eq!(case.rate_per_s, Some(rate), "{case:?}");
    }
}
