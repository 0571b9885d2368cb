//! Where Leno stands: the report's first sentence, and the figures in which Leno is ahead or behind.

use crate::chart::number::{grouped, significant};
use crate::experiment::record::TargetKind;

use super::definition::{Better, Column, Headline};
use super::figures::{Here, Measured};
use super::record::{State, StepRecord};

/// Leno's target in all publications: the mesh, because Leno is compared with other meshes.
pub(super) const LENO: TargetKind = TargetKind::LenoMesh;

/// Every figure in which Leno can be compared, one line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) ahead: Vec<String>,
    pub(super) behind: Vec<String>,
    /// The figures in which the repeats cannot distinguish Leno from the best other condition.
    pub(super) level: Vec<String>,
}

/// The result in one sentence: Leno's figure and the figure of the best other mesh.
pub(super) fn sentence(measured: &Measured) -> String {
    let Headline { begin, column } = &measured.publication().headline;
    let Some(own) = measured.here(column, LENO) else {
        return format!("Leno was not measured: {}.", why_not(measured));
    };
    let own_figure = figure(own.mean.value, column.unit);
    // Leave out the condition without a mesh: it is no rival of a mesh. It has a row in every table.
    let rivals = rivals(measured, column, TargetKind::is_proxy);
    let Some((best, other)) = best(column, &rivals) else {
        return format!("{begin} {own_figure} through Leno; no other mesh was measured.");
    };
    let name = measured.publication().condition(best);
    let which = match rivals.len() {
        1 => "the only other mesh that was measured".to_owned(),
        count => format!("the best of the {count} other meshes that were measured"),
    };
    let other_figure = figure(other.mean.value, column.unit);
    if cannot_tell(own, other) {
        let doubt = "the repeats cannot tell the two apart";
        format!("{begin} {own_figure} through Leno and {other_figure} through {name}, {which}; {doubt}.")
    } else if better(column).is(other.mean.value, own.mean.value) {
        format!("{begin} {own_figure} through Leno, which is worse than the {other_figure} through {name}, {which}.")
    } else {
        format!("{begin} {own_figure} through Leno, and {other_figure} through {name}, {which}.")
    }
}

/// Compares Leno with the best other condition, in each figure for which either less or more is better.
pub(super) fn standing(measured: &Measured) -> Standing {
    let mut standing = Standing::default();
    let columns = measured.publication().tables.iter().flat_map(|table| table.columns);
    for column in columns.filter(|column| column.better.is_some()) {
        let Some(own) = measured.here(column, LENO) else { continue };
        let rivals = rivals(measured, column, |_| true);
        let Some((best, other)) = best(column, &rivals) else { continue };
        // Two shares of failed calls that are both 0 need no line.
        if own.mean.value == 0.0 && other.mean.value == 0.0 {
            continue;
        }
        let name = measured.publication().condition(best);
        let [own_figure, other_figure] = [own, other].map(|it| figure(it.mean.value, column.unit));
        let line = format!("{}: Leno {own_figure}, {name} {other_figure}", column.what);
        let list = match better(column) {
            _ if cannot_tell(own, other) => &mut standing.level,
            better if better.is(own.mean.value, other.mean.value) => &mut standing.ahead,
            _ => &mut standing.behind,
        };
        list.push(line);
    }
    standing
}

/// The measured conditions in the order of a column, the best first. Conditions whose figure luck decides are left out.
pub(super) fn order_here(measured: &Measured, column: &Column) -> Vec<TargetKind> {
    let all = measured.publication().conditions.iter().map(|it| it.target);
    let figures = all.filter_map(|target| Some((target, fair(measured, column, target)?.mean.value)));
    sorted(column, figures.collect())
}

/// The conditions in the order of a column's published figures, the best first.
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

/// The figure of a condition, unless luck decides it.
fn fair(measured: &Measured, column: &Column, target: TargetKind) -> Option<Here> {
    measured.here(column, target).filter(|here| !here.is_worst)
}

fn best(column: &Column, rivals: &[(TargetKind, Here)]) -> Option<(TargetKind, Here)> {
    rivals.iter().copied().reduce(
        |best, other| {
            if better(column).is(other.1.mean.value, best.1.mean.value) { other } else { best }
        },
    )
}

/// Whether the repeats cannot tell two figures apart.
fn cannot_tell(one: Here, other: Here) -> bool {
    one.mean.value == other.mean.value || one.mean.gap(&other.mean).is_some_and(|gap| gap.may_be_zero())
}

fn better(column: &Column) -> Better {
    column.better.unwrap_or(Better::Less)
}

/// The reason why Leno has no figure in the headline.
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
