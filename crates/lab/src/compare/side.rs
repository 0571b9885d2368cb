//! The sides of a comparison. A side consists of runs that are repeats of one measurement.

use std::path::PathBuf;

use crate::error::Result;
use crate::formats::{Form, Measured, read};
use crate::report::Mean;

/// A figure of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    /// Name in JSON, with the unit.
    pub(super) name: &'static str,
    /// Title of the column.
    pub(super) title: &'static str,
    of: fn(&Measured) -> Option<f64>,
    /// Whether a gap in percent to the first side is meaningful. A gap in the percentage of failed calls is not
    /// meaningful, because this percentage is often 0.
    pub(super) has_gap: bool,
}

/// Every figure, in the order of the columns.
pub(super) const FIGURES: [Figure; 7] = [
    figure("p50_ms", "p50, ms", |run| run.p50_ms),
    figure("p90_ms", "p90, ms", |run| run.p90_ms),
    figure("p99_ms", "p99, ms", |run| run.p99_ms),
    figure("p999_ms", "p99.9, ms", |run| run.p999_ms),
    figure("mean_ms", "mean, ms", |run| run.mean_ms),
    figure("rate_per_s", "calls/s", |run| run.rate_per_s),
    Figure { has_gap: false, ..figure("errors_percent", "errors, %", |run| run.errors_percent) },
];

const fn figure(name: &'static str, title: &'static str, of: fn(&Measured) -> Option<f64>) -> Figure {
    Figure { name, title, of, has_gap: true }
}

/// One side of a comparison: the runs under one path that have the same file format (`form`) and the same label. They
/// count as repeats of one measurement.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) path: PathBuf,
    pub(super) form: Form,
    /// The label in the files; empty if they have no label.
    pub(super) label: String,
    pub(super) runs: Vec<Measured>,
}

impl Side {
    /// The mean of a figure over the runs that have it.
    pub(super) fn mean(&self, figure: Figure) -> Option<Mean> {
        Mean::of(self.runs.iter().filter_map(figure.of))
    }
}

/// Reads the sides. Their order is the order of the paths. Within a path, it is the order of the sides' first runs.
///
/// # Errors
/// If a path cannot be read.
pub(super) fn sides(paths: &[PathBuf]) -> Result<Vec<Side>> {
    let mut all = Vec::new();
    for path in paths {
        let mut sides: Vec<Side> = Vec::new();
        for run in read(path)? {
            match sides.iter_mut().find(|side| side.form == run.form && side.label == run.label) {
                Some(side) => side.runs.push(run),
                None => {
                    let (form, label) = (run.form, run.label.clone());
                    sides.push(Side { path: path.clone(), form, label, runs: vec![run] });
                }
            }
        }
        all.append(&mut sides);
    }
    Ok(all)
}
