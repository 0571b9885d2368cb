//! `summary.md`: self-contained tables.

use std::fmt::Write as _;

use crate::chart::number::grouped;
use crate::experiment::record::{Scenario, TargetKind};

use super::group::{Load, Results};
use super::judge::Verdict;
use super::{figures, goals, labels, limits, table, verdict};

/// The whole file, in Markdown.
pub(super) fn text(results: &Results) -> String {
    let mut text = String::new();
    for scenario in results.scenarios() {
        // Writing to a String cannot fail.
        let _ = write!(text, "# {}\n\n", labels::scenario(scenario));
        let _ = write!(text, "{}\n\n", cell(&verdict::sentence(results, scenario)));
        let _ = write!(text, "{}\n\n", about(results, scenario));
        write_findings(&mut text, results, scenario);
        write_table(&mut text, results, scenario);
        write_goals(&mut text, results, scenario);
        write_beside(&mut text, results, scenario);
    }
    text.push_str("## What this cannot tell\n\n");
    for limit in limits::limits(results) {
        let _ = writeln!(text, "- {}", cell(&limit));
    }
    text
}

/// The experiment, where it ran, and the command to repeat it.
fn about(results: &Results, scenario: Scenario) -> String {
    let experiment = results.experiment;
    let versions = experiment.versions.iter().map(|it| format!("{}: {}", it.target.name(), cell(&it.version)));
    let repeats = results.of(scenario).map(|group| group.runs.len()).max().unwrap_or_default();
    let places = labels::places(experiment).into_iter().map(|(name, fact)| format!("{name}: {}", cell(&fact)));
    format!(
        "{} {}; {repeats} repeats of {} s, targets interleaved. {}. {}. {}.\n\n    {}",
        labels::scenario_is(scenario, experiment),
        labels::loads(&results.loads(scenario)),
        grouped(experiment.duration_s.into()),
        cell(&experiment.started),
        places.collect::<Vec<_>>().join("; "),
        versions.collect::<Vec<_>>().join("; "),
        experiment.command.replace(['\n', '\r'], " "),
    )
}

/// Writes the findings as a list.
fn write_findings(text: &mut String, results: &Results, scenario: Scenario) {
    let findings = super::findings(results, scenario);
    if findings.is_empty() {
        return;
    }
    text.push_str("## Findings\n\n");
    for finding in findings {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {}", cell(&finding));
    }
    text.push('\n');
}

fn write_table(text: &mut String, results: &Results, scenario: Scenario) {
    let table = table::table(results, scenario);
    let loads = results.loads(scenario);
    let has_skews = results.skews(scenario).len() > 1;
    let load_column = if labels::vary_in_connections(&loads) { "connections" } else { "load" };
    let mut head: Vec<String> = Vec::new();
    head.extend((loads.len() > 1).then(|| load_column.to_owned()));
    let has_conditions = results.conditions(scenario).iter().any(|condition| !condition.is_usual());
    head.extend(has_skews.then(|| "skew, ms".to_owned()));
    head.extend(has_conditions.then(|| "case".to_owned()));
    head.extend(table.columns);
    write_row(text, &head);
    write_row(text, &vec!["---".to_owned(); head.len()]);
    for section in &table.sections {
        for (target, cells) in &section.rows {
            let mut row: Vec<String> = Vec::new();
            row.extend((loads.len() > 1).then(|| labels::load_among(section.load, &loads)));
            row.extend(has_skews.then(|| section.skew_ms.to_string()));
            row.extend(has_conditions.then(|| cell(&section.condition.to_string())));
            row.push(name(*target));
            row.extend(cells.iter().map(|text| cell(text)));
            write_row(text, &row);
        }
    }
    for (target, why) in &table.skipped {
        let mut row = vec![String::new(); head.len()];
        let first = head.iter().position(|column| column == "target").unwrap_or_default();
        row[first] = name(*target);
        row[first + 1] = format!("skipped: {}", cell(why));
        write_row(text, &row);
    }
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\nMedians over the repeats; sd is the standard deviation over them, [ ] the least and the greatest. {}.\n\n",
        figures::ratio_signs()
    );
}

fn write_goals(text: &mut String, results: &Results, scenario: Scenario) {
    let goals = goals::goals(results, scenario);
    if goals.is_empty() {
        return;
    }
    text.push_str("## Goals of leno\n\n| goal | load | verdict | figure [95 %] |\n|---|---|---|---|\n");
    for goal in goals {
        let verdict = match goal.verdict {
            Verdict::Reached => goal.verdict.to_string(),
            verdict => format!("**{verdict}**"),
        };
        write_row(text, &[goal.name, load_of(goal.load, scenario), verdict, cell(&goal.figure)]);
    }
    text.push('\n');
}

/// Describes the load of a goal. In the scenario `connections`, omits the number of connections, because it varies
/// within a goal.
pub(super) fn load_of(load: Load, scenario: Scenario) -> String {
    if scenario == Scenario::Connections { labels::load_of_all(load) } else { labels::load(load) }
}

/// Writes Leno's figures divided by the figures of each other target.
fn write_beside(text: &mut String, results: &Results, scenario: Scenario) {
    let targets = results.targets(scenario);
    let others: Vec<TargetKind> = targets.iter().copied().filter(|target| !target.is_leno()).collect();
    let (Some(load), Some(&first)) = (verdict::main_load(results, scenario), others.first()) else { return };
    if others.len() == targets.len() {
        return;
    }
    // Writing to a String cannot fail.
    let _ = write!(text, "## Leno beside the others\n\nLeno's figure over the other's: {}.\n\n", labels::load(load));
    let names = verdict::beside(results, scenario, first).into_iter().map(|(name, _)| name.to_owned());
    let head: Vec<String> = std::iter::once("leno ÷".to_owned()).chain(names).collect();
    write_row(text, &head);
    write_row(text, &vec!["---".to_owned(); head.len()]);
    for other in others {
        let ratios = verdict::beside(results, scenario, other).into_iter().map(|(_, ratio)| figures::ratio(ratio));
        let row: Vec<String> = std::iter::once(name(other)).chain(ratios).collect();
        write_row(text, &row);
    }
    text.push('\n');
}

fn name(target: TargetKind) -> String {
    let name = target.name();
    if target.is_leno() { format!("**{name}**") } else { name.to_owned() }
}

fn write_row(text: &mut String, cells: &[String]) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// Escapes text for a cell of a Markdown table: characters that would end the cell or act as markup.
pub(crate) fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '\\' => safe.extend(['\\', c]),
            '<' => safe.push_str("&lt;"),
            c if c.is_control() || c == '\u{a0}' => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
