//! Tables for a terminal.

use std::io::{self, Write};

/// Writes lines of cells, each column as wide as its widest cell and separated by two spaces. `is_text` selects, by
/// index, the columns that are aligned at the left; the other columns are numbers. All lines must have as many cells as
/// the first line.
pub(crate) fn write(lines: &[Vec<String>], is_text: impl Fn(usize) -> bool, out: &mut dyn Write) -> io::Result<()> {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if is_text(column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
