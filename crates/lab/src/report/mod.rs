//! The reports of an experiment: `summary.md` and `report.html`. The lab makes both from `lab.json` and `runs.jsonl`
//! alone, so `leno lab report` can make them again from the raw runs at any time.
//!
//! read -> group -> (spread, ratio) -> (table, judge -> goals, verdict) -> summary and page
//!
//! A group has the repeats of one target under one load, skew and condition. The skew is the additional latency of one
//! backend. A condition is a fault of the servers together with a call policy of the proxies, such as retries.

mod case_findings;
pub(crate) mod figures;
mod goals;
mod group;
mod judge;
mod labels;
mod limits;
mod load_columns;
mod mean;
mod mesh_cost;
mod mesh_goals;
mod outcome;
pub(crate) mod page;
mod ratio;
mod read;
mod spread;
mod statistic;
mod student;
mod summary;
mod table;
mod verdict;

#[cfg(test)]
#[path = "example_tests.rs"]
pub(crate) mod example;

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use crate::error::{Result, io};
use crate::experiment::record::{Run, Scenario};
use crate::publication;

pub(crate) use group::{FOREIGN_CPU_LIMIT, is_late};
use group::{Group, Results};
pub(crate) use judge::Verdict;
pub(crate) use labels::has_ztunnel;
pub(crate) use mean::{Gap, Mean};
pub(crate) use read::{Recorded, read};
pub(crate) use statistic::Statistic;
pub(crate) use summary::cell as markdown_cell;
pub(crate) use verdict::left_out;

/// Options of `leno lab report`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Directory of an experiment or of a publication, as written by `leno lab run` or `leno lab publish`
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// The files of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Tables in Markdown.
    pub summary: PathBuf,
    /// A self-contained page.
    pub page: PathBuf,
}

/// Writes the report of the experiment in `dir`, and replaces an earlier one.
///
/// # Errors
/// If `lab.json` or `runs.jsonl` is missing or cannot be parsed, except for a truncated last line; or if the report
/// cannot be written.
pub fn write(dir: &Path) -> Result<Written> {
    let recorded = read(dir)?;
    let results = Results::new(&recorded);
    let written = Written { summary: dir.join("summary.md"), page: dir.join("report.html") };
    for (path, text) in [(&written.summary, summary::text(&results)), (&written.page, page::html(&results))] {
        fs::write(path, text).map_err(io(format!("writing {}", path.display())))?;
    }
    Ok(written)
}

/// Returns the runs in the report's order. Runs are sorted by scenario, load, skew and condition. After that, they are
/// sorted by target, as the user listed the targets, and by repeat.
pub(crate) fn ordered(recorded: &Recorded) -> Vec<&Run> {
    Results::new(recorded).groups.into_iter().flat_map(|group| group.runs).collect()
}

/// Describes the load of a run: `1 connection, 200 calls in flight, closed loop`.
pub(crate) fn load(run: &Run) -> String {
    labels::load(Group::of(run).load)
}

/// The findings of a scenario in sentences; empty for most scenarios outside of a cluster.
fn findings(results: &Results, scenario: Scenario) -> Vec<String> {
    [case_findings::findings(results, scenario), mesh_cost::findings(results, scenario)].concat()
}

/// Writes the report, and prints its location on standard output.
///
/// # Errors
/// The errors of [`write()`].
pub fn run(options: &Options) -> Result<()> {
    let is_publication = publication::is_publication(&options.dir);
    let Written { summary, page } =
        if is_publication { publication::write(&options.dir)? } else { write(&options.dir)? };
    writeln!(stdout(), "{}\n{}", summary.display(), page.display()).map_err(io("writing to standard output"))
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "workload_tests.rs"]
mod workload_tests;
