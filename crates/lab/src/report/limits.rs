//! The limitations of an experiment.

use std::collections::BTreeMap;

use crate::chart::number::{grouped, significant};
use crate::experiment::record::{Ceiling, Experiment, Scenario, TargetKind, Workload};

use super::group::{FOREIGN_CPU_LIMIT, LATE_LIMIT, Marks, Results};
use super::labels::has_ztunnel;
use super::load_columns::has_means;
use super::spread::LEAST_REPEATS;

/// Returns one paragraph for each limitation.
pub(super) fn limits(results: &Results) -> Vec<String> {
    let experiment = results.experiment;
    let all = results.groups.iter().map(super::group::Group::marks);
    let marks = all.fold(Marks::default(), |sum, group| Marks {
        runs: sum.runs + group.runs,
        at_ceiling: sum.at_ceiling + group.at_ceiling,
        late: sum.late + group.late,
        disturbed: sum.disturbed + group.disturbed,
        dead: sum.dead + group.dead,
        errors: sum.errors + group.errors,
    });
    let mut limits = results.notes.to_vec();
    limits.extend(missing_repeats(results));
    limits.push(place(experiment));
    limits.extend(experiment.workload.as_ref().map(workload));
    if experiment.ceiling != Ceiling::default() {
        let (alone, all) = (significant(experiment.ceiling.load_rps), significant(experiment.ceiling.backends_rps));
        let searched = experiment.scenario == Scenario::Capacity;
        let or_late = if searched { ", or sent over 1 % of their calls late," } else { "" };
        limits.push(format!(
        "The lab has a ceiling. Without any proxy its load makes {alone} calls/s of one bare backend and {all} of all \
         backends. {} of {} runs came within 20 % of that{or_late} (marked: ceiling): their calls/s say more of the lab than of \
         the target, and differences between such targets may be greater than shown.",
        marks.at_ceiling, marks.runs
    ));
    }
    limits.push(if experiment.cluster.is_some() {
        "Noise. The lab does not know what other Pods and programs did on the nodes meanwhile. No run is left out because \
         of its figures."
            .to_owned()
    } else {
        format!(
            "Noise. In {} of {} runs other programs used more than {FOREIGN_CPU_LIMIT} CPUs (marked: disturbed), what the \
             machine lent to other virtual machines included. No run is left out because of its figures.",
            marks.disturbed, marks.runs
        )
    });
    if marks.late > 0 {
        limits.push(format!(
            "Late calls. In {} of {} runs, the load sent more than {} % of its calls over 1 ms late, because the load could not \
             run (marked: late). The latency of such a call includes this delay, so the load's machine lengthened the \
             latencies, not the target.",
            marks.late,
            marks.runs,
            LATE_LIMIT * 100.0
        ));
    }
    limits.push(format!(
        "Figures are medians over the repeats; [ ] holds the least and the greatest, and for goals and ratios the \
         interval that holds the true median in at least 95 of 100 experiments (exact, from order statistics; it needs \
         {LEAST_REPEATS} repeats). Ratios are taken within each repeat. The interval of a standard deviation assumes \
         that the repeats vary normally. With many figures, one in twenty intervals is wrong by chance."
    ));
    limits.push(format!(
        "Runs are {} s long after {} s that are not counted: what happens more rarely, or only after hours, is not \
         seen, and p99.9 rests on one call in a thousand.",
        grouped(experiment.duration_s.into()),
        grouped(experiment.warm_up_s.into())
    ));
    if experiment.cluster.is_some() {
        limits.push(
            "CPU time and memory are the kubelets' own statistics, which have a new value every 10 to 15 s. CPU time \
             includes the opening of the connections and the warm-up, whose calls count too; the idle time around the load \
             is subtracted. Memory is the working set, as kubectl top shows it: the largest value until the first one \
             after the load. Proxies keep running from one run to the next, except in crowd and footprint. A control plane \
             and shared proxies also serve the other workloads of the cluster."
                .to_owned(),
        );
    }
    limits.push(
        "CPU per call depends on the load: many calls in flight share one wake-up, few pay for it each. Compare it \
         only at the same load."
            .to_owned(),
    );
    if experiment.cluster.is_none() {
        let memory = "Memory is of the whole process with its shared pages, at its peak under the load.";
        limits.push(memory.to_owned());
    }
    if results.scenarios().into_iter().any(has_means) {
        limits.push(
            "A mean with 95 % in its column's name has Student's interval, as publications print it: from two repeats on, \
             and only as good as the assumption that the repeats vary normally."
                .to_owned(),
        );
    }
    if experiment.cluster.is_none() && experiment.targets.iter().any(|target| target.has_tls()) {
        let ambient = if has_ztunnel(&experiment.versions) {
            " The target ambient is an exception: one waypoint and one ztunnel serve all backends. Its programs choose the \
             cipher suite by their own preferences, and the lab does not check it: ztunnel prefers TLS_AES_256_GCM_SHA384."
        } else {
            ""
        };
        limits.push(format!(
            "What speaks TLS speaks TLS 1.3 with TLS_AES_128_GCM_SHA256, P-256 certificates on both sides, and no \
             resumed sessions; keys are agreed on as client and server choose. In a mesh each backend has a proxy of its \
             own, and all proxies share the CPUs that a single one has; CPU is the sum of all, memory the largest's.{ambient}"
        ));
    }
    let is_by_connection = |target: &TargetKind| *target == TargetKind::Direct || target.is_netfilter();
    let by_connection = experiment.targets.iter().any(is_by_connection);
    if by_connection && experiment.workload.is_some() {
        limits.push(
            "Without a mesh, the cluster's Services choose a server for each connection, anew in each repeat. If the \
             servers differ, its figures depend on luck: look at their range."
                .to_owned(),
        );
    } else if by_connection && experiment.cluster.is_some() {
        limits.push(
            "Without a mesh, the cluster's Services choose a backend for each connection, anew in each repeat: whether that \
             is the slow one is a matter of luck, and so is the median. Look at its range."
                .to_owned(),
        );
    } else if by_connection && experiment.scenario != Scenario::Memory && experiment.scenario.has_calls() {
        limits.push(
            "direct and netfilter rules choose a backend for each connection, anew in each repeat: whether that is the slow one is \
             a matter of luck, and so is their median. Look at their range."
                .to_owned(),
        );
    }
    for &target in &experiment.targets {
        let runs = || results.groups.iter().filter(|group| group.target == target).flat_map(|group| group.runs.iter());
        let errors: u64 = runs().map(|run| run.errors).sum();
        if errors > 0 {
            let first = runs().find_map(|run| run.first_error.as_deref()).unwrap_or("no reason was noted");
            let (name, errors) = (target.name(), grouped(errors));
            let classes = by_class(runs().flat_map(|run| &run.error_classes));
            limits.push(format!("{errors} calls through {name} failed{classes}; the first: {first}"));
        }
    }
    if marks.dead > 0 {
        limits
            .push(format!("{} runs had not one call answered; they are left out of latencies and rates.", marks.dead));
    }
    limits
}

