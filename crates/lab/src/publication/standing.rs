//! Compares Leno with the other conditions: the report's first sentence, and the figures in which Leno is better or
//! worse.

use crate::chart::number::{grouped, significant};
use crate::experiment::record::TargetKind;
use crate::report::left_out;

use super::definition::{Better, Column, Headline, Value};
use super::figures::{Here, Measured};
use super::record::{State, StepRecord};

/// Leno's target in all publications: the mesh, because Leno is compared with other meshes.
pub(super) const LENO: TargetKind = TargetKind::LenoMesh;

/// Leno against the best other condition: one line for each figure that allows a comparison.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) ahead: Vec<String>,
    pub(super) behind: Vec<String>,
    /// The figures for which the measurement does not show whether Leno or the best other condition is better. Each
    /// line has the reason.
    pub(super) level: Vec<String>,
}

/// The result in one sentence: Leno's figure and the figure of the best other mesh. A second sentence names the meshes
/// that are left out because of failed calls.
pub(super) fn sentence(measured: &Measured) -> String {
    let Headline { begin, column } = &measured.publication().headline;
    let statistic = column.value.statistic();
    if let Some(statistic) = statistic.filter(|_| measured.has_failed(column, LENO)) {
        let percent = figure(measured.failed(column, LENO) * 100.0, "%");
        return format!(
            "{percent} of the calls through Leno failed, too many to compare the {statistic} of the answered calls."
        );
    }
    let Some(own) = measured.here(column, LENO) else {
        return format!("Leno was not measured: {}.", why_not(measured));
    };
    let left_out = left_out(statistic, &failing(measured, column));
    let own_figure = through(own, "Leno", column);
    // Omit the condition without a mesh, because it is no mesh to compare Leno with. The tables still have its row.
    let rivals = rivals(measured, column, TargetKind::is_proxy);
    let Some((best, other)) = best(column, &rivals) else {
        let why = if left_out.is_empty() { "was measured" } else { "can be compared" };
        return format!("{begin} {own_figure}; no other mesh {why}.{left_out}");
    };
    let which = match (rivals.len(), left_out.is_empty()) {
        (1, true) => "the only other mesh that was measured".to_owned(),
        (1, false) => "the only other mesh that can be compared".to_owned(),
        (count, true) => format!("the best of the {count} other meshes that were measured"),
        (count, false) => format!("the best of the {count} other meshes that can be compared"),
    };
    let other_figure = through(other, measured.publication().condition(best), column);
    if let Some(doubt) = doubt(column, own, other, &rivals) {
        format!("{begin} {own_figure} and {other_figure}, {which}; the two cannot be told apart: {doubt}.{left_out}")
    } else if better(column).is(other.mean.value, own.mean.value) {
        format!("{begin} {own_figure}, which is worse than the {other_figure}, {which}.{left_out}")
    } else {
        format!("{begin} {own_figure}, and {other_figure}, {which}.{left_out}")
    }
}

/// Formats the figure of a condition, with the condition's name. If some calls failed, the text adds that the figure
/// covers only the answered calls.
fn through(here: Here, name: &str, column: &Column) -> String {
    let answered = if here.failed > 0.0 { " (of the answered calls)" } else { "" };
    format!("{} through {name}{answered}", figure(here.mean.value, column.unit))
}

/// The names of the meshes through which too many calls failed.
fn failing(measured: &Measured, column: &Column) -> Vec<&'static str> {
    let conditions = measured.publication().conditions.iter().filter(|it| it.target.is_proxy());
    conditions.filter(|it| measured.has_failed(column, it.target)).map(|it| it.name).collect()
}

/// Compares Leno with the best other condition in each column in which a smaller or a larger figure is better.
pub(super) fn standing(measured: &Measured) -> Standing {
    let mut standing = Standing::default();
    let columns = measured.publication().tables.iter().flat_map(|table| table.columns);
    for column in columns.filter(|column| column.better.is_some()) {
        let Some(own) = fair(measured, column, LENO) else { continue };
        let rivals = rivals(measured, column, |_| true);
        let Some((best, other)) = best(column, &rivals) else { continue };
        // Skip a column in which both figures are 0: neither is better. Fractions of failed calls often are 0.
        if own.mean.value == 0.0 && other.mean.value == 0.0 {
            continue;
        }
        let name = measured.publication().condition(best);
        let [own_figure, other_figure] = [own, other].map(|it| figure(it.mean.value, column.unit));
        let line = format!("{}: Leno {own_figure}, {name} {other_figure}", column.what);
        match doubt(column, own, other, &rivals) {
            Some(doubt) => standing.level.push(format!("{line} ({doubt})")),
            None if better(column).is(own.mean.value, other.mean.value) => standing.ahead.push(line),
            None => standing.behind.push(line),
        }
    }
    standing
}

