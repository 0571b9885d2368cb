//! The scorecard, the first table of the page. It has a row for each target; most cells have a figure and a bar.

use crate::chart::number::{NONE, significant};
use crate::chart::text::escape;
use crate::experiment::record::{Experiment, Scenario, TargetKind};

use super::super::figures::{self, Figure};
use super::super::group::{Group, Load, Results};
use super::super::labels;
use super::super::outcome::{self, Certainty};
use super::super::ratio::ratio;
use super::super::verdict;

/// A figure with its unit, its explanation, and the size of its bar.
#[derive(Debug, Clone, Default)]
struct Cell {
    figure: String,
    detail: String,
    /// Length of the bar, in the unit of the figure; `None` draws no bar. An infinite size fills the cell.
    size: Option<f64>,
}

pub(super) fn html(results: &Results, scenario: Scenario) -> String {
    let Some(load) = verdict::main_load(results, scenario) else {
        return String::new();
    };
    let targets = results.targets(scenario);
    let mut names = match scenario {
        Scenario::Tcp => vec![outcome::outcome_name(scenario), "up", "down", "memory, peak"],
        Scenario::Handshakes => {
            vec![outcome::outcome_name(scenario), "throughput", "in a second of CPU", "memory, peak"]
        }
        _ => vec![outcome::outcome_name(scenario), "throughput", "CPU per call", "memory, peak"],
    };
    let mut rows: Vec<Vec<Cell>> = targets.iter().map(|&target| cells(results, scenario, load, target)).collect();
    // Add the column only if a run shows whether a target balances requests. Not every scenario has such a run.
    if targets.iter().any(|&target| outcome::is_request_level(results, target).is_some()) {
        names.insert(0, "request-level?");
        rows.iter_mut().zip(&targets).for_each(|(row, &target)| row.insert(0, request_level(results, target)));
    }
    let head: String = names.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
    let mut body = String::new();
    for (&target, row) in targets.iter().zip(&rows) {
        body.push_str(&row_start(target, results.experiment));
        for (column, cell) in row.iter().enumerate() {
            let most =
                rows.iter().filter_map(|row| row[column].size).filter(|size| size.is_finite()).fold(0.0, f64::max);
            body.push_str(&cell.html(names[column], most));
        }
        body.push_str("</tr>\n");
    }
    for skipped in &results.experiment.skipped {
        let why = escape(&skipped.why);
        body.push_str(&row_start(skipped.target, results.experiment));
        body.push_str(&format!("<td class=\"skipped\" colspan=\"{}\">not measured: {why}</td></tr>\n", names.len()));
    }
    format!(
        "<section>\n<h2>Scorecard</h2>\n<p class=\"note\">{}.{} Bars compare within a column.</p>\n\
         <table class=\"scorecard\">\n<thead><tr><th scope=\"col\">target</th>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n\
         </table>\n</section>\n",
        escape(&labels::load(load)),
        notes(scenario)
    )
}

/// Explanations of the columns.
fn notes(scenario: Scenario) -> String {
    match scenario {
        Scenario::SlowPod => format!(
            " Tail: p99 at its worst skew over the target’s own healthy p99 ({}). Throughput, CPU and memory: with all \
             backends well.",
            escape(&figures::ratio_signs())
        ),
        Scenario::Connections => format!(
            " Tail: p99 where more connections are worst over the target’s own p99 over the fewest ({}). Throughput, CPU \
             and memory: over the fewest, at the least skew.",
            escape(&figures::ratio_signs())
        ),
        Scenario::Methods => format!(
            " Tail: p99 of the fast method at its worst skew over its own healthy p99 ({}). The other columns: the fast \
             method, with all backends well.",
            escape(&figures::ratio_signs())
        ),
        Scenario::Capacity => " The run that confirmed the rate gives the other figures.".to_owned(),
        Scenario::Tcp => " Each direction for itself.".to_owned(),
        Scenario::Handshakes => " Each with a certificate on both sides, and none resumed.".to_owned(),
        _ => String::new(),
    }
}

fn row_start(target: TargetKind, experiment: &Experiment) -> String {
    let class = if target.is_leno() { " class=\"own\"" } else { "" };
    let (name, is) = (target.name(), labels::target_is(target, experiment));
    format!("<tr{class}><th scope=\"row\">{name}<span class=\"detail\">{is}</span></th>")
}

