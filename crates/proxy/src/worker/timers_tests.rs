use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn expired(timers: &mut Timers<u32>, now: Instant) -> Vec<u32> {
    let mut due = Vec::new();
    timers.expire(now, &mut due);
    due.sort_unstable();
    due
}

#[test]
fn timers_fire_at_their_time_and_never_early() {
    let start = Instant::now();
    let mut timers = Timers::new(start);
    timers.set(start + ms(5), 1);
    timers.set(start + ms(7) + Duration::from_micros(1), 2);
    assert!(expired(&mut timers, start + ms(4)).is_empty());
    assert_eq!(expired(&mut timers, start + ms(5)), [1]);
    assert!(expired(&mut timers, start + ms(7)).is_empty(), "rounded up to 8 ms");
    assert_eq!(expired(&mut timers, start + ms(8)), [2]);
    assert_eq!(timers.next_in(start + ms(8)), None);
}

#[test]
fn a_cancelled_timer_does_not_fire_and_its_neighbours_do() {
    let start = Instant::now();
    let mut timers = Timers::new(start);
    let keys: Vec<_> = (0..5).map(|i| timers.set(start + ms(3), i)).collect();
    timers.cancel(keys[0]);
    timers.cancel(keys[2]);
    timers.cancel(keys[4]);
    assert_eq!(expired(&mut timers, start + ms(3)), [1, 3]);
}

#[test]
fn a_deadline_beyond_one_turn_of_the_wheel_waits_for_its_turn() {
    let start = Instant::now();
    let mut timers = Timers::new(start);
    let far = 5 * SLOTS as u64 + 3;
    timers.set(start + ms(far), 9);
    for turn in (0..far).step_by(100) {
        assert!(expired(&mut timers, start + ms(turn)).is_empty(), "at {turn} ms");
    }
    assert_eq!(expired(&mut timers, start + ms(far)), [9]);
}

#[test]
fn a_long_sleep_misses_nothing() {
    let start = Instant::now();
    let mut timers = Timers::new(start);
    for i in 0..3_000 {
        timers.set(start + ms(u64::from(i)), i);
    }
    assert_eq!(expired(&mut timers, start + ms(10_000)).len(), 3_000);
}

#[test]
fn the_wait_reaches_to_the_next_timer_and_not_past_it() {
    let start = Instant::now();
    let mut timers = Timers::new(start);
    for due in [1u64, 63, 64, 500, 1_023, 1_024, 90_000] {
        let key = timers.set(start + ms(due), 0);
        let wait = timers.next_in(start).expect("a timer is set");
        assert!(wait <= ms(due), "{wait:?} is past {due} ms");
        assert!(due >= 1_024 || wait == ms(due), "{wait:?} is short of {due} ms");
        timers.cancel(key);
    }
}

#[test]
fn a_timer_in_the_past_fires_at_once() {
    let start = Instant::now();
    let mut timers = Timers::new(start);
    assert!(expired(&mut timers, start + ms(50)).is_empty());
    timers.set(start + ms(10), 4);
    assert_eq!(timers.next_in(start + ms(51)), Some(Duration::ZERO));
    assert_eq!(expired(&mut timers, start + ms(51)), [4]);
}
