//! The notes of a report: what it leaves out, how the column "here" was measured, and what makes figures doubtful.

use crate::chart::number::{grouped, short, significant};
use crate::experiment::record::{Machine, Run, TargetKind};
use crate::report::{FOREIGN_CPU_LIMIT, Statistic, has_ztunnel, is_late};

use super::cost::COST_OF_SERVICES;
use super::definition::{CPU_FAILED_MAX, Column, Publication, Value};
use super::figures::{Measured, balances_connections};
use super::options::Scale;
use super::record::State;

/// Fraction of failed calls of a condition above which the report notes the failures.
const FEW_ERRORS: f64 = 0.001;

/// Lists what the report lacks: experiments that did not end, and parts of the publication that the lab left out or
/// changed.
pub(super) fn left_out(measured: &Measured) -> Vec<String> {
    let (description, publication) = (&measured.description, measured.publication());
    let mut list = unfinished(measured);
    list.extend(scale(publication, description.scale, &description.changes));
    list.extend(publication.never_shown.iter().map(|&it| it.to_owned()));
    list
}

/// Describes what a scale leaves out of a publication or keeps, and the options that change the scale.
pub(super) fn scale(publication: &Publication, scale: Scale, changes: &[String]) -> Vec<String> {
    // The scale's sentences have the scale's own durations and repeats.
    let except = if changes.is_empty() { "" } else { ", except for the options below" };
    let of_scale = match scale {
        Scale::Quick => publication.quick_leaves_out,
        Scale::Full => &[publication.full_keeps],
    };
    let of_scale = of_scale.iter().map(|it| format!("Scale {}{except}: {it}", scale.name()));
    of_scale.chain(changes.iter().cloned()).collect()
}

/// Lists the experiments that failed, have not run or did not end. If the whole measurement was interrupted or has not
/// ended, the first line states that.
fn unfinished(measured: &Measured) -> Vec<String> {
    let description = &measured.description;
    let mut list = Vec::new();
    if description.is_interrupted {
        list.push("Interrupted: the report has what was measured until then.".to_owned());
    } else if description.ended.is_none() {
        list.push("Not complete: the measurement has not ended, or was killed.".to_owned());
    }
    for step in &description.steps {
        match &step.state {
            State::Failed(why) => list.push(format!("The experiment {} failed: {why}", step.name)),
            State::Waiting => list.push(format!("The experiment {} has not run.", step.name)),
            State::Running => list.push(format!("The experiment {} did not end.", step.name)),
            State::Done => {}
        }
    }
    list
}

/// Describes, in sentences, how the figures of the column "here" were measured.
pub(super) fn here(measured: &Measured) -> Vec<String> {
    let description = &measured.description;
    let Machine { cpus, cpu_model, memory_bytes, kernel } = &description.machine;
    let memory = significant(*memory_bytes as f64 / 1e9);
    let ended = description.ended.as_deref().unwrap_or("not recorded");
    let links = if has_ztunnel(&description.versions) {
        " Only the calls of Istio ambient also pass links between network namespaces on this machine, with netfilter rules."
    } else {
        ""
    };
    let mut list = vec![
        format!(
            "One machine: {cpus} CPUs ({cpu_model}), {memory} GB, Linux {kernel}. Started {}, ended {ended}.",
            description.started
        ),
        format!(
            "The load, the servers and all proxies share this machine and its {cpus} CPUs, and calls go over loopback. There is \
             no network between them.{links}"
        ),
        "Absolute figures of two machines do not compare. Orders do, and ratios within one machine.".to_owned(),
    ];
    let has_costs = columns(measured).any(|column| matches!(column.value, Value::Cost(..)));
    list.extend(has_costs.then(|| description.prices.sentence()));
    let has_services = columns(measured).any(|column| matches!(column.unit, "nodes" | "USD a month"));
    list.extend(has_services.then(|| COST_OF_SERVICES.to_owned()));
    let has_memory = columns(measured).any(|column| matches!(column.unit, "MB" | "KB"));
    list.extend(has_memory.then(|| {
        "Memory is resident memory. Several processes may share a page, such as a page of their program file. The sum over \
         all proxies counts this page once for each process."
            .to_owned()
    }));
    list
}

fn columns(measured: &Measured) -> impl Iterator<Item = &'static Column> {
    measured.publication().tables.iter().flat_map(|table| table.columns)
}

/// Lists the observations that make figures doubtful, such as failed calls, for each condition.
pub(super) fn doubts(measured: &Measured) -> Vec<String> {
    let mut list = Vec::new();
    if measured.description.is_debug_build {
        list.push("The load was a debug build, so all figures mean nothing. Build leno with --release.".to_owned());
    }
    for (step, recorded) in &measured.steps {
        for skipped in &recorded.experiment.skipped {
            let name = measured.publication().condition(skipped.target);
            list.push(format!("{name} in {step}: {}", skipped.why));
        }
        list.extend(recorded.notes.iter().map(|note| format!("{step}: {note}")));
        for condition in measured.publication().conditions {
            let runs: Vec<&Run> = recorded.runs.iter().filter(|run| run.target == condition.target).collect();
            let found = doubts_of(&runs, condition.target);
            list.extend((!found.is_empty()).then(|| format!("{} in {step}: {}.", condition.name, found.join("; "))));
        }
    }
    list.extend(missing(measured));
    list
}