fn cells(results: &Results, scenario: Scenario, load: Load, target: TargetKind) -> Vec<Cell> {
    let skews = results.skews(scenario);
    let mut groups = skews.iter().filter_map(|&skew| results.find(scenario, load, skew, target));
    let calmest = groups.next();
    let result = outcome::outcome(results, scenario, load, target).map_or_else(Cell::none, |outcome| Cell {
        figure: match outcome.certainty {
            Certainty::Told => outcome.figure,
            Certainty::Same(_) => format!("≈ {}", outcome.figure),
            Certainty::TooFew => format!("{} ?", outcome.figure),
        },
        detail: outcome.detail,
        size: Some(outcome.value),
    });
    let memory = Cell::of(calmest, figures::peak_mb, "MB", "no proxy");
    if scenario == Scenario::Tcp {
        let [up, down] = [figures::up_mb_per_s as Figure, figures::down_mb_per_s];
        return vec![result, Cell::of(calmest, up, "MB/s", ""), Cell::of(calmest, down, "MB/s", ""), memory];
    }
    let throughput = calmest.map_or_else(Cell::none, |group| throughput(results, group, groups));
    let cost = match scenario {
        Scenario::Handshakes => Cell::of(calmest, figures::per_cpu_s, "", "no proxy"),
        _ => Cell::of(calmest, figures::cpu_us, "µs", "no proxy"),
    };
    vec![result, throughput, cost, memory]
}

fn request_level(results: &Results, target: TargetKind) -> Cell {
    match outcome::is_request_level(results, target) {
        Some(true) => Cell::words("● yes", "per call"),
        Some(false) => Cell::words("○ no", "per connection"),
        None => Cell::words(NONE, "not seen here"),
    }
}

/// The throughput cell: calls per second without a fault, and the fraction of this rate that remains under the worst
/// skew.
fn throughput<'a>(results: &Results, calmest: &Group, others: impl Iterator<Item = &'a Group<'a>>) -> Cell {
    let Some(spread) = calmest.spread(figures::rps) else {
        return Cell::none();
    };
    let by_luck = outcome::is_request_level(results, calmest.target) == Some(false);
    let beside = |group: &Group| {
        let left = match by_luck {
            // Use the worst repeat: the median would be misleading, because most connections avoid the slow backend.
            true => group.spread(figures::rps)?.min / spread.median,
            false => ratio(group, results.healthy(group)?, figures::rps)?.value,
        };
        Some((left, group.skew_ms))
    };
    let worst = others.filter_map(beside).min_by(|a, b| a.0.total_cmp(&b.0));
    let down_to = if by_luck { "down to " } else { "" };
    let worst = worst.map(|(left, skew_ms)| format!("{down_to}×\u{a0}{} at {skew_ms}\u{a0}ms", significant(left)));
    let ceiling = (calmest.marks().at_ceiling > 0).then(|| "at the lab’s ceiling".to_owned());
    let detail = [worst, ceiling].into_iter().flatten().collect::<Vec<_>>().join(", ");
    Cell { figure: format!("{}/s", significant(spread.median)), detail, size: Some(spread.median) }
}

impl Cell {
    fn none() -> Self {
        Self::words(NONE, "")
    }

    fn words(figure: &str, detail: &str) -> Self {
        Self { figure: figure.to_owned(), detail: detail.to_owned(), size: None }
    }

    fn of(group: Option<&Group>, figure: Figure, unit: &str, without: &str) -> Self {
        let Some(spread) = group.and_then(|group| group.spread(figure)) else {
            return Self::words(NONE, without);
        };
        let detail = format!("{} – {}", significant(spread.min), significant(spread.max));
        let figure = format!("{}\u{a0}{unit}", significant(spread.median));
        Self { figure, detail, size: Some(spread.median) }
    }

    /// Returns the cell as HTML. A bar of the size `most` fills the cell.
    fn html(&self, name: &str, most: f64) -> String {
        let bar = self.size.filter(|_| most > 0.0).map(|size| {
            let percent = (size / most * 100.0).clamp(1.0, 100.0);
            format!("<span class=\"bar\" aria-hidden=\"true\"><i style=\"width:{percent:.0}%\"></i></span>")
        });
        format!(
            "<td data-name=\"{}\"><span class=\"figure\">{}</span>{}<span class=\"detail\">{}</span></td>",
            escape(name),
            escape(&self.figure),
            bar.unwrap_or_default(),
            escape(&self.detail)
        )
    }
}
