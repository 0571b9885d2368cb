//! `report.html`: one self-contained page, without network resources or scripts.
//!
//! Its markup after the doctype is well-formed XML, and all external text passes through [`escape`].

mod bars;
mod charts;
mod scorecard;
mod tables;

use crate::chart::number::{grouped, significant};
use crate::chart::text::escape;
use crate::chart::{DARK, LIGHT};
use crate::experiment::record::{Ceiling, Experiment, Scenario};

use super::group::Results;
use super::{labels, limits, verdict};

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub(super) fn html(results: &Results) -> String {
    let scenarios = results.scenarios();
    let name = scenarios.first().map_or("", |&scenario| labels::scenario(scenario));
    let sections: String = scenarios.iter().map(|&scenario| section(results, scenario)).collect();
    document(name, &format!("{sections}{}{}", cannot_tell(results), about(results)))
}

/// A page in the style of all reports. `body` must be well-formed XML.
pub(crate) fn document(name: &str, body: &str) -> String {
    let style = STYLE.replace("/*LIGHT*/", LIGHT).replace("/*DARK*/", DARK);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>Leno lab: {}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(name),
    )
}

fn section(results: &Results, scenario: Scenario) -> String {
    let experiment = results.experiment;
    let repeats = results.of(scenario).map(|group| group.runs.len()).max().unwrap_or_default();
    format!(
        "<header>\n<p class=\"eyebrow\">Leno lab · {}</p>\n<h1>{}</h1>\n<p class=\"lead\">{} {} of {} s, the targets taking \
         turns. {}</p>\n</header>\n{}{}{}{}{}",
        escape(labels::scenario(scenario)),
        escape(&verdict::sentence(results, scenario)),
        escape(&labels::scenario_is(scenario, experiment)),
        if repeats == 1 { "1 repeat".to_owned() } else { format!("{repeats} repeats") },
        grouped(experiment.duration_s.into()),
        escape(&experiment.started),
        tables::findings(results, scenario),
        scorecard::html(results, scenario),
        tables::goals(results, scenario),
        charts::html(results, scenario),
        tables::full(results, scenario),
    )
}

fn cannot_tell(results: &Results) -> String {
    let items: String = limits::limits(results).iter().map(|limit| format!("<li>{}</li>\n", escape(limit))).collect();
    format!("<section>\n<h2>What this cannot tell</h2>\n<ul class=\"prose\">\n{items}</ul>\n</section>\n")
}

/// Machine, versions, and the command to repeat the experiment.
fn about(results: &Results) -> String {
    let experiment = results.experiment;
    let mut facts = labels::places(experiment);
    facts.extend((experiment.ceiling != Ceiling::default()).then(|| ("ceiling", ceiling(experiment))));
    facts.push(("started", experiment.started.clone()));
    facts.extend(experiment.versions.iter().map(|it| (it.target.name(), it.version.clone())));
    facts.extend(experiment.skipped.iter().map(|it| (it.target.name(), format!("not measured: {}", it.why))));
    let facts = facts.iter().map(|(name, fact)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(fact)));
    format!(
        "<section>\n<h2>Where and with what</h2>\n<dl>\n{}</dl>\n<h3>Repeat it</h3>\n<pre><code>{}</code></pre>\n</section>\n",
        facts.collect::<String>(),
        escape(&experiment.command)
    )
}

/// The highest rates that the lab's load reached without a proxy: to one backend, and to all backends.
fn ceiling(experiment: &Experiment) -> String {
    format!(
        "{} calls/s of one bare backend, {} of all {}",
        significant(experiment.ceiling.load_rps),
        significant(experiment.ceiling.backends_rps),
        experiment.backends
    )
}

#[cfg(test)]
#[path = "page_tests.rs"]
pub(crate) mod tests;
