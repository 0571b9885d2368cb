use super::*;

const SETTINGS: BudgetSettings = BudgetSettings { percent: 20, interval: Duration::from_secs(10), min_per_second: 1 };

fn take_all(budget: &mut RetryBudget, now: Instant) -> u32 {
    (0..).take_while(|_| budget.take(now)).last().map_or(0, |last| last + 1)
}

#[test]
fn retries_are_a_share_of_the_calls() {
    let now = Instant::now();
    let mut budget = RetryBudget::new(SETTINGS, 1, now);
    (0..1_000).for_each(|_| budget.note_call(now));
    assert_eq!((budget.left(), take_all(&mut budget, now)), (200, 200));
    assert!(!budget.take(now));
}

#[test]
fn few_calls_have_the_minimum_which_the_workers_share() {
    let now = Instant::now();
    assert_eq!(take_all(&mut RetryBudget::new(SETTINGS, 1, now), now), 10);
    assert_eq!(take_all(&mut RetryBudget::new(SETTINGS, 4, now), now), 3);
    let none = BudgetSettings { min_per_second: 0, ..SETTINGS };
    assert_eq!(take_all(&mut RetryBudget::new(none, 1, now), now), 0);
}

#[test]
fn what_is_older_than_the_interval_counts_no_more() {
    let start = Instant::now();
    let mut budget = RetryBudget::new(SETTINGS, 1, start);
    (0..1_000).for_each(|_| budget.note_call(start));
    assert_eq!(take_all(&mut budget, start + Duration::from_secs(5)), 200);
    // The retries are still within the interval, but the calls are older than the interval.
    assert_eq!(take_all(&mut budget, start + Duration::from_secs(10)), 0);
    assert_eq!(take_all(&mut budget, start + Duration::from_secs(15)), 10);
    assert_eq!(take_all(&mut budget, start + Duration::from_secs(10_000)), 10);
}

#[test]
fn retries_stay_within_the_share_at_any_time() {
    for seed in leno_testing::seeds(0..50) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut now = Instant::now();
        let mut budget = RetryBudget::new(BudgetSettings { min_per_second: 0, ..SETTINGS }, 1, now);
        let (mut calls, mut retries) = (Vec::new(), Vec::new());
        for _ in 0..3_000 {
            now += Duration::from_millis(random.u64(0..100));
            if random.bool() {
                budget.note_call(now);
                calls.push(now);
            } else if budget.take(now) {
                retries.push(now);
                let since = |times: &[Instant], span| times.iter().filter(|at| now - **at < span).count();
                // The latest part is not complete, so the ten parts cover only 9 to 10 tenths of the interval. The
                // budget therefore counts all retries of the last 9 tenths, and no call that is older than the
                // interval.
                let (calls, retries) = (since(&calls, SETTINGS.interval), since(&retries, SETTINGS.interval * 9 / 10));
                assert!(retries * 5 <= calls, "LENO_SEED={seed}: {retries} of {calls}");
            }
        }
        assert!(!retries.is_empty());
    }
}

#[test]
fn a_clock_that_stands_or_goes_back_takes_nothing_away() {
    let now = Instant::now() + Duration::from_secs(100);
    let mut budget = RetryBudget::new(SETTINGS, 1, now);
    (0..100).for_each(|_| budget.note_call(now));
    assert!(budget.take(now - Duration::from_secs(50)));
    assert_eq!(budget.left(), 19);
}
