//! The experiments of a publication as command lines of `leno lab run`.

use std::time::Duration;

use clap::Parser;

use super::definition::Step;
use super::options::{Options, Scale};
use crate::error::{Error, Result};
use crate::experiment::record::TargetKind;
use crate::experiment::{self, expected_duration};

/// An experiment of a publication, before it runs.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    /// The step's name, which is also the name of its directory.
    pub(super) name: &'static str,
    /// The command line that runs this experiment alone, without the program's name.
    pub(super) words: Vec<String>,
    pub(super) options: experiment::Options,
    /// Expected duration.
    pub(super) duration: Duration,
}

/// The arguments of `leno lab run`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    options: experiment::Options,
}

/// Returns the publication's experiments, planned for `targets`.
///
/// # Errors
/// If an option does not fit one of the experiments.
pub(super) fn plan(options: &Options, targets: &[TargetKind]) -> Result<Vec<Planned>> {
    options.name.publication().steps.iter().map(|step| planned(options, step, targets)).collect()
}

fn planned(options: &Options, step: &'static Step, targets: &[TargetKind]) -> Result<Planned> {
    let mut words = words(options, step);
    let names: Vec<&str> = targets.iter().copied().map(TargetKind::name).collect();
    words.extend(["--targets".to_owned(), names.join(",")]);
    words.extend(["--out".to_owned(), options.out().join(step.name).display().to_string()]);
    words.extend(options.programs.words());
    words.extend(options.seed.iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]));
    let Line { options: parsed } = Line::try_parse_from(&words).map_err(|error| {
        let why = error.to_string().lines().next().unwrap_or_default().to_owned();
        Error::Usage(format!("leno lab run {}: {why}", words.join(" ")))
    })?;
    // Set the paths in the parsed options, because a path may be invalid UTF-8, which `words` cannot represent.
    let parsed =
        experiment::Options { out: Some(options.out().join(step.name)), programs: options.programs.clone(), ..parsed };
    let duration = expected_duration(&parsed, targets.len())?;
    Ok(Planned { name: step.name, words, options: parsed, duration })
}

/// The words of the step's command line at the scale of `options`. Durations and the number of repeats in `options`
/// replace the step's own values.
fn words(options: &Options, step: &Step) -> Vec<String> {
    let line = match options.scale {
        Scale::Quick => step.quick,
        Scale::Full => step.full,
    };
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let changes =
        [("--duration-s", options.duration_s), ("--warm-up-s", options.warm_up_s), ("--repeat", options.repeat)];
    for (flag, value) in changes {
        let place = words.iter().position(|word| word == flag);
        // Replace only flags that the step has. Any other flag may be invalid for the step: the warm-up of `steady`,
        // for example, has no fixed duration.
        if let Some((place, value)) = place.zip(value) {
            words[place + 1] = value.to_string();
        }
    }
    words
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
