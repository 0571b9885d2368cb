//! The tables of a publication as text cells, which every output format uses.

use crate::chart::number::{NONE, significant};
use crate::experiment::record::TargetKind;

use super::definition::{Column, Published, Table};
use super::figures::{Here, Measured};
use super::standing::{LENO, number, order_here, order_theirs};

/// A table. Every row has a cell for each column.
#[derive(Debug, PartialEq)]
pub(super) struct Sheet {
    pub(super) title: &'static str,
    pub(super) columns: Vec<Head>,
    pub(super) rows: Vec<Row>,
    /// Sentences, one for each column that has published figures: the conditions ordered by the measured and by the
    /// published figures.
    pub(super) orders: Vec<String>,
    /// The reference condition of the ratios in brackets; `None` if no figure has brackets.
    pub(super) base: Option<&'static str>,
}

/// The head of a column.
#[derive(Debug, PartialEq)]
pub(super) struct Head {
    pub(super) name: String,
    /// Whether the column has published figures. Such a column has three parts: `here`, `theirs` and `ratio`.
    pub(super) has_theirs: bool,
}

/// The row of a condition.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) target: TargetKind,
    pub(super) is_leno: bool,
    /// The reason why the condition has no measured run, and a remedy if there is one. `None` if it has a measured run.
    pub(super) why_not: Option<String>,
    pub(super) cells: Vec<Cell>,
}

/// The figures of one condition in one column.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Cell {
    pub(super) here: Text,
    pub(super) theirs: Text,
    /// The measured figure divided by the published figure. [`NONE`] if a figure is missing, or if too many calls failed.
    pub(super) ratio: String,
}

/// A figure in text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Text {
    pub(super) figure: String,
    /// Half of the width of the 95 % confidence interval; empty if there is no interval.
    pub(super) plus_minus: String,
    /// The figure divided by the figure of the base condition; empty if there is no such ratio, or if too many calls of
    /// one of the two conditions failed. Either both figures were measured here, or both were published.
    pub(super) relative: String,
}

/// Makes all tables.
pub(super) fn sheets(measured: &Measured) -> Vec<Sheet> {
    measured.publication().tables.iter().map(|table| sheet(measured, table)).collect()
}

fn sheet(measured: &Measured, table: &Table) -> Sheet {
    let publication = measured.publication();
    let mut columns: Vec<Head> = table
        .columns
        .iter()
        .map(|column| Head { name: column.name.to_owned(), has_theirs: !column.theirs.is_empty() })
        .collect();
    let is_scorecard = table.columns.iter().any(|column| column.green.is_some());
    columns.extend(is_scorecard.then(|| Head { name: "all green".to_owned(), has_theirs: false }));
    let row = |target: TargetKind, name| {
        let mut cells: Vec<Cell> = table.columns.iter().map(|column| cell(measured, table, column, target)).collect();
        cells.extend(
            is_scorecard.then(|| Cell { here: Text::plain(all_green(measured, table, target)), ..Cell::default() }),
        );
        Row { name, target, is_leno: target == LENO, why_not: why_not(measured, target), cells }
    };
    let rows: Vec<Row> = publication.conditions.iter().map(|it| row(it.target, it.name)).collect();
    let has_brackets = rows.iter().flat_map(|row| &row.cells).any(Cell::has_brackets);
    Sheet {
        title: table.title,
        columns,
        rows,
        orders: table.columns.iter().filter_map(|column| orders(measured, column)).collect(),
        base: has_brackets.then(|| publication.condition(table.base)),
    }
}

