//! Writes the output of commands: a table for users, or JSON or YAML for programs.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use leno_install::yaml;
use serde::Serialize;

use super::printable::line;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for people
    #[default]
    Table,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// A text table: a header, and rows whose numbers are right-aligned.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Column {
    head: &'static str,
    is_number: bool,
}

impl Table {
    /// A table with these columns; a column whose header begins with `#` holds numbers.
    pub(crate) fn new(heads: &[&'static str]) -> Self {
        let column = |head: &&'static str| match head.strip_prefix('#') {
            Some(head) => Column { head, is_number: true },
            None => Column { head, is_number: false },
        };
        Self { columns: heads.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row, with one cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| line(&cell)).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.to_owned()).collect();
        let rows: Vec<&Vec<String>> = std::iter::once(&heads).chain(&self.rows).collect();
        let length = |cell: &String| cell.chars().count();
        let width = |index: usize| rows.iter().filter_map(|row| row.get(index)).map(length).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for row in rows {
            let cells = row.iter().zip(&self.columns).zip(&widths);
            let padded = cells.map(|((cell, column), &width)| match column.is_number {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
            writeln!(f, "{}", padded.collect::<Vec<_>>().join("   ").trim_end())?;
        }
        Ok(())
    }
}

/// Writes a value to standard output in the format `output`. `table` formats the value for [`Output::Table`].
pub(crate) fn show<T: Serialize>(output: Output, value: &T, table: impl FnOnce(&T) -> String) -> io::Result<()> {
    let text = match output {
        Output::Table => table(value),
        Output::Json => serde_json::to_string_pretty(value)? + "\n",
        Output::Yaml => yaml::write(&serde_json::to_value(value)?),
    };
    io::stdout().write_all(text.as_bytes())
}

/// Whether standard output supports colours: it is a terminal, TERM is not `dumb`, and NO_COLOR is not set
/// (no-color.org).
pub(crate) fn has_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Pads a word to seven letters, and prints it in a colour (SGR, ECMA-48) if the output has colours.
pub(crate) fn coloured(word: &str, colour: &str, has_colours: bool) -> String {
    if has_colours { format!("\x1b[{colour}m{word:<7}\x1b[0m") } else { format!("{word:<7}") }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
