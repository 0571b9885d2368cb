use std::collections::BTreeSet;

use super::write_readiness;
use crate::issuer::fixtures::signing;
use crate::kubernetes::State;
use crate::watch::Hearing;
use crate::webhooks::Counts;

const RULES: &str = include_str!("../../../charts/leno/files/rules.yaml");
const DASHBOARD: &str = include_str!("../../../charts/leno/files/dashboards/control.json");

/// Checks that a control plane exports all metrics that the chart's rules and dashboard name. The test of the
/// dashboards in `tests/tests/monitoring.rs` cannot check this: without a cluster, its control plane exports only
/// `leno_control_ready`.
#[test]
fn the_metrics_of_a_cluster_that_the_chart_names_are_exported() {
    let mut text = String::new();
    write_readiness(&mut text, true);
    State::default().write_metrics(&mut text);
    Counts::default().write_metrics(&mut text);
    signing().write_metrics(&mut text);
    Hearing::default().write_metrics(&mut text);
    let words = [RULES, DASHBOARD].into_iter().flat_map(|file| file.split(|c: char| !c.is_alphanumeric() && c != '_'));
    // The proxies export leno_control_plane_connected.
    let named = words.filter(|word| word.starts_with("leno_control_") && !word.starts_with("leno_control_plane_"));
    let named: BTreeSet<&str> = named.collect();
    assert!(named.len() > 5, "{named:?}");
    for name in named {
        assert!(text.contains(&format!("# TYPE {name} ")), "no {name} in\n{text}");
    }
}
