//! Prints the report's first sentence, tables and lists on the terminal.

use std::io::{self, Write};

use super::document::Document;
use super::sheet::{Cell, Head, Row, Sheet};
use crate::columns;

/// Writes the first sentence, the tables without intervals, the lists of figures in which Leno is better and worse, and
/// the doubts.
pub(super) fn write(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}\n", document.sentence)?;
    for sheet in &document.sheets {
        writeln!(out, "{}", sheet.title)?;
        columns::write(&lines(sheet), |column| column == 0, out)?;
        writeln!(out)?;
    }
    for row in document.sheets.iter().take(1).flat_map(|sheet| &sheet.rows) {
        if let Some(why) = &row.why_not {
            writeln!(out, "{} was not measured: {why}", row.name)?;
        }
    }
    for (title, lines) in document.standings() {
        write_list(title, lines, out)?;
    }
    write_list("What makes figures doubtful", &document.doubts, out)
}

/// Writes a title and its lines. Writes nothing if there are no lines.
pub(super) fn write_list(title: &str, lines: &[String], out: &mut dyn Write) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}:")?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

fn lines(sheet: &Sheet) -> Vec<Vec<String>> {
    let has_theirs = sheet.columns.iter().any(|head| head.has_theirs);
    let names = sheet.columns.iter().flat_map(|head| parts(head, [&head.name, "", ""]));
    let names = std::iter::once(String::new()).chain(names).collect();
    let kinds = sheet.columns.iter().flat_map(|head| parts(head, ["here", "theirs", "ratio"]));
    let kinds = has_theirs.then(|| std::iter::once(String::new()).chain(kinds).collect());
    let row = |row: &Row| {
        let cells = row.cells.iter().zip(&sheet.columns).flat_map(|(cell, head)| cells(cell, head));
        std::iter::once(row.name.to_owned()).chain(cells).collect()
    };
    std::iter::once(names).chain(kinds).chain(sheet.rows.iter().map(row)).collect()
}

fn cells(Cell { here, theirs, ratio }: &Cell, head: &Head) -> Vec<String> {
    parts(head, [&here.figure, &theirs.figure, ratio])
}

/// Returns the texts `here`, `theirs` and `ratio` of a column; only `here` if the column has no published figures.
fn parts(head: &Head, texts: [&str; 3]) -> Vec<String> {
    let count = if head.has_theirs { 3 } else { 1 };
    texts[..count].iter().map(|&text| text.to_owned()).collect()
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