fn doubts_of(runs: &[&Run], target: TargetKind) -> Vec<String> {
    let count = |is: &dyn Fn(&Run) -> bool| runs.iter().filter(|run| is(run)).count();
    let of = |count: usize, what: &str| (count > 0).then(|| format!("{count} of {} runs {what}", runs.len()));
    let (calls, errors) = runs.iter().fold((0, 0), |sum, run| (sum.0 + run.calls, sum.1 + run.errors));
    let is_failing = errors as f64 > FEW_ERRORS * (calls + errors) as f64;
    let failed = is_failing.then(|| {
        let first = runs.iter().find_map(|run| run.first_error.as_deref()).unwrap_or("no reason was noted");
        format!("{} of {} calls failed, the first: {first}", grouped(errors), grouped(calls + errors))
    });
    let luck = balances_connections(target).then(|| count(&|run| run.skew_ms > 0 && run.slow_share > 0.5));
    let slow_runs = count(&|run| run.skew_ms > 0);
    [
        of(count(&|run| run.calls == 0), "had no answered call"),
        failed,
        luck.filter(|_| slow_runs > 0)
            .map(|hit| format!("in {hit} of {slow_runs} runs, most calls went to the slow pod, by luck")),
        of(
            count(&|run| run.at_ceiling),
            "were near the load's own limit, so the machine limits their calls per second",
        ),
        of(
            count(&is_late),
            "had over 0.5 % late calls: the load's machine, not the target, made their latencies longer",
        ),
        of(count(&|run| run.foreign_cpu > FOREIGN_CPU_LIMIT), "were disturbed: other programs used the CPUs"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Lists, for each condition, the figures that at least one of its runs lacks.
fn missing(measured: &Measured) -> Vec<String> {
    let mut list = Vec::new();
    for column in columns(measured).filter(|column| column.better.is_some()) {
        for condition in measured.publication().conditions.iter().filter(|it| it.target.is_proxy()) {
            let [at] = column.value.parts()[..] else { continue };
            let (mut with, mut all) = (0, 0);
            for run in measured.runs(at, condition.target) {
                all += 1;
                with += usize::from((at.figure)(run).is_some());
            }
            if with < all {
                let name = condition.name;
                list.push(format!("{name} has no {}: {} of {all} repeats had none.", column.what, all - with));
            }
        }
    }
    list
}

/// Explains the columns and the marks of the tables.
pub(super) fn legend(measured: &Measured) -> Vec<String> {
    let repeats =
        measured.steps.iter().flat_map(|(_, recorded)| &recorded.runs).map(|run| run.repeat).max().unwrap_or(0);
    let mut list = vec![
        "here: mean over the repeats, ± half of its 95 % interval (Student's), which needs two repeats. theirs: as published. \
         ratio: here divided by theirs, which includes the difference of the machines."
            .to_owned(),
        "In brackets: the figure divided by the figure of the condition that each table names, on the same machine.".to_owned(),
    ];
    if columns(measured).any(|column| column.is_by_luck) {
        list.push(
            "worst: the condition chooses a server for each connection, so luck decides whether its calls reach the slow pod. \
             The worst repeat stands in place of the mean, and the condition has no place in the order."
                .to_owned(),
        );
    }
    let shown = |statistic: &Statistic| columns(measured).any(|column| column.value.statistic() == Some(*statistic));
    let limit = |statistic: Statistic| format!("{} % for {statistic}", short(statistic.failed_max() * 100.0));
    let limits: Vec<String> = Statistic::ALL.into_iter().filter(shown).map(limit).collect();
    list.extend((!limits.is_empty()).then(|| {
        format!(
            "Latencies: of the answered calls. A failed call counts as infinitely slow. If more of a condition's calls \
             failed than a limit allows, its figure is marked \"failing\". It has no place in the first sentence, in \
             the lists of better and worse figures, and in the order, and it has no ✓ or ✕ and no ratio. The limits: {}.",
            limits.join(", ")
        )
    }));
    let has_cpu =
        columns(measured).any(|column| column.value.statistic().is_none() && column.value.failed_max().is_some());
    list.extend(has_cpu.then(|| {
        format!(
            "CPU time and its price: a failed call takes less CPU time than an answered one. If more than {} % of a \
             condition's calls failed, its figure is marked \"failing\" too, and has no place in the lists and in the order.",
            short(CPU_FAILED_MAX * 100.0)
        )
    }));
    if columns(measured).any(|column| column.green.is_some()) {
        list.push(
            "✓ green: the p99 is at most 1.1 times, or the calls per second are at least 0.9 times, the figure with all pods \
             alike."
                .to_owned(),
        );
    }
    list.extend((repeats == 1).then(|| "With one repeat, no figure has an interval.".to_owned()));
    list
}

#[cfg(test)]
#[path = "notes_tests.rs"]
mod tests;
