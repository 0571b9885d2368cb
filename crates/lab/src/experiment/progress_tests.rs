use super::*;
use crate::experiment::record::TargetKind;
use crate::report::example;

fn run(scenario: Scenario) -> Run {
    Run {
        scenario,
        calls: 1000,
        rps: 12_345.0,
        min_ms: Some(0.5),
        mean_ms: Some(1.6),
        std_dev_ms: Some(0.4),
        p50_ms: 1.5,
        p90_ms: 2.0,
        p99_ms: 3.25,
        p999_ms: 4.0,
        max_ms: 5.0,
        curve: Vec::new(),
        slow_share: 0.004,
        proxy_cpu_us_per_call: Some(9.5),
        proxy_rss_peak_bytes: Some(20_000_000),
        proxy_rss_after_bytes: Some(6_000_000),
        proxy_rss_before_bytes: Some(5_000_000),
        ..example::run(TargetKind::Leno, 50, 2)
    }
}

fn has_all(line: &str, words: &[&str]) -> bool {
    words.iter().all(|word| line.contains(word))
}

#[test]
fn a_line_has_the_figures_that_the_scenario_is_about() {
    let slow_pod = line(&run(Scenario::SlowPod));
    assert!(has_all(&slow_pod, &["leno", "50 ms", "12345 calls/s", "1.50", "3.25", "0.40 %", "9.5 us"]), "{slow_pod}");
    let memory = line(&run(Scenario::Memory));
    assert!(has_all(&memory, &["5.0 MB before", "20.0 MB at most", "6.0 MB after"]), "{memory}");
    assert!(line(&run(Scenario::Recover)).contains("fair share after never"));
    let recovered = Run { recovered_after_s: Some(1.2), ..run(Scenario::Recover) };
    assert!(line(&recovered).contains("fair share after 1.2 s"));
}

#[test]
fn what_makes_a_figure_worth_less_is_said_and_nothing_when_all_is_well() {
    let doubtful = Run { errors: 3, late: 4, foreign_cpu: 0.52, at_ceiling: true, ..run(Scenario::SlowPod) };
    let doubtful = line(&doubtful);
    assert!(has_all(&doubtful, &["3 errors", "4 sent late", "0.5 CPU", "near the ceiling"]), "{doubtful}");
    let well = line(&run(Scenario::SlowPod));
    assert!(
        !well.contains("errors") && !well.contains("late") && !well.contains("others") && !well.contains("ceiling"),
        "{well}"
    );
}
