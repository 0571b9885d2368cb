//! Formats result rows as tables: plain text for the terminal, and Markdown.

use std::io::{self, Write};

use super::balancers::Kind;
use super::row::Row;
use crate::columns;

/// Writes a plain-text table for each setting. Its rows are grouped by case; within a case, there is a row for each
/// balancer.
pub(super) fn write(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    for table in rows.chunk_by(|one, other| one.setting == other.setting) {
        writeln!(out, "\n{}", table[0].setting)?;
        let lines = lines(table);
        let last = lines.first().map_or(0, Vec::len).saturating_sub(1);
        columns::write(&lines, |column| column < 2 || column == last, out)?;
    }
    Ok(())
}

/// The header, and a line for each row. Only a case's first line contains the case's name.
fn lines(table: &[Row]) -> Vec<Vec<String>> {
    let mut head = vec![String::new(), "balancer".to_owned()];
    head.extend(table[0].figures.iter().map(|figure| figure.name.to_owned()));
    head.push("goals".to_owned());
    let mut lines = vec![head];
    let mut case = "";
    for row in table {
        let shown = if row.case == case { "" } else { &row.case };
        case = &row.case;
        let mut line = vec![shown.to_owned(), row.balancer.to_string()];
        line.extend(row.figures.iter().map(|figure| figure.value.map_or("-".to_owned(), number)));
        line.push(goals(row));
        lines.push(line);
    }
    lines
}

fn goals(row: &Row) -> String {
    let missed = row.missed();
    match (row.goals.is_empty(), missed.is_empty()) {
        (true, _) => String::new(),
        (false, true) => "reached".to_owned(),
        (false, false) => format!("MISSED {}", missed.join(", ")),
    }
}

/// Returns a Markdown table for each setting. Its rows are grouped by case; within a case, there is a row for each
/// balancer.
pub(super) fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for table in rows.chunk_by(|one, other| one.setting == other.setting) {
        text += &format!("\n## {}\n\n", table[0].setting);
        for (number, line) in lines(table).iter().enumerate() {
            text += &format!("| {} |\n", line.join(" | "));
            if number == 0 {
                let columns = line.len();
                text += &format!("|{}\n", "---|---|".to_owned() + &"---:|".repeat(columns - 3) + "---|");
            }
        }
    }
    text
}

/// Formats a number with about three significant digits, and at most three decimals.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.0995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Writes how many goals each balancer reached.
pub(super) fn write_score(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let mut balancers: Vec<_> = rows.iter().map(|row| row.balancer).collect();
    balancers.sort_unstable_by_key(|balancer| Kind::ALL.iter().position(|kind| kind == balancer));
    balancers.dedup();
    writeln!(out, "\ngoals reached:")?;
    for balancer in balancers {
        let goals = || rows.iter().filter(|row| row.balancer == balancer).flat_map(|row| &row.goals);
        let reached = goals().filter(|goal| goal.reached).count();
        writeln!(out, "  {balancer:<18} {reached:>4} of {}", goals().count())?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
