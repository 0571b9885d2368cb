use super::*;

fn part(ratio: f64, calls: f64, misses: f64) -> Part {
    let burn_rate = (calls > 0.0).then(|| misses / calls / (1.0 - ratio));
    Part { ratio, calls, misses, burn_rate }
}

#[test]
fn the_page_gets_the_cells_of_leno_stat_methods_and_both_parts() {
    let objective = Objective {
        success: Some(part(0.999, 1_000.0, 4.0)),
        latency: Some(part(0.99, 996.0, 0.0)),
        latency_ms: Some(50.0),
    };
    let shown = Shown::of(&objective);
    assert_eq!((shown.text.as_str(), shown.burn.as_deref()), ("success 99.9 %, p99 50ms", Some("4.0")));
    assert_eq!(shown.level, Some(Level::Good));
    assert_eq!(
        shown.parts,
        "success: 0.4 % of the calls miss, 0.1 % may miss; latency: 0 % of the calls miss, 1 % may miss"
    );
}

#[test]
fn an_objective_without_calls_has_no_burn_rate() {
    let objective = Objective { success: Some(part(0.99999, 0.0, 0.0)), ..Objective::default() };
    let shown = Shown::of(&objective);
    assert_eq!((shown.burn_rate, shown.burn, shown.level), (None, None, None));
    assert_eq!(shown.parts, "success: no calls, 0.001 % may miss");
}

#[test]
fn levels_begin_where_problems_and_alerts_begin() {
    let levels = [5.9, 6.0, 14.3, 14.4].map(Level::of);
    assert_eq!(levels, [Level::Good, Level::Warning, Level::Warning, Level::Error]);
}
