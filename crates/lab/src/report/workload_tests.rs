//! Reports on a user's own workload.

use super::example::{cluster, recorded, run};
use super::*;
use crate::experiment::record::{TargetKind, Workload};

/// The report on six repeats, each without a mesh and with Leno. The loads are 1 connection at 100 calls per second,
/// and 8 connections at 100 and 500.
fn report(scenario: Scenario) -> String {
    let runs = (1..=6).flat_map(|repeat| {
        [TargetKind::Vanilla, TargetKind::LenoMesh].into_iter().flat_map(move |target| {
            [(1, Some(100)), (8, Some(100)), (8, Some(500))].map(|(connections, rate_per_s)| Run {
                scenario,
                connections,
                rate_per_s,
                slow_share: 0.0,
                server_proxy_cpu_us_per_call: Some(9.0),
                p99_ms: 5.0 + f64::from(connections),
                ..run(target, 0, repeat)
            })
        })
    });
    let mut recorded = recorded(runs.collect());
    recorded.experiment.cluster = Some(cluster());
    let (service, call) = ("shop/hello:80".to_owned(), "GET /hello?x=1".to_owned());
    recorded.experiment.workload = Some(Workload { service, call });
    recorded.experiment.targets = vec![TargetKind::Vanilla, TargetKind::LenoMesh];
    recorded.experiment.ceiling = crate::experiment::record::Ceiling::default();
    let results = Results::new(&recorded);
    summary::text(&results) + &page::html(&results)
}

#[test]
fn the_report_names_the_workload_and_no_servers_of_the_lab() {
    for scenario in [Scenario::Ladder, Scenario::Connections, Scenario::Crowd, Scenario::Footprint] {
        let text = report(scenario);
        let sentence = "GET /hello?x=1 of the Service shop/hello:80, with 5 ready endpoints at the start.";
        assert_eq!(text.matches(sentence).count(), 2, "{scenario}: {text}");
        assert!(text.contains("The servers behind shop/hello:80 are not the lab's."), "{scenario}: {text}");
        for word in ["backend", "slow pod", "slow one", "request-level", "Goals of leno", "netfilter"] {
            assert!(!text.contains(word), "{scenario}: {word} in {text}");
        }
    }
}

#[test]
fn a_description_without_a_workload_is_read_as_before() {
    let experiment = serde_json::to_value(&recorded(Vec::new()).experiment).expect("JSON");
    assert!(experiment.get("workload").is_none());
    let again: crate::experiment::record::Experiment = serde_json::from_value(experiment).expect("a description");
    assert_eq!(again.workload, None);
}