/// The conditions ordered by their measured figures in a column, the best first.
///
/// Omits a condition whose figure is the value of its worst repeat, because luck decides that value. Also omits a
/// condition if too many of its calls failed ([`Measured::has_failed`]).
pub(super) fn order_here(measured: &Measured, column: &Column) -> Vec<TargetKind> {
    let all = measured.publication().conditions.iter().map(|it| it.target);
    let figures = all.filter_map(|target| Some((target, fair(measured, column, target)?.mean.value)));
    sorted(column, figures.collect())
}

/// The conditions ordered by their published figures in a column, the best first.
pub(super) fn order_theirs(column: &Column) -> Vec<TargetKind> {
    sorted(column, column.theirs.iter().map(|(target, published)| (*target, published.value())).collect())
}

fn sorted(column: &Column, mut figures: Vec<(TargetKind, f64)>) -> Vec<TargetKind> {
    figures.sort_by(|(_, one), (_, other)| match better(column) {
        Better::Less => one.total_cmp(other),
        Better::More => other.total_cmp(one),
    });
    figures.into_iter().map(|(target, _)| target).collect()
}

fn rivals(measured: &Measured, column: &Column, fits: impl Fn(TargetKind) -> bool) -> Vec<(TargetKind, Here)> {
    let others = measured.publication().conditions.iter().map(|it| it.target);
    let others = others.filter(|&target| target != LENO && fits(target));
    others.filter_map(|target| Some((target, fair(measured, column, target)?))).collect()
}

/// The figure of a condition, if it can be compared with the figures of other conditions.
fn fair(measured: &Measured, column: &Column, target: TargetKind) -> Option<Here> {
    measured.here(column, target).filter(Here::has_place)
}

fn best(column: &Column, rivals: &[(TargetKind, Here)]) -> Option<(TargetKind, Here)> {
    rivals.iter().copied().reduce(
        |best, other| {
            if better(column).is(other.1.mean.value, best.1.mean.value) { other } else { best }
        },
    )
}

/// The reason why the measurement does not show whether Leno's figure, `own`, is better than the figure of each rival.
/// `best` is the best figure of the rivals. `None` if the measurement shows it.
fn doubt(column: &Column, own: Here, best: Here, rivals: &[(TargetKind, Here)]) -> Option<&'static str> {
    // Waiting for a CPU makes a figure worse. So if the better figure includes such waiting, it is better all the same.
    // If Leno's figure is better, each rival counts: without the waiting, any of them could be the best. A ratio or a
    // difference may also become better by such waiting, because its second figure becomes worse.
    let is_ahead = better(column).is(own.mean.value, best.mean.value);
    let rival_waited = || rivals.iter().find_map(|(_, rival)| rival.waited);
    let waited = match (column.value, is_ahead) {
        (Value::Over(..) | Value::Added(..), _) => own.waited.or_else(rival_waited),
        (Value::Mean(_) | Value::Deviation(_) | Value::Cost(..), true) => rival_waited(),
        (Value::Mean(_) | Value::Deviation(_) | Value::Cost(..), false) => own.waited,
    };
    let has_one_run = |here: Here| here.mean.plus_minus.is_none();
    if own.at_ceiling || best.at_ceiling {
        Some("the load was near its own limit")
    } else if has_one_run(own) || has_one_run(best) {
        Some("there is only one repeat")
    } else if !own.mean.differs_from(&best.mean) {
        Some("the difference is within the noise")
    } else {
        waited
    }
}

fn better(column: &Column) -> Better {
    column.better.unwrap_or(Better::Less)
}

/// Returns why Leno's figure is missing. The report's first sentence then gives this reason instead of the figure.
fn why_not(measured: &Measured) -> String {
    let parts = measured.publication().headline.column.value.parts();
    let needed = measured.description.steps.iter().find(|step| parts.iter().any(|at| at.step == step.name));
    if let Some(StepRecord { name, state: State::Failed(why), .. }) = needed {
        return format!("the experiment {name} failed: {why}");
    }
    measured.why_not(LENO)
}

/// Formats a figure with its unit.
pub(super) fn figure(value: f64, unit: &str) -> String {
    let number = number(value, unit);
    match unit {
        "/s" => format!("{number}/s"),
        unit => format!("{number}\u{a0}{unit}"),
    }
}

/// Formats a figure without its unit. Whole nodes and dollars have no decimals.
pub(super) fn number(value: f64, unit: &str) -> String {
    let is_counted = matches!(unit, "nodes" | "USD a month") && value.fract() == 0.0 && value >= 0.0;
    if is_counted { grouped(value as u64) } else { significant(value) }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
