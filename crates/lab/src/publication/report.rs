//! Writes the report's files from the recorded runs: during the measurement, and again at any later time.

use std::path::{Path, PathBuf};

use super::document::Document;
use super::figures::Measured;
use super::{json, markdown, page, record};
use crate::error::Result;
use crate::report::{self, Written};

/// Whether `dir` holds the results of `leno lab publish`.
pub(crate) fn is_publication(dir: &Path) -> bool {
    dir.join(record::FILE).is_file()
}

/// Reads the description and the experiments that have begun.
///
/// # Errors
/// If a file cannot be read or parsed. A truncated last line of the runs is no error.
pub(super) fn read(dir: &Path) -> Result<Measured> {
    let description = record::read(dir)?;
    let mut steps = Vec::new();
    for step in &description.steps {
        let of_step = dir.join(&step.name);
        // An experiment writes this file just before its first run.
        if of_step.join("lab.json").is_file() {
            steps.push((step.name.clone(), report::read(&of_step)?));
        }
    }
    Ok(Measured { description, steps })
}

/// Writes `summary.md`, `report.html` and `table.json`, and replaces earlier versions of these files.
///
/// # Errors
/// The errors of [`read`], and an error if a file cannot be written.
pub(crate) fn write(dir: &Path) -> Result<Written> {
    write_measured(dir, &read(dir)?)
}

pub(super) fn write_measured(dir: &Path, measured: &Measured) -> Result<Written> {
    let document = Document::of(measured);
    let file = |name: &str| -> PathBuf { dir.join(name) };
    let written = Written { summary: file("summary.md"), page: file("report.html") };
    record::replace(&written.summary, &markdown::text(&document))?;
    record::replace(&written.page, &page::html(&document))?;
    record::replace(&file("table.json"), &json::text(measured, &document))?;
    Ok(written)
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
