//! Chooses the columns that fit into a terminal, and computes their widths.

use ratatui::text::Line;

use super::column::{Column, workload};
use crate::cluster::stat::methods::Row;

/// Distance between two columns of the table, in columns of the terminal.
pub(super) const GAP: usize = 2;
/// Width of a column of numbers. Both `100.00 %` and the longest header with its sort mark fit.
const NUMBER: usize = 8;

/// A column, and its width.
pub(super) type Fitted = (Column, usize);

/// Chooses columns whose total width is at most `width`. First cuts names, but not below a minimum width. Then leaves
/// out columns, the least important first, until the others fit. Never leaves out `sorted`, the column to sort by.
pub(super) fn fit(rows: &[&Row], width: usize, sorted: Column) -> Vec<Fitted> {
    // Show the column of burn rates only if a method in the table has an objective: without one, it has no burn rate.
    let has_objectives = rows.iter().any(|row| row.objective.is_some());
    let mut columns: Vec<(Column, usize, usize)> = Column::ALL
        .into_iter()
        .filter(|&column| column != Column::Burn || has_objectives || sorted == column)
        .map(|column| {
            let natural = natural(column, rows);
            (column, natural.min(least(column)), natural)
        })
        .collect();
    let needs = |columns: &[(Column, usize, usize)]| {
        columns.iter().map(|(_, least, _)| least + GAP).sum::<usize>().saturating_sub(GAP)
    };
    for dropped in dropped(rows) {
        if needs(&columns) > width {
            columns.retain(|&(column, ..)| column != dropped || column == sorted);
        }
    }
    let mut spare = width.saturating_sub(needs(&columns));
    // Give the spare width to the column of methods first.
    columns.sort_by_key(|&(column, ..)| column != Column::Method);
    for (_, width, natural) in &mut columns {
        let more = (*natural - *width).min(spare);
        *width += more;
        spare -= more;
    }
    columns.sort_by_key(|&(column, ..)| Column::ALL.iter().position(|&other| other == column));
    columns.into_iter().map(|(column, width, _)| (column, width)).collect()
}

/// Returns the columns in the order in which [`fit`] leaves them out. If all rows have the same workload, the column of
/// the workload comes first.
fn dropped(rows: &[&Row]) -> Vec<Column> {
    let mut names = rows.iter().map(|row| (&row.key.namespace, &row.key.name));
    let first = names.next();
    let is_same = names.all(|name| Some(name) == first);
    let front = is_same.then_some(Column::Workload);
    front.into_iter().chain(Column::DROPPED).collect()
}

/// The width at which no text in a column is cut. All columns of numbers have the same width.
fn natural(column: Column, rows: &[&Row]) -> usize {
    let widest = |text: fn(&Row) -> String| rows.iter().map(|row| width(&text(row))).max().unwrap_or(0);
    // Add 1 for the sort mark beside the header.
    let head = width(column.head()) + 1;
    match column {
        Column::Side => 3,
        Column::Workload => widest(workload).max(head),
        Column::At => widest(|row| Column::At.cell(row)).max(head),
        Column::Method => widest(|row| Column::Method.cell(row)).max(head),
        _ => NUMBER,
    }
}

/// The minimum width of a column: if less space is left for it, the column is not shown.
fn least(column: Column) -> usize {
    match column {
        Column::Workload => 12,
        Column::At => 12,
        Column::Method => 20,
        Column::Side => 3,
        _ => NUMBER,
    }
}

/// The width of a text, in columns of the terminal.
pub(super) fn width(text: &str) -> usize {
    Line::raw(text).width()
}

/// Cuts a text to at most `most` columns of the terminal. Keeps the end of a method's name and the beginning of other
/// texts, because these parts matter most.
pub(super) fn cut(column: Column, text: String, most: usize) -> String {
    if width(&text) <= most {
        return text;
    }
    let mut letters: std::collections::VecDeque<char> = text.chars().collect();
    loop {
        let dropped = if column == Column::Method { letters.pop_front() } else { letters.pop_back() };
        let rest: String = letters.iter().collect();
        if dropped.is_none() || width(&rest) < most {
            return if column == Column::Method { format!("…{rest}") } else { format!("{rest}…") };
        }
    }
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
