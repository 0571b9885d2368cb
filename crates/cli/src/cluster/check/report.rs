//! Checks and their results.

use std::fmt::Write;

use serde::Serialize;

use crate::cluster::connect::ClusterError;
use crate::cluster::printable::line;
use crate::cluster::table::coloured;

/// Maximum number of findings that the report shows for one check.
const FINDINGS_MAX: usize = 20;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Ok,
    /// The component works, but not as intended.
    Warning,
    Failed,
    /// The check did not run: a check that it depends on failed, the user lacks a right, or the cluster has nothing to
    /// check.
    #[serde(rename = "not run")]
    NotRun,
}

/// One finding, with the section and the name of its check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    pub(crate) verdict: Verdict,
    /// The reason for the verdict, in one line.
    pub(crate) why: String,
    /// The remedy: a command to run, or an action to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

/// One finding of a check, before [`Checklist::check`] adds the check's section and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) why: String,
    pub(super) fix: Option<String>,
}

/// The results of the checks. Each check stands after the checks that it depends on.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Checklist {
    #[serde(skip)]
    section: &'static str,
    checks: Vec<Check>,
}

impl Finding {
    pub(crate) fn ok(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, why: line(&why.into()), fix: None }
    }

    pub(crate) fn warning(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, why: line(&why.into()), fix: Some(line(&fix.into())) }
    }

    pub(crate) fn failed(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { verdict: Verdict::Failed, why: line(&why.into()), fix: Some(line(&fix.into())) }
    }

    /// A check that did not run, because `need` failed or did not run.
    pub(super) fn not_run(need: &str) -> Self {
        Self { verdict: Verdict::NotRun, why: format!("first: {need}"), fix: None }
    }

    /// A check that did not run for another reason than a failed check.
    pub(super) fn skipped(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotRun, why: line(&why.into()), fix: None }
    }

    /// Downgrades a failure to a warning, for a fault despite which the installation works.
    pub(crate) fn into_warning(self) -> Self {
        Self { verdict: Verdict::Warning, ..self }
    }
}

impl From<&ClusterError> for Finding {
    fn from(error: &ClusterError) -> Self {
        Self::failed(error.what.clone(), error.fix.clone())
    }
}

impl From<&ClusterError> for Vec<Finding> {
    fn from(error: &ClusterError) -> Self {
        vec![error.into()]
    }
}

impl From<Finding> for Vec<Finding> {
    fn from(finding: Finding) -> Self {
        vec![finding]
    }
}

impl Checklist {
    /// Starts a section of the report. The checks that [`Self::check`] adds from now on belong to it.
    pub(crate) fn section(&mut self, name: &'static str) {
        self.section = name;
    }

    /// Runs a check and adds its findings. If a check in `needs` failed or did not run, does not run this check, and
    /// adds [`Verdict::NotRun`].
    pub(crate) fn check<F: Into<Vec<Finding>>>(
        &mut self,
        name: &'static str,
        needs: &[&'static str],
        conclude: impl FnOnce() -> F,
    ) {
        let is_missing = |need: &&&str| {
            let stops = |verdict| matches!(verdict, Verdict::Failed | Verdict::NotRun);
            self.checks.iter().any(|check| check.name == **need && stops(check.verdict))
        };
        let mut findings: Vec<Finding> = match needs.iter().find(is_missing) {
            Some(need) => vec![Finding::not_run(need)],
            None => conclude().into(),
        };
        let rest = findings.len().saturating_sub(FINDINGS_MAX);
        if rest > 0 {
            // Put failures first. The report shows only the first [`FINDINGS_MAX`] findings, and a check that fails
            // must show at least one failure.
            findings.sort_by_key(|finding| match finding.verdict {
                Verdict::Failed => 0,
                Verdict::Warning => 1,
                Verdict::Ok | Verdict::NotRun => 2,
            });
        }
        let section = self.section;
        for Finding { verdict, mut why, fix } in findings.into_iter().take(FINDINGS_MAX) {
            if rest > 0 && self.checks.iter().filter(|check| check.name == name).count() == FINDINGS_MAX - 1 {
                let _ = write!(why, " (and {rest} more)");
            }
            self.checks.push(Check { section, name, verdict, why, fix });
        }
    }

    #[cfg(test)]
    pub(crate) fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The first check that failed.
    pub(crate) fn failure(&self) -> Option<&Check> {
        self.checks.iter().find(|check| check.verdict == Verdict::Failed)
    }

    /// The report as text for people.
    pub(crate) fn text(&self, has_colours: bool) -> String {
        let mut text = String::new();
        let width = self.checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
        let mut section = "";
        for check in &self.checks {
            if check.section != section {
                let gap = if section.is_empty() { "" } else { "\n" };
                let _ = writeln!(text, "{gap}{}", check.section);
                section = check.section;
            }
            let (name, why) = (check.name, &check.why);
            let _ = writeln!(text, "  {}  {name:<width$}  {why}", check.verdict.word(has_colours));
            if let Some(fix) = &check.fix {
                let _ = writeln!(text, "           {:<width$}  -> {fix}", "");
            }
        }
        text + "\n" + &self.summary() + "\n"
    }

    fn summary(&self) -> String {
        let count = |verdict| self.checks.iter().filter(|check| check.verdict == verdict).count();
        let (failed, warnings, not_run) = (count(Verdict::Failed), count(Verdict::Warning), count(Verdict::NotRun));
        let mut parts = vec![format!("{} ok", count(Verdict::Ok))];
        let words =
            [(warnings, if warnings == 1 { "warning" } else { "warnings" }), (failed, "failed"), (not_run, "not run")];
        parts.extend(words.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")));
        parts.join(", ")
    }
}

impl Verdict {
    /// The verdict as a word, padded to seven letters.
    fn word(self, has_colours: bool) -> String {
        let (word, colour) = match self {
            Self::Ok => ("ok", "32"),
            Self::Warning => ("warning", "33"),
            Self::Failed => ("failed", "31"),
            Self::NotRun => ("not run", "2"),
        };
        coloured(word, colour, has_colours)
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