/// Lists the targets that have fewer repeats than planned, because a run was interrupted or failed. `None` if there are
/// no such targets.
fn missing_repeats(results: &Results) -> Option<String> {
    let Experiment { repeats, targets, .. } = results.experiment;
    let fewest = |&target: &TargetKind| {
        let counts = results.groups.iter().filter(|group| group.target == target).map(|group| group.runs.len());
        Some((target, counts.min().unwrap_or_default())).filter(|(_, count)| *count < *repeats as usize)
    };
    let short: Vec<String> =
        targets.iter().filter_map(fewest).map(|(target, count)| format!("{} {count}", target.name())).collect();
    let list = short.join(", ");
    (!short.is_empty())
        .then(|| format!("Not complete. Of {repeats} planned repeats, at least one case has fewer: {list}."))
}

/// Explains which properties of a user's workload the lab does not know.
fn workload(Workload { service, call }: &Workload) -> String {
    format!(
        "The servers behind {service} are not the lab's. The lab knows neither their own time for {call} nor their other \
         calls, which cost the proxies beside them CPU time too. Such a proxy also carries the calls of the runs without \
         its mesh; the lab counts its CPU time and memory for its own mesh alone. So the figures hold what a mesh adds \
         to this Service as it is. Any answer with gRPC status 0 or HTTP status 200 to 299 counts as OK; the lab does not \
         read its content."
    )
}

/// Explains how the one machine, or the cluster, of the experiment limits the figures.
fn place(experiment: &Experiment) -> String {
    let Some(cluster) = &experiment.cluster else {
        let cpus = experiment.machine.cpus;
        let links = if has_ztunnel(&experiment.versions) {
            " Only the connections of ambient pass links between network namespaces on this machine. The CPU time and the \
             latency of ambient include these links and their netfilter rules."
        } else {
            ""
        };
        return format!(
            "One machine, loopback. There is no network between the parts: no distance, no loss, no other traffic.{links} \
             The load, the backends and the proxy share {cpus} CPUs, so that every latency holds waiting for a CPU, and \
             a proxy that takes less leaves more for the others. Compare targets within this experiment; expect other \
             figures elsewhere."
        );
    };
    format!(
        "One cluster of {} nodes. The load, the servers and all proxies share the CPUs of the nodes, so every latency \
         holds waiting for a CPU, and a mesh that takes less CPU leaves more for the others. Each mesh has Pods of its own. \
         The lab places Pods of the same name on the same node in all meshes (lab.json has the nodes); a mesh's own Pods run \
         where Kubernetes placed them. Expect other figures in another cluster. The lab did not measure its own maximum here: a load of many \
         calls may be limited by the load itself. The Pods of the load begin at a signal, which reaches each of them through the API server.",
        cluster.nodes.len()
    )
}

/// The numbers of failures by class, in brackets, the most frequent class first. Empty if the records have no classes.
fn by_class<'a>(classes: impl Iterator<Item = (&'a String, &'a u64)>) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (class, count) in classes {
        *sums.entry(class.as_str()).or_default() += count;
    }
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let list: Vec<String> = sorted.into_iter().map(|(class, count)| format!("{} {class}", grouped(count))).collect();
    if list.is_empty() { String::new() } else { format!(" ({})", list.join(", ")) }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
