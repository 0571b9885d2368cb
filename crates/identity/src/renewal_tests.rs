use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{RETRY_FIRST, RETRY_MAX, SIGNER_DELAY, Schedule};

const START: Duration = Duration::from_secs(1_800_000_000);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

fn start() -> SystemTime {
    UNIX_EPOCH + START
}

/// Returns when the schedule is due, in seconds from `start`.
fn due_s(schedule: &Schedule) -> f64 {
    schedule.due.duration_since(start()).expect("it is due later").as_secs_f64()
}

#[test]
fn an_svid_is_renewed_between_two_thirds_and_five_sixths_of_its_life() {
    let mut hours = Vec::new();
    for seed in 0..1_000 {
        let schedule = Schedule::new(start(), start() + DAY, seed);
        let due = due_s(&schedule) / 3_600.0;
        assert!((16.0..20.0).contains(&due), "seed {seed}: {due} h");
        assert!(!schedule.is_due(start() + 16 * HOUR - RETRY_FIRST), "seed {seed}");
        assert!(schedule.is_due(start() + 20 * HOUR), "seed {seed}");
        hours.push(due);
    }
    let early = hours.iter().filter(|due| **due < 18.0).count();
    assert!((400..600).contains(&early), "they are spread over the four hours, not {early} of 1000 in the first two");
}

#[test]
fn an_svid_of_seconds_is_renewed_in_its_life_too() {
    for seed in leno_testing::seeds(0..100) {
        let due = due_s(&Schedule::new(start(), start() + Duration::from_secs(6), seed));
        assert!((4.0..5.0).contains(&due), "seed {seed}: {due} s");
    }
}

#[test]
fn whatever_fails_there_are_tries_until_the_svid_expires() {
    for seed in leno_testing::seeds(0..300) {
        let mut schedule = Schedule::new(start(), start() + DAY, seed);
        let expiry = start() + DAY;
        let (mut now, mut tries) = (schedule.due, 0);
        loop {
            let wait = schedule.failed(now);
            assert!((RETRY_FIRST / 2..=RETRY_MAX).contains(&wait), "seed {seed}, try {tries}: {wait:?}");
            assert!(!schedule.is_due(now + wait - Duration::from_millis(1)), "seed {seed}, try {tries}");
            assert!(schedule.is_due(now + wait), "seed {seed}, try {tries}");
            if now + wait >= expiry {
                break;
            }
            now += wait;
            tries += 1;
        }
        let unused = expiry.duration_since(now).expect("the last try was before");
        assert!(unused <= RETRY_FIRST, "seed {seed}: the last try was {unused:?} before the end");
        assert!((240..1_000).contains(&tries), "seed {seed}: {tries} tries");
    }
}

#[test]
fn waits_double_from_one_second_to_a_minute_with_a_random_half() {
    let mut different = false;
    let mut first = None;
    for seed in 0..50 {
        let mut schedule = Schedule::new(start(), start() + DAY, seed);
        let waits: Vec<_> = (0..9).map(|_| schedule.failed(start()).as_secs_f64()).collect();
        for (wait, longest) in waits.iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]) {
            assert!((longest / 2.0..=longest).contains(wait), "seed {seed}: {waits:?}");
        }
        different |= *first.get_or_insert_with(|| waits.clone()) != waits;
    }
    assert!(different, "workloads wait alike");
}

#[test]
fn tries_go_on_after_the_end_and_however_many_failed() {
    let mut schedule = Schedule::new(start(), start() + HOUR, 7);
    for _ in 0..100 {
        let wait = schedule.failed(start() + 2 * HOUR);
        assert!((RETRY_FIRST / 2..=RETRY_MAX).contains(&wait), "{wait:?}");
    }
    schedule.renewed(start() + 2 * HOUR, start() + 2 * HOUR + DAY);
    assert!(schedule.failed(start() + 2 * HOUR) <= RETRY_FIRST, "a success forgets the failures before it");
}

#[test]
fn another_signer_is_used_soon_and_not_at_once() {
    for seed in leno_testing::seeds(0..100) {
        let mut schedule = Schedule::new(start(), start() + DAY, seed);
        schedule.signer_changed(start());
        assert!(!schedule.is_due(start() + SIGNER_DELAY - Duration::from_millis(1)), "seed {seed}");
        assert!(schedule.is_due(start() + 2 * SIGNER_DELAY), "seed {seed}");
    }
}

#[test]
fn another_signer_does_not_put_off_what_is_due() {
    let mut schedule = Schedule::new(start(), start() + DAY, 7);
    schedule.hasten(start());
    schedule.signer_changed(start());
    assert!(schedule.is_due(start()));
}

#[test]
fn an_svid_that_came_expired_is_not_renewed_in_a_tight_loop() {
    let schedule = Schedule::new(start(), start() - HOUR, 7);
    assert!(!schedule.is_due(start()));
    assert!(schedule.is_due(start() + RETRY_FIRST));
}

#[test]
fn the_time_until_the_renewal_is_known() {
    let schedule = Schedule::new(start(), start() + DAY, 7);
    let wait = schedule.due_in(start());
    assert!(!schedule.is_due(start() + wait - Duration::from_millis(1)) && schedule.is_due(start() + wait));
    assert_eq!(schedule.due_in(start() + DAY), Duration::ZERO);
}

#[test]
fn a_schedule_from_a_clock_that_was_ahead_is_due_when_the_clock_is_right_again() {
    let mut schedule = Schedule::new(start(), start() + DAY, 1);
    schedule.renewed(start() + 6 * HOUR, start() + 30 * HOUR);
    assert!(schedule.is_due(start()) && schedule.due_in(start()) == Duration::ZERO);
    schedule.failed(start() + 30 * DAY);
    assert!(schedule.is_due(start() + RETRY_MAX));
    schedule.renewed(start(), start() + DAY);
    assert!(!schedule.is_due(start() - Duration::from_secs(30)), "clocks are corrected by seconds all the time");
}
