use super::*;

const MS: Duration = Duration::from_millis(1);

fn take_all(pace: &mut Pace, now: Instant) -> Vec<Instant> {
    std::iter::from_fn(|| pace.take(now)).collect()
}

#[test]
fn calls_are_evenly_spaced_and_none_is_lost_however_late_they_are_taken() {
    let start = Instant::now();
    let mut pace = Pace::new(start, start + 100 * MS, 1000);
    let taken = [0, 1, 5, 6, 50, 51, 200].map(|ms| take_all(&mut pace, start + ms * MS));
    let even: Vec<Instant> = (0..100).map(|number| start + number * MS).collect();
    assert_eq!(taken.concat(), even);
    assert_eq!(pace.next_due(), None);
}

#[test]
fn nothing_is_due_twice_and_the_next_call_is_told() {
    let start = Instant::now();
    let mut pace = Pace::new(start, start + 10 * MS, 1000);
    assert_eq!(take_all(&mut pace, start + 3 * MS).len(), 4);
    assert_eq!(take_all(&mut pace, start + 3 * MS), [] as [Instant; 0]);
    assert_eq!(pace.next_due(), Some(start + 4 * MS));
}

#[test]
fn a_rate_that_does_not_divide_a_second_keeps_its_average() {
    let start = Instant::now();
    let hour = Duration::from_secs(3600);
    let mut pace = Pace::new(start, start + hour, 7);
    let taken = take_all(&mut pace, start + hour);
    assert_eq!(taken.len(), 7 * 3600);
    assert_eq!(taken[7 * 1800], start + hour / 2);
}
