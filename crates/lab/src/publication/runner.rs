//! `leno lab publish`: runs the experiments of a publication one after the other, and writes its table.

use std::io::Write;
use std::process;
use std::time::Duration;

use indicatif::HumanDuration;

use super::document::Document;
use super::interruption::on_interruption;
use super::options::Options;
use super::plan::{Planned, plan};
use super::record::{Description, State, StepRecord};
use super::session::Session;
use super::standing::LENO;
use super::{notes, report, terminal};
use crate::error::{Error, Result, io};
use crate::experiment::record::{Machine, Skipped, TargetKind, Version};
use crate::experiment::{self, prepare, run_as, started};
use crate::report::Written;
use crate::targets;

/// Exit status after Ctrl-C, SIGTERM or SIGHUP: 128 plus the number of SIGINT, like the status of a program that Ctrl-C
/// ended.
const INTERRUPTED: i32 = 130;

/// Measures a publication. Writes the names of the experiments and the table to `out`; the experiments themselves write
/// their progress to the terminal.
///
/// If a condition needs netfilter rules, this process first restarts itself in a separate network namespace.
///
/// # Errors
/// If the options request something impossible, if Leno cannot run here, or if an experiment fails. After a failed
/// experiment, the report still has the other experiments. If another condition than Leno cannot run here, the
/// report has the reason.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let options = &Options { seed: Some(seed), ..options.clone() };
    let (versions, skipped) = look_for_conditions(options)?;
    let targets: Vec<TargetKind> = versions.iter().map(|version| version.target).collect();
    let plan = plan(options, &targets)?;
    for planned in &plan {
        prepare(&planned.options, &targets)?;
    }
    let session = Session::begin(&options.out(), describe(options, &plan, versions, skipped))?;
    let of_interruption = session.clone();
    on_interruption(move || of_interruption.interrupt(end_interrupted))?;
    announce(options, &plan, out).map_err(io("writing to the terminal"))?;
    let mut failed = None;
    for (index, planned) in plan.iter().enumerate() {
        say(out, &format!("\nexperiment {} of {}: {}", index + 1, plan.len(), command_of(planned)))?;
        session.note(index, State::Running)?;
        let words = std::iter::once("leno".to_owned()).chain(run_words(planned));
        let state = match run_as(&planned.options, words) {
            Ok(()) => State::Done,
            Err(error) => {
                let why = error.to_string();
                say(out, &format!("{} failed: {why}", planned.name))?;
                failed.get_or_insert(format!("the experiment {} failed: {why}", planned.name));
                State::Failed(why)
            }
        };
        session.note(index, state)?;
    }
    let Written { summary, page } = session.end()?;
    let measured = report::read(&options.out())?;
    terminal::write(&Document::of(&measured), out).map_err(io("writing to the terminal"))?;
    say(out, &format!("\nreport: {} and {}", page.display(), summary.display()))?;
    match failed {
        Some(why) => Err(Error::Usage(format!("{why}; the report has what was measured"))),
        None => Ok(()),
    }
}

/// Returns the versions of the conditions that can be measured here, and the reasons why the other conditions cannot.
///
/// # Errors
/// If Leno cannot run: every table needs Leno's row.
fn look_for_conditions(options: &Options) -> Result<(Vec<Version>, Vec<Skipped>)> {
    let asked = options.conditions()?;
    let (mut versions, mut skipped) = (Vec::new(), Vec::new());
    for target in options.name.publication().conditions.iter().map(|it| it.target) {
        if !asked.contains(&target) {
            skipped.push(Skipped { target, why: "--targets leaves it out; add it there".to_owned() });
            continue;
        }
        match targets::version(target, &options.programs) {
            Ok(version) => versions.push(Version { target, version }),
            Err(error) if target == LENO => return Err(error),
            Err(error) => skipped.push(Skipped { target, why: error.to_string() }),
        }
    }
    Ok((versions, skipped))
}

fn describe(options: &Options, plan: &[Planned], versions: Vec<Version>, skipped: Vec<Skipped>) -> Description {
    let step = |planned: &Planned| StepRecord {
        name: planned.name.to_owned(),
        command: command_of(planned),
        state: State::Waiting,
    };
    Description {
        publication: options.name,
        scale: options.scale,
        command: experiment::command(experiment::words(), options.seed.unwrap_or_default()),
        started: started(),
        ended: None,
        machine: Machine::here(),
        versions,
        skipped,
        is_debug_build: cfg!(debug_assertions),
        changes: options.changes(),
        prices: options.prices,
        steps: plan.iter().map(step).collect(),
        is_interrupted: false,
    }
}

/// Prints the publication, the number and total duration of its experiments, and the parts that the report will not
/// show.
fn announce(options: &Options, plan: &[Planned], out: &mut dyn Write) -> std::io::Result<()> {
    let publication = options.name.publication();
    let duration: Duration = plan.iter().map(|planned| planned.duration).sum();
    writeln!(out, "{}\n{}\n{}", publication.who, publication.source, publication.load)?;
    writeln!(
        out,
        "Scale {}: about {} in {} experiments; results in {}",
        options.scale.name(),
        HumanDuration(duration),
        plan.len(),
        options.out().display()
    )?;
    for line in notes::scale(publication, options.scale, &options.changes()) {
        writeln!(out, "  {line}")?;
    }
    publication.never_shown.iter().try_for_each(|it| writeln!(out, "  not shown: {it}"))
}

fn run_words(planned: &Planned) -> impl Iterator<Item = String> {
    ["lab", "run"].map(str::to_owned).into_iter().chain(planned.words.clone())
}

/// The command line that repeats one experiment without the others.
fn command_of(planned: &Planned) -> String {
    format!("leno {}", run_words(planned).collect::<Vec<_>>().join(" "))
}

fn say(out: &mut dyn Write, line: &str) -> Result<()> {
    writeln!(out, "{line}").map_err(io("writing to the terminal"))
}

/// Ends the process. The kernel then ends the programs that the experiment started.
fn end_interrupted(written: Result<Written>) {
    match written {
        Ok(Written { summary, page }) => {
            let (page, summary) = (page.display(), summary.display());
            eprintln!("leno: interrupted; the report of what was measured is in {page} and {summary}");
        }
        Err(error) => eprintln!("leno: interrupted; the report cannot be written: {error}"),
    }
    process::exit(INTERRUPTED);
}
