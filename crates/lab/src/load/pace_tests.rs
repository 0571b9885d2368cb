use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn calls_are_evenly_spaced_and_none_is_lost_over_ragged_ticks() {
    let start = Instant::now();
    let mut pace = Pace::new(start, start + 100 * MS, 1000);
    let mut due = Vec::new();
    for tick_ms in [0, 1, 5, 6, 50, 51, 200] {
        due.extend(pace.due(start + tick_ms * MS));
    }
    assert!(pace.is_over());
    let even: Vec<Instant> = (0..100).map(|number| start + number * MS).collect();
    assert_eq!(due, even);
}

#[test]
fn nothing_is_due_twice() {
    let start = Instant::now();
    let mut pace = Pace::new(start, start + 10 * MS, 1000);
    assert_eq!(pace.due(start + 3 * MS).count(), 4);
    assert_eq!(pace.due(start + 3 * MS).count(), 0);
    assert!(!pace.is_over());
}

#[test]
fn a_call_on_time_is_timed_from_when_it_is_sent() {
    let due = Instant::now();
    assert_eq!(timed_from(due, due + MS), due + MS);
}

#[test]
fn a_call_that_a_stall_held_up_is_timed_from_when_it_was_due() {
    let due = Instant::now();
    assert_eq!(timed_from(due, due + 80 * MS), due + TIMER_SLACK);
}
