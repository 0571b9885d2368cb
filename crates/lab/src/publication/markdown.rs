//! `summary.md`: the report as Markdown.

use std::fmt::Write as _;

use crate::report::markdown_cell as cell;

use super::document::Document;
use super::sheet::{Cell, Head, Row, Sheet};

/// The whole file, in Markdown.
pub(super) fn text(document: &Document) -> String {
    let mut text = format!("# {}\n\n{}\n\n", document.description.publication, cell(&document.sentence));
    let mut sheets = document.sheets.iter();
    sheets.by_ref().take(1).for_each(|sheet| write_sheet(&mut text, sheet, true));
    for (title, lines) in document.standings() {
        write_list(&mut text, title, lines);
    }
    sheets.for_each(|sheet| write_sheet(&mut text, sheet, false));
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "## The publication\n\n{}. Load: {}.\n<{}>\n\n",
        cell(document.who),
        cell(document.load),
        document.source
    );
    for (title, lines) in document.parts() {
        write_list(&mut text, title, lines);
    }
    text.push_str("## Versions\n\n");
    for version in &document.description.versions {
        let _ = writeln!(text, "- {}: {}", version.target, cell(&version.version));
    }
    text.push_str("\n## Repeat it\n\n");
    for command in document.commands() {
        let _ = writeln!(text, "    {}", command.replace(['\n', '\r'], " "));
    }
    text
}

fn write_sheet(text: &mut String, sheet: &Sheet, is_first: bool) {
    let heads = sheet.columns.iter().flat_map(head);
    let head: Vec<String> = std::iter::once("condition".to_owned()).chain(heads).collect();
    let _ = write!(text, "## {}\n\n| {} |\n|{}\n", cell(sheet.title), head.join(" | "), "---|".repeat(head.len()));
    for row in &sheet.rows {
        let cells = row.cells.iter().zip(&sheet.columns).flat_map(|(it, head)| cells(it, head));
        let cells: Vec<String> = std::iter::once(name(row, is_first)).chain(cells).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
    if let Some(base) = sheet.base {
        let _ = writeln!(text, "In brackets: relative to {}.\n", cell(base));
    }
    for order in &sheet.orders {
        let _ = writeln!(text, "- {}", cell(order));
    }
    text.push('\n');
}

fn head(head: &Head) -> Vec<String> {
    let name = cell(&head.name);
    match head.has_theirs {
        true => vec![format!("{name}: here"), "theirs".to_owned(), "ratio".to_owned()],
        false => vec![name],
    }
}

fn cells(cell: &Cell, head: &Head) -> Vec<String> {
    let mut cells = vec![cell.here.whole()];
    cells.extend(head.has_theirs.then(|| [cell.theirs.whole(), cell.ratio.clone()]).into_iter().flatten());
    cells
}

/// The condition's name and its target. In the first table, a condition that was not measured also has the reason.
fn name(row: &Row, is_first: bool) -> String {
    let name = if row.is_leno { format!("**{}**", row.name) } else { cell(row.name) };
    match &row.why_not {
        Some(_) if !is_first => format!("{name} (`{}`), not measured here", row.target),
        Some(why) => format!("{name} (`{}`), not measured here: {}", row.target, cell(why)),
        None => format!("{name} (`{}`)", row.target),
    }
}

fn write_list(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(text, "## {title}\n\n");
    for line in lines {
        let _ = writeln!(text, "- {}", cell(line));
    }
    text.push('\n');
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
