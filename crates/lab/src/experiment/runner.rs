//! `leno lab run`: from the options to the last line of `runs.jsonl`.
//!
//! The backends are the same processes for the whole experiment. Every run starts a new proxy: no state of an earlier
//! run affects the proxy, and the proxy's memory peak belongs to this run alone.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ceiling;
use super::cluster;
use super::limits;
use super::machine::started;
use super::options::{Options, Settings};
use super::output::Output;
use super::progress::Progress;
use super::record::{Ceiling, Experiment, Machine, Scenario, Skipped, TargetKind, Version};
use super::schedule::{self, Turn};
use crate::backends::Backends;
use crate::error::{Error, Result};
use crate::formats::fortio;
use crate::report::{self, Written};
use crate::targets::{self, l4};

/// Approximate time to start and end the programs of a run.
const AROUND_A_RUN: Duration = Duration::from_secs(1);

/// Runs an experiment and writes its files, run by run. Progress goes to the terminal.
///
/// For netfilter rules this process first restarts itself in a separate network namespace.
///
/// # Errors
/// If the options request something impossible, if no target is installed, or if a backend ends. A target that is
/// missing or fails is skipped and named in `lab.json`; failed calls are counted.
pub fn run(options: &Options) -> Result<()> {
    run_as(options, words())
}

/// Runs an experiment whose command line is `words`, the program included.
///
/// # Errors
/// The errors of [`run`].
pub(crate) fn run_as(options: &Options, words: impl Iterator<Item = String>) -> Result<()> {
    if options.cluster.cluster {
        return cluster::run(options, words);
    }
    let settings = options.settings()?;
    limits::ensure_open_files(&settings)?;
    let output = Output::create(&settings.out)?;
    let (versions, skipped) = look_for_targets(&settings)?;
    if versions.iter().any(|version| targets::needs_namespace(version.target, settings.protocol, &settings.programs)) {
        if !l4::is_inside() {
            return Err(l4::enter());
        }
        l4::set_up_namespace()?;
    }
    let command = command(words, settings.seed);
    Runner::set_up(settings, output, versions, skipped, command)?.run_all()
}

/// Prepares this process for an experiment. Checks the limit of open files. If `targets` need a separate network
/// namespace, restarts the process in a new namespace.
///
/// A process that runs several experiments prepares all of them before it runs the first. The restart repeats the whole
/// command, so a restart between two experiments would repeat the first experiment.
///
/// # Errors
/// If the limit of open files is too low, or the restart fails.
pub(crate) fn prepare(options: &Options, targets: &[TargetKind]) -> Result<()> {
    let settings = options.settings()?;
    limits::ensure_open_files(&settings)?;
    let is_needed =
        targets.iter().any(|&target| targets::needs_namespace(target, settings.protocol, &settings.programs));
    if is_needed && !l4::is_inside() { Err(l4::enter()) } else { Ok(()) }
}

/// Expected duration of an experiment with this number of targets.
///
/// # Errors
/// If the options request something impossible.
pub(crate) fn expected_duration(options: &Options, targets: usize) -> Result<Duration> {
    let settings = options.settings()?;
    let runs = settings.cases.len() as u32 * settings.repeat * targets as u32;
    let ceiling = if settings.scenario.has_calls() { ceiling::usual_length(&settings) } else { Duration::ZERO };
    Ok(usual_length(&settings) * runs + ceiling)
}

/// Returns the versions of the targets that can run here, and why the other targets cannot.
fn look_for_targets(settings: &Settings) -> Result<(Vec<Version>, Vec<Skipped>)> {
    let (mut versions, mut skipped) = (Vec::new(), Vec::new());
    for &target in &settings.targets {
        match targets::version(target, &settings.programs) {
            Ok(version) => versions.push(Version { target, version }),
            Err(error) => skipped.push(Skipped { target, why: error.to_string() }),
        }
    }
    match (&versions[..], &skipped[..]) {
        ([], [Skipped { target, why }, ..]) => {
            Err(Error::Usage(format!("--targets: none of them can run here; {target}: {why}")))
        }
        _ => Ok((versions, skipped)),
    }
}

/// A running experiment.
pub(super) struct Runner {
    pub(super) settings: Settings,
    output: Output,
    pub(super) logs: PathBuf,
    pub(super) backends: Backends,
    turns: Vec<Turn>,
    progress: Progress,
    pub(super) experiment: Experiment,
}

