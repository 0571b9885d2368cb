//! The table of Leno's goals, the list of findings, and the full table of figures.

use crate::chart::text::escape;
use crate::experiment::record::{Scenario, TargetKind};

use super::super::goals;
use super::super::group::Results;
use super::super::judge::Verdict;
use super::super::{figures, labels, summary, table};

/// The table of Leno's goals; empty if the scenario has none, or if Leno was not measured.
pub(super) fn goals(results: &Results, scenario: Scenario) -> String {
    let goals = goals::goals(results, scenario);
    if goals.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for goal in goals {
        let (class, sign) = match goal.verdict {
            Verdict::Reached => ("reached", "✓"),
            Verdict::Missed => ("missed", "✕"),
            Verdict::CannotTell => ("unknown", "?"),
        };
        rows.push_str(&format!(
            "<tr><td class=\"verdict {class}\"><span aria-hidden=\"true\">{sign}</span> {}</td>\
             <th scope=\"row\">{}<span class=\"detail\">{}</span></th><td>{}</td></tr>\n",
            goal.verdict,
            escape(&goal.name),
            escape(&summary::load_of(goal.load, scenario)),
            escape(&goal.figure)
        ));
    }
    format!(
        "<section>\n<h2>Goals of leno</h2>\n<p class=\"note\">Reached or missed only where the 95 % interval in brackets says \
         so.</p>\n<table class=\"goals\">\n<tbody>\n{rows}</tbody>\n</table>\n</section>\n"
    )
}

/// The findings of the scenario, as a list of sentences; empty if there are no findings.
pub(super) fn findings(results: &Results, scenario: Scenario) -> String {
    let findings = super::super::findings(results, scenario);
    if findings.is_empty() {
        return String::new();
    }
    let items: String = findings.iter().map(|finding| format!("<li>{}</li>\n", escape(finding))).collect();
    format!("<section>\n<h2>Findings</h2>\n<ul class=\"prose\">\n{items}</ul>\n</section>\n")
}

/// All figures, for reference.
pub(super) fn full(results: &Results, scenario: Scenario) -> String {
    let table = table::table(results, scenario);
    let width = table.columns.len();
    let head: String = table.columns.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
    let mut body = String::new();
    for section in &table.sections {
        let skew = if section.skew_ms > 0 { format!("skew {} ms, ", section.skew_ms) } else { String::new() };
        let case = match section.condition {
            condition if condition.is_usual() && !scenario.has_conditions() => String::new(),
            condition => format!("{condition}: "),
        };
        let name = escape(&format!("{case}{skew}{}", labels::load(section.load)));
        body.push_str(&format!(
            "<tr class=\"group\"><th colspan=\"{width}\" scope=\"rowgroup\"><span>{name}</span></th></tr>\n"
        ));
        for (target, cells) in &section.rows {
            let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            body.push_str(&format!("{}{cells}</tr>\n", row_start(*target)));
        }
    }
    for (target, why) in &table.skipped {
        let (start, why) = (row_start(*target), escape(why));
        body.push_str(&format!(
            "{start}<td class=\"skipped\" colspan=\"{}\">not measured: {why}</td></tr>\n",
            width - 1
        ));
    }
    format!(
        "<section>\n<h2>All figures</h2>\n<p class=\"note\">Medians over the repeats; sd is the standard deviation over them, \
         [ ] the least and the greatest. {}.</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All figures\">\n\
         <table class=\"full\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n</section>\n",
        escape(&figures::ratio_signs())
    )
}

fn row_start(target: TargetKind) -> String {
    let class = if target.is_leno() { " class=\"own\"" } else { "" };
    format!("<tr{class}><th scope=\"row\">{}</th>", target.name())
}