fn cell(measured: &Measured, table: &Table, column: &Column, target: TargetKind) -> Cell {
    let (here, theirs) = (measured.here(column, target), column.published(target));
    // The figures of a scorecard are ratios already, so they get no ratio in brackets. A figure of 0 or less gets none
    // either, such as a difference or a fraction of failed calls.
    let has_base = column.green.is_none() && target != table.base;
    let base = measured.here(column, table.base).filter(|base| has_base && base.has_place() && base.mean.value > 0.0);
    let their_base = column.published(table.base).filter(|base| has_base && base.is_exact());
    let relative = |value: f64, base: Option<f64>| {
        base.filter(|_| value > 0.0).map_or_else(String::new, |base| format!("{}×", significant(value / base)))
    };
    let mark = |value: f64| match (column.green, column.better) {
        (Some(limit), Some(better)) if better.is(limit, value) => " ✕",
        (Some(_), Some(_)) => " ✓",
        _ => "",
    };
    let here_text = here.map_or_else(Text::none, |here| {
        let Here { mean, is_worst, has_failed, .. } = here;
        let failing = if has_failed { "failing " } else { "" };
        let worst = if is_worst { "worst " } else { "" };
        let mark = if has_failed { "" } else { mark(mean.value) };
        Text {
            figure: format!("{failing}{worst}{}{mark}", number(mean.value, column.unit)),
            plus_minus: mean.plus_minus.map_or_else(String::new, |half| format!("± {}", significant(half))),
            relative: relative(mean.value, base.filter(|_| here.has_place()).map(|base| base.mean.value)),
        }
    });
    let their_text = theirs.map_or_else(Text::none, |published| {
        let exact = their_base.map(Published::value).filter(|_| published.is_exact());
        Text {
            figure: published.text() + mark(published.value()),
            plus_minus: String::new(),
            relative: relative(published.value(), exact),
        }
    });
    let ratio = here.zip(theirs).filter(|(here, _)| here.mean.value >= 0.0 && !here.has_failed).map_or_else(
        || NONE.to_owned(),
        |(here, published)| {
            let below = if published.is_exact() { "" } else { "< " };
            format!("{below}{}", significant(here.mean.value / published.value()))
        },
    );
    Cell { here: here_text, theirs: their_text, ratio }
}

/// The last cell of a scorecard's row: whether all figures of a condition reach their thresholds for green marks.
/// [`NONE`] if one of these figures is missing, or if too many calls failed.
fn all_green(measured: &Measured, table: &Table, target: TargetKind) -> String {
    let mut is_green = true;
    for column in table.columns {
        let (Some(limit), Some(better)) = (column.green, column.better) else { continue };
        let here = measured.here(column, target).filter(|here| !here.has_failed);
        let Some(here) = here else { return NONE.to_owned() };
        is_green &= !better.is(limit, here.mean.value);
    }
    if is_green { "yes ✓" } else { "no ✕" }.to_owned()
}

/// Returns a sentence that lists the conditions twice: ordered by the measured figures of a column, and ordered by its
/// published figures. The figures come from different machines, so only orders and ratios can be compared.
fn orders(measured: &Measured, column: &Column) -> Option<String> {
    let (here, theirs) = (order_here(measured, column), order_theirs(column));
    if theirs.is_empty() || here.is_empty() {
        return None;
    }
    let names = |order: Vec<TargetKind>| {
        let names: Vec<&str> = order.into_iter().map(|target| measured.publication().condition(target)).collect();
        names.join(", ")
    };
    Some(format!("{}, best first. Here: {}. Published: {}.", column.what, names(here), names(theirs)))
}

/// The reason why a condition has no measured run; `None` if it has one.
fn why_not(measured: &Measured, target: TargetKind) -> Option<String> {
    let mut all = measured.steps.iter().flat_map(|(_, recorded)| &recorded.runs);
    if all.any(|run| run.target == target) {
        return None;
    }
    Some(measured.why_not(target))
}

impl Cell {
    fn has_brackets(&self) -> bool {
        !self.here.relative.is_empty() || !self.theirs.relative.is_empty()
    }
}

impl Text {
    fn none() -> Self {
        Self::plain(NONE.to_owned())
    }

    fn plain(figure: String) -> Self {
        Self { figure, ..Self::default() }
    }

    /// The text after the figure: half of the interval, and the ratio in brackets.
    pub(super) fn detail(&self) -> String {
        let relative = if self.relative.is_empty() { String::new() } else { format!("({})", self.relative) };
        [self.plus_minus.as_str(), relative.as_str()].join(" ").trim().to_owned()
    }

    /// The figure, the half interval and the ratio in one line.
    pub(super) fn whole(&self) -> String {
        format!("{} {}", self.figure, self.detail()).trim_end().to_owned()
    }
}

#[cfg(test)]
#[path = "sheet_tests.rs"]
mod tests;
