use std::time::Duration;

use super::*;

#[test]
fn a_row_is_as_wide_as_the_header_and_ends_its_columns_where_it_does() {
    let snapshot = Snapshot {
        measured: Duration::from_secs(2),
        total: Latency { calls: 4000, p50_ms: 2.04, p99_ms: 52.96, p999_ms: 60_000.0, ..Latency::default() },
        servers: vec![Latency::default(); 5],
        failed: 12,
        ..Snapshot::default()
    };
    let row = Row::of_all("pinned, worst client (s5)".to_owned(), &snapshot).to_string();
    assert_eq!(row.len(), HEADER.len());
    let end_of = |text: &str, word: &str| text.find(word).map(|start| start + word.len());
    assert_eq!(end_of(&row, " 2000"), end_of(HEADER, "calls/s"));
    assert_eq!(end_of(&row, " 2.0"), end_of(HEADER, "p50 ms"));
    assert_eq!(end_of(&row, " 53.0"), end_of(HEADER, "p99 ms"));
    assert_eq!(end_of(&row, " 60000.0"), end_of(HEADER, "p99.9 ms"));
    assert_eq!(end_of(&row, " 12"), end_of(HEADER, "failed"));
}
