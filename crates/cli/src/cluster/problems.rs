//! `leno problems`: prints the problems that an operator should look at first. The command reads the proxies for a
//! window of time, and finds the same kinds of problems as the dashboard. Its figures are means over the whole window,
//! while the dashboard's figures are moving means.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use leno_model::settings::{format_duration, parse_duration};

use super::block_on;
use super::dashboard::{Found, Problem, Severity, find_problems};
use super::printable::{self, line};
use super::source::Source;
use super::table::{Output, coloured, has_colours, show};

/// Minimum window, in which each proxy is read about three times: the command reads each proxy every 2 s, and counts
/// the calls between the first and the last reading.
const WINDOW_MIN: Duration = Duration::from_secs(5);
const WINDOW_MAX: Duration = Duration::from_secs(5 * 60);

/// The exit code if the command finds a problem with the severity error. A command that fails has exit code 1.
const ERROR_FOUND: u8 = 3;

/// Options of `leno problems`.
#[derive(Args)]
#[command(after_help = "Exit code: 0 without an error among the problems, 3 with one, 1 if the command fails.")]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// How long to count calls: 5s to 5m
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_window)]
    window: Duration,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
}

impl Options {
    /// Shows the problems. The exit code is [`ERROR_FOUND`] if a problem has the severity error.
    pub(crate) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let found = block_on(find_problems(&self.source, self.window))??;
        show(self.output, &found, |found| text(found, self.window, has_colours()))?;
        let has_error = found.problems.iter().any(|problem| problem.severity == Severity::Error);
        Ok(if has_error { ExitCode::from(ERROR_FOUND) } else { ExitCode::SUCCESS })
    }
}

fn text(found: &Found, window: Duration, has_colours: bool) -> String {
    let Found { proxies, unread, problems } = found;
    let mut text = String::new();
    for Problem { severity, what, fix, .. } in problems {
        text += &format!("{}  {}\n         -> {}\n", severity.word(has_colours), line(what), line(fix));
    }
    let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let words = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let counts = words.map(|(severity, word)| (count(severity), word)).into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> =
        counts.map(|(count, word)| format!("{count} {word}{}", if count == 1 { "" } else { "s" })).collect();
    let found = if counts.is_empty() { "no problem found".to_owned() } else { counts.join(", ") };
    let watched = format!("{} watched for {}", printable::proxies(*proxies), format_duration(window));
    let unread = match unread {
        0 => String::new(),
        unread => format!("; {unread} more did not answer in time, and may have problems"),
    };
    let gap = if problems.is_empty() { "" } else { "\n" };
    format!("{text}{gap}{found}; {watched}{unread}\n")
}

impl Severity {
    /// The severity as a word, padded to seven letters.
    fn word(self, has_colours: bool) -> String {
        let (word, colour) = match self {
            Self::Error => ("error", "31"),
            Self::Warning => ("warning", "33"),
            Self::Note => ("note", "2"),
        };
        coloured(word, colour, has_colours)
    }
}

fn parse_window(text: &str) -> Result<Duration, String> {
    let window = parse_duration(text).filter(|window| (WINDOW_MIN..=WINDOW_MAX).contains(window));
    window.ok_or_else(|| "write a duration of 5s to 5m, for example 10s".to_owned())
}

#[cfg(test)]
#[path = "problems_tests.rs"]
mod tests;
