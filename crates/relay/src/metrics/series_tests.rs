use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{KEEP_UNHELD, SeriesTable, take_sums};
use crate::metrics::Counter;

const OTHER: u32 = u32::MAX;

fn get(table: &SeriesTable<u32, Counter>, label: u32) -> Arc<Counter> {
    table.get(&label, |_| OTHER)
}

fn labels(table: &SeriesTable<u32, Counter>, now: Instant) -> Vec<u32> {
    let mut labels: Vec<u32> = table.take(now, |_| false).0.into_iter().map(|part| part.labels).collect();
    labels.sort_unstable();
    labels
}

#[test]
fn a_series_is_created_once() {
    let table = SeriesTable::new(10);
    let first = get(&table, 1);
    assert!(Arc::ptr_eq(&first, &get(&table, 1)));
    assert!(!Arc::ptr_eq(&first, &get(&table, 2)));
}

#[test]
fn a_series_that_nobody_holds_goes_on_when_its_holder_returns_soon() {
    let table = SeriesTable::new(10);
    let start = Instant::now();
    get(&table, 1).add(5);
    assert_eq!(labels(&table, start), [1]);
    assert_eq!(get(&table, 1).get(), 5);
}

#[test]
fn a_series_that_nobody_holds_is_forgotten_after_a_while() {
    let table = SeriesTable::new(10);
    let start = Instant::now();
    let _held = get(&table, 1);
    get(&table, 2).add(5);
    let almost = start + KEEP_UNHELD - Duration::from_millis(1);
    // At the first scrape, the series has had a holder since its creation.
    for now in [start, start, almost, start + KEEP_UNHELD] {
        assert_eq!(labels(&table, now), [1, 2], "its last counts are exported");
    }
    assert_eq!(labels(&table, start + KEEP_UNHELD), [1]);
    assert_eq!(get(&table, 2).get(), 0);
}

#[test]
fn a_holder_that_returns_starts_the_wait_again() {
    let table = SeriesTable::new(10);
    let start = Instant::now();
    drop(get(&table, 1));
    labels(&table, start);
    let held = get(&table, 1);
    labels(&table, start + KEEP_UNHELD);
    drop(held);
    labels(&table, start + KEEP_UNHELD);
    assert_eq!(labels(&table, start + KEEP_UNHELD), [1]);
}

#[test]
fn a_series_whose_holders_come_and_go_between_scrapes_goes_on() {
    let table = SeriesTable::new(10);
    let start = Instant::now();
    for scrape in 0..5 {
        get(&table, 1).add(1);
        assert_eq!(labels(&table, start + KEEP_UNHELD * scrape), [1]);
    }
    assert_eq!(get(&table, 1).get(), 5);
}

#[test]
fn series_beyond_the_limit_share_one_until_others_are_given_up() {
    let table = SeriesTable::new(2);
    let held = [get(&table, 1), get(&table, 2)];
    let (three, four) = (get(&table, 3), get(&table, 4));
    assert!(Arc::ptr_eq(&three, &four));
    assert_eq!(labels(&table, Instant::now()), [1, 2, OTHER]);

    drop((held, three, four));
    assert!(!Arc::ptr_eq(&get(&table, 3), &get(&table, OTHER)));
}

#[test]
fn series_of_one_sum_end_together() {
    // Labels with the same tens digit belong to one sum.
    let tables = [SeriesTable::new(10), SeriesTable::new(10)];
    let start = Instant::now();
    let labels = |now| {
        let mut labels: Vec<u32> =
            take_sums(tables.iter(), |label| label / 10, now).0.into_iter().map(|part| part.labels).collect();
        labels.sort_unstable();
        labels
    };
    for label in [11, 21] {
        get(&tables[0], label).add(1);
    }
    let held = get(&tables[1], 12);
    for after in [0, 1, 2] {
        assert_eq!(labels(start + KEEP_UNHELD * after), [11, 12, 21]);
    }
    for after in [3, 9] {
        assert_eq!(labels(start + KEEP_UNHELD * after), [11, 12]);
    }
    drop(held);
    for (after, expected) in [(10, &[11, 12][..]), (11, &[11, 12]), (12, &[])] {
        assert_eq!(labels(start + KEEP_UNHELD * after), expected);
    }
}

#[test]
fn what_remains_of_series_goes_on_counting() {
    let table = SeriesTable::<u32, Counter, u64>::with_rest(2, |rest, _, series| *rest += series.get());
    let now = Instant::now();
    let total = |now| {
        let (parts, rest) = table.take(now, |_| false);
        (parts.len(), parts.iter().map(|part| part.metrics.get()).sum::<u64>() + rest)
    };
    for label in [1, 2] {
        table.get(&label, |_| OTHER).add(5);
    }
    assert_eq!(total(now), (2, 10));
    let held = table.get(&3, |_| OTHER);
    held.add(1);
    assert_eq!(total(now), (1, 11), "the full table has dropped two series");
    drop(held);
    for (after, expected) in [(0, (1, 11)), (1, (1, 11)), (2, (0, 11))] {
        assert_eq!(total(now + KEEP_UNHELD * after), expected);
    }
}
