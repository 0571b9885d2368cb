use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::demo::Options;
use crate::load::Snapshot;

/// The content of a terminal with 100 columns.
fn drawn(way: Way, snapshot: &Snapshot, done: &[Row]) -> String {
    let options = Options { seconds_per_phase: 7, slow_ms: 50, rate: 2000, concurrency: 1000, plain: false };
    let moment = Moment { options: &options, way, snapshot, done, time_left: Duration::from_secs(12) };
    let mut terminal = Terminal::new(TestBackend::new(100, HEIGHT)).expect("no terminal is involved");
    terminal.draw(|frame| draw(&moment, frame)).expect("no terminal is involved");
    terminal.backend().to_string()
}

fn snapshot(shares: [u64; 5]) -> Snapshot {
    let latency = |calls| Latency { calls, p50_ms: 2.0, p99_ms: 3.0, p999_ms: 4.0, ..Latency::default() };
    Snapshot {
        measured: Duration::from_secs(1),
        total: latency(shares.iter().sum()),
        servers: shares.map(latency).to_vec(),
        failed: 3,
        ..Snapshot::default()
    }
}

#[test]
fn everything_fits_into_the_viewport() {
    let done = Way::Pinned.rows(&snapshot([400; 5]));
    let text = drawn(Way::RoundRobin, &snapshot([400; 5]), &done);
    assert!(text.contains("Leno demo"), "{text}");
    assert!(text.contains("12 s left"), "{text}");
    assert!(text.contains("q leaves"), "{text}");
}

#[test]
fn bars_are_as_long_as_the_shares() {
    let text = drawn(Way::Leno, &snapshot([500, 500, 500, 480, 20]), &[]);
    let bar_of = |server: &str| {
        let line = text.lines().find(|line| line.contains(&format!("{server}  ")));
        line.map(|line| line.matches('█').count())
    };
    assert_eq!(bar_of("s1"), Some(10));
    assert_eq!(bar_of("s5"), Some(0));
    assert!(text.contains("  1.0 %"), "{text}");
}

#[test]
fn warming_up_shows_no_numbers_yet_and_failures_are_shown_after() {
    let warming_up = drawn(Way::Leno, &Snapshot::default(), &[]);
    assert!(warming_up.contains("Leno: warming up"), "{warming_up}");
    let row = drawn(Way::Leno, &snapshot([400; 5]), &[]);
    let row = row.lines().find(|line| line.contains("Leno  ")).unwrap_or_default();
    assert!(row.trim_end_matches(['"', ' ']).ends_with(" 3"), "{row}");
}
