//! The content of a report, independent of its file format.

use super::figures::Measured;
use super::notes;
use super::record::{Description, State};
use super::sheet::{Sheet, sheets};
use super::standing::{Standing, sentence, standing};

/// A report in words and tables.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) description: &'a Description,
    pub(super) who: &'static str,
    pub(super) source: &'static str,
    pub(super) load: &'static str,
    pub(super) sentence: String,
    pub(super) sheets: Vec<Sheet>,
    pub(super) standing: Standing,
    pub(super) legend: Vec<String>,
    pub(super) left_out: Vec<String>,
    pub(super) here: Vec<String>,
    pub(super) doubts: Vec<String>,
}

/// A list in a report: its title and its lines.
pub(super) type Part<'a> = (&'static str, &'a [String]);

impl<'a> Document<'a> {
    pub(super) fn of(measured: &'a Measured) -> Self {
        let publication = measured.publication();
        Self {
            description: &measured.description,
            who: publication.who,
            source: publication.source,
            load: publication.load,
            sentence: sentence(measured),
            sheets: sheets(measured),
            standing: said(standing(measured)),
            legend: notes::legend(measured),
            left_out: notes::left_out(measured),
            here: notes::here(measured),
            doubts: notes::doubts(measured),
        }
    }

    /// Three lists of figures: figures in which Leno is better than the best other condition, figures in which Leno is
    /// worse, and figures that the measurement cannot decide.
    pub(super) fn standings(&self) -> [Part<'_>; 3] {
        [
            ("Where Leno is better than the best other condition", &self.standing.ahead),
            ("Where Leno is worse than the best other condition", &self.standing.behind),
            ("Where this measurement cannot tell", &self.standing.level),
        ]
    }

    /// The lists that follow the tables, in the report's order.
    pub(super) fn parts(&self) -> [Part<'_>; 4] {
        [
            ("How to read the tables", &self.legend),
            ("What is left out", &self.left_out),
            ("What \"here\" is", &self.here),
            ("What makes figures doubtful", &self.doubts),
        ]
    }

    /// The command lines that repeat the measurement. The first one repeats all of it, and each further one repeats one
    /// experiment that has begun.
    pub(super) fn commands(&self) -> Vec<&str> {
        let steps = self.description.steps.iter().filter(|step| step.state != State::Waiting);
        let steps = steps.map(|step| step.command.as_str());
        std::iter::once(self.description.command.as_str()).chain(steps).collect()
    }
}

/// Adds the entry `No figure.` to an empty list, so that the report shows the list. Without the list, a reader could
/// not know that no figure belongs in it.
fn said(mut standing: Standing) -> Standing {
    for list in [&mut standing.ahead, &mut standing.behind] {
        if list.is_empty() {
            list.push("No figure.".to_owned());
        }
    }
    standing
}