impl Runner {
    fn set_up(
        settings: Settings,
        output: Output,
        versions: Vec<Version>,
        skipped: Vec<Skipped>,
        command: String,
    ) -> Result<Self> {
        let logs = output.logs();
        let targets: Vec<TargetKind> = versions.iter().map(|version| version.target).collect();
        let turns = schedule::turns(&settings, &targets, settings.backends);
        let progress = Progress::new(turns.len(), usual_length(&settings));
        warn(&skipped, &progress)?;
        let (time, cpus) = (settings.service_time, &settings.cpus.others);
        let backends = Backends::start(settings.backends, settings.protocol, time, &logs, cpus)?;
        let ceiling = if settings.scenario.has_calls() {
            let ceiling = Ceiling::measure(&settings, &backends, &logs)?;
            progress.say(&ceiling.to_string())?;
            ceiling
        } else {
            Ceiling::default()
        };
        let experiment = Experiment {
            scenario: settings.scenario,
            protocol: settings.protocol,
            traffic: settings.traffic,
            graph: settings.graph,
            command,
            started: started(),
            duration_s: settings.measured.as_secs() as u32,
            warm_up_s: settings.warm_up.as_secs() as u32,
            repeats: settings.repeat,
            backends: settings.backends as u32,
            machine: Machine::here(),
            cluster: None,
            workload: None,
            targets,
            versions,
            skipped,
            ceiling,
        };
        Ok(Self { settings, output, logs, backends, turns, progress, experiment })
    }

    fn run_all(mut self) -> Result<()> {
        self.output.describe(&self.experiment)?;
        for turn in std::mem::take(&mut self.turns) {
            if self.experiment.is_given_up(turn.target) {
                self.progress.pass();
                continue;
            }
            self.progress.begin(&turn);
            match self.run_one(&turn) {
                Ok(run) => {
                    self.output.append(&run)?;
                    fortio::save(&self.settings.out, &self.experiment, &run)?;
                    self.progress.end(&run)?;
                }
                Err(error) => self.give_up(&turn, &error)?,
            }
        }
        self.progress.finish();
        let Written { summary, page } = report::write(&self.settings.out)?;
        self.progress.say(&format!("report: {} and {}", page.display(), summary.display()))
    }

    /// Continues without a failed target. Writes the reason to `lab.json` at once, so that the file has the reason even
    /// if the experiment is killed later. Fails if a backend has ended: then no target can be measured.
    fn give_up(&mut self, turn: &Turn, error: &Error) -> Result<()> {
        self.backends.ensure_running()?;
        let why = self.experiment.give_up(turn.target, turn.repeat, error);
        self.progress.give_up(turn.target, &why)?;
        self.output.describe(&self.experiment)
    }
}

fn usual_length(settings: &Settings) -> Duration {
    match settings.scenario {
        Scenario::Memory => Duration::from_secs(20),
        Scenario::Footprint => settings.warm_up + settings.measured + Duration::from_secs(15),
        // The search takes about ten trials of 4 s. One confirmation follows.
        Scenario::Capacity => Duration::from_secs(45) + settings.warm_up + settings.measured,
        _ => settings.warm_up + settings.measured + AROUND_A_RUN,
    }
}

/// Warns about skipped targets, and about a debug build, whose figures are useless.
fn warn(skipped: &[Skipped], progress: &Progress) -> Result<()> {
    for Skipped { target, why } in skipped {
        progress.say(&format!("warning: {target} is skipped: {why}"))?;
    }
    if cfg!(debug_assertions) {
        progress.say("warning: this is a debug build, whose figures say nothing; build it with --release")?;
    }
    Ok(())
}

/// The words of this process's command line, the program included.
pub(crate) fn words() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| printable(&word))
}

/// Returns a word of a command line as text. A path may be invalid UTF-8; its invalid bytes become U+FFFD.
fn printable(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}

/// The command line, including the chosen seed.
pub(crate) fn command(words: impl Iterator<Item = String>, seed: u64) -> String {
    let mut words: Vec<String> = words.collect();
    if let Some(program) = words.first_mut() {
        let name = Path::new(program.as_str()).file_name().map(|name| name.to_string_lossy().into_owned());
        *program = name.unwrap_or_default();
    }
    if !words.iter().any(|word| word.starts_with("--seed")) {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    words.join(" ")
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
