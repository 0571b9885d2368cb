//! The names that the lab's runs have in other tools.

use crate::experiment::record::Run;
use crate::report;

/// Names the target and the case of a run. Repeats have the same label.
pub(super) fn label(run: &Run) -> String {
    let Run { scenario, target, skew_ms, .. } = run;
    let condition = if run.condition.is_usual() { String::new() } else { format!("{}, ", run.condition) };
    format!("{scenario} {target}, {condition}skew {skew_ms} ms, {}", report::load(run))
}

/// The name of a run's files, without extension: letters, digits and hyphens, at most 96 bytes, as Fortio demands. The
/// names sort by case, target and repeat.
pub(super) fn file_stem(run: &Run) -> String {
    let Run { scenario, target, skew_ms, connections, concurrency, rate_per_s, repeat, .. } = run;
    let rate = rate_per_s.map_or_else(|| "max".to_owned(), |rate| rate.to_string());
    let condition = if run.condition.is_usual() { String::new() } else { format!("{}-", run.condition.short_name()) };
    format!("{scenario}-{target}-{condition}skew{skew_ms}ms-c{connections}-n{concurrency}-rate{rate}-r{repeat:04}")
}

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;
