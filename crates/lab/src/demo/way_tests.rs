use std::time::Duration;

use super::*;
use crate::load::Latency;

fn server(calls: u64, p99_ms: f64) -> Latency {
    Latency { calls, p50_ms: p99_ms / 2.0, p99_ms, p999_ms: p99_ms, ..Latency::default() }
}

/// A second in which s2 was the fastest server and s5 slow.
fn snapshot() -> Snapshot {
    Snapshot {
        measured: Duration::from_secs(1),
        total: server(2000, 52.0),
        servers: [3.0, 2.0, 4.0, 3.0, 52.0].map(|p99_ms| server(400, p99_ms)).to_vec(),
        failed: 0,
        ..Snapshot::default()
    }
}

#[test]
fn pinned_shows_the_best_and_the_worst_client_with_their_own_numbers() {
    let rows = Way::Pinned.rows(&snapshot());
    let labels: Vec<&str> = rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["pinned, best client (s2)", "pinned, worst client (s5)"]);
    assert_eq!(rows[0].latency, server(400, 2.0));
    assert_eq!(rows[1].latency, server(400, 52.0));
    assert_eq!([rows[0].slow_share, rows[1].slow_share], [0.0, 1.0]);
    assert!((rows[1].calls_per_second - 400.0).abs() < 1e-9);
}

#[test]
fn the_other_ways_show_one_row_of_all_calls() {
    let rows = Way::RoundRobin.rows(&snapshot());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].latency, server(2000, 52.0));
    assert!((rows[0].slow_share - 0.2).abs() < 1e-9);
}
