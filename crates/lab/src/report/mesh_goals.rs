//! Leno's goals as a mesh. Some of them compare Leno with another target in the same repeats.

use crate::experiment::record::{Scenario, TargetKind};

use super::figures::{self, Figure};
use super::goals::{Goal, worst};
use super::group::{Group, Load, Results};
use super::judge::{Finding, Limit};
use super::ratio::ratio;
use super::statistic::Statistic;

/// Maximum CPU time per call, in us: the sum of the client's proxy and the server's proxy.
const CPU_PER_CALL_US: f64 = 24.0;
/// Maximum memory of a proxy under load, in MB.
const MEMORY_MB: f64 = 8.0;
/// Minimum throughput, as a fraction of the throughput of a bare TLS tunnel.
const OF_A_TUNNEL: f64 = 0.8;
/// Minimum number of handshakes in a second of CPU time.
const HANDSHAKES_PER_CPU_S: f64 = 2000.0;

/// The goals in `scenario` that apply only to a mesh.
pub(super) fn goals(results: &Results, scenario: Scenario) -> Vec<Goal> {
    let of_load = |load: Load| {
        let of_it = results.of(scenario).filter(|group| group.target == TargetKind::LenoMesh && group.load == load);
        let mesh = Mesh { results, groups: of_it.collect() };
        let found = mesh.findings(scenario, load.rate_per_s.is_some());
        found.into_iter().filter_map(|(name, findings)| worst(name, load, findings)).collect::<Vec<Goal>>()
    };
    results.loads(scenario).into_iter().flat_map(of_load).collect()
}

/// The groups of the target `leno-mesh` under one load.
struct Mesh<'a> {
    results: &'a Results<'a>,
    groups: Vec<&'a Group<'a>>,
}

impl Mesh<'_> {
    fn findings(&self, scenario: Scenario, is_paced: bool) -> Vec<(&'static str, Vec<Finding>)> {
        let haproxy = TargetKind::HaproxyMesh;
        match scenario {
            Scenario::SlowPod if is_paced => {
                let judge = |other: &Group, group: &Group| {
                    Limit::RatioAtMost(1.0).judge_latency(Some(other), group, Statistic::P99)
                };
                vec![("paced p99 ≤ HAProxy’s", self.each_beside(haproxy, judge))]
            }
            Scenario::SlowPod => vec![
                ("CPU per call ≤ HAProxy’s", self.beside(haproxy, Limit::RatioAtMost(1.0), figures::cpu_us)),
                ("CPU per call ≤ 24 µs", self.healthy(Limit::MicrosecondsAtMost(CPU_PER_CALL_US), figures::cpu_us)),
                ("memory of each proxy ≤ 8 MB", self.all(Limit::MegabytesAtMost(MEMORY_MB), figures::peak_mb)),
            ],
            Scenario::Tcp => {
                let limit = Limit::RatioAtLeast(OF_A_TUNNEL);
                vec![
                    ("MB/s up ≥ 0.8 × a bare tunnel’s", self.beside(TargetKind::Tunnel, limit, figures::up_mb_per_s)),
                    (
                        "MB/s down ≥ 0.8 × a bare tunnel’s",
                        self.beside(TargetKind::Tunnel, limit, figures::down_mb_per_s),
                    ),
                ]
            }
            Scenario::Handshakes => {
                let limit = Limit::PerSecondAtLeast(HANDSHAKES_PER_CPU_S);
                vec![("handshakes ≥ 2,000 in a second of CPU", self.healthy(limit, figures::per_cpu_s))]
            }
            _ => Vec::new(),
        }
    }

    fn all(&self, limit: Limit, figure: Figure) -> Vec<Finding> {
        let estimate = |group: &Group| group.spread(figure).map(|spread| spread.estimate());
        self.groups.iter().map(|group| limit.judge(estimate(group), group)).collect()
    }

    /// Judges a figure of the groups at a skew of 0.
    fn healthy(&self, limit: Limit, figure: Figure) -> Vec<Finding> {
        let groups = self.groups.iter().copied().filter(|group| group.skew_ms == 0).collect();
        Mesh { results: self.results, groups }.all(limit, figure)
    }

    /// Judges a figure of the groups at a skew of 0, divided by the same figure of another target.
    fn beside(&self, other: TargetKind, limit: Limit, figure: Figure) -> Vec<Finding> {
        self.each_beside(other, |other, group| limit.judge(ratio(group, other, figure), group))
    }

    /// Judges each group at a skew of 0. `judge` receives the group of the other target and the group of the mesh.
    fn each_beside(&self, other: TargetKind, judge: impl Fn(&Group, &Group) -> Finding) -> Vec<Finding> {
        let healthy = self.groups.iter().filter(|group| group.skew_ms == 0);
        let judge = |&group: &&Group| match self.results.find(group.scenario, group.load, 0, other) {
            Some(other) => judge(other, group),
            None => Finding::unknown(format!("{other} was not measured")),
        };
        healthy.map(judge).collect()
    }
}

#[cfg(test)]
#[path = "mesh_goals_tests.rs"]
mod tests;
