use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn set(timers: &mut Timers<u32>, since: Instant, after: Duration, value: u32) -> TimerKey {
    let due = timers.tick_after(since, after);
    timers.set(due, value)
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
    set(&mut timers, start, ms(5), 1);
    set(&mut timers, start, ms(7) + Duration::from_micros(1), 2);
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
    let keys: Vec<_> = (0..5).map(|i| set(&mut timers, start, ms(3), i)).collect();
    timers.cancel(keys[0]);
    timers.cancel(keys[2]);
    timers.cancel(keys[4]);
    assert_eq!(expired(&mut timers, start + ms(3)), [1, 3]);
}

#[test]
fn a_deadline_beyond_one_turn_of_the_wheel_waits_for_its_turn() {
    let start = Instant::now();
    let mut timers = Timers::new(start);
    for turns in [1, 5, FAR - 1, FAR, FAR + 1, 3 * FAR] {
        let now = timers.start + ms(timers.done_ms);
        let far = (turns * NEAR) as u64 + 3;
        set(&mut timers, now, ms(far), 9);
        for waited in (0..far).step_by(100) {
            assert!(expired(&mut timers, now + ms(waited)).is_empty(), "{waited} of {far} ms");
        }
        assert_eq!(expired(&mut timers, now + ms(far)), [9]);
    }
}

#[test]
fn deadlines_that_are_far_wake_nobody_until_their_turn_comes() {
    let start = Instant::now();
    let mut timers = Timers::new(start);
    for i in 0..1_000 {
        set(&mut timers, start, ms(30_000 + u64::from(i)), i);
    }
    let (mut now, mut fired, mut wakes) = (start, 0, 0);
    while let Some(wait) = timers.next_in(now) {
        now += wait;
        fired += expired(&mut timers, now).len();
        wakes += usize::from(fired == 0);
    }
    assert_eq!(fired, 1_000);
    assert!(wakes <= 2, "{wakes} before the first was due");
}

#[test]
fn timers_set_and_cancelled_at_random_fire_when_they_are_due_and_only_then() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let start = Instant::now();
    let mut timers = Timers::new(start);
    let mut set = std::collections::BTreeMap::new();
    let mut now_ms = 0;
    for i in 0..3_000 {
        let longest = *random.choice(&[10, 2_000, 200_000]).expect("a choice");
        let due_ms = now_ms + 1 + random.u64(..longest);
        let due = match random.bool() {
            true => timers.tick_after(start, ms(due_ms)),
            false => timers.tick_after(start + ms(now_ms), ms(due_ms - now_ms)),
        };
        let key = timers.set(due, i);
        set.insert(i, (due_ms, key));
        if random.u8(..) < 80 {
            let victim = random.u32(..=i);
            if let Some((_, key)) = set.remove(&victim) {
                timers.cancel(key);
            }
        }
        if let Some((next, _)) = set.values().min_by_key(|(due_ms, _)| due_ms) {
            let wait = timers.next_in(start + ms(now_ms)).expect("a timer is set");
            assert!(ms(now_ms) + wait <= ms(*next).max(ms(now_ms)), "{wait:?} is past {next} ms");
        }
        now_ms += random.u64(..50);
        let due: Vec<u32> = set.iter().filter(|(_, (due_ms, _))| *due_ms <= now_ms).map(|(i, _)| *i).collect();
        assert_eq!(expired(&mut timers, start + ms(now_ms)), due);
        set.retain(|_, (due_ms, _)| *due_ms > now_ms);
    }
}

#[test]
fn a_long_sleep_misses_nothing() {
    let start = Instant::now();
    let mut timers = Timers::new(start);
    for i in 0..3_000 {
        set(&mut timers, start, ms(u64::from(i)), i);
    }
    assert_eq!(expired(&mut timers, start + ms(10_000)).len(), 3_000);
}

#[test]
fn the_wait_reaches_to_the_next_timer_and_not_past_it() {
    let start = Instant::now();
    let mut timers = Timers::new(start);
    for due in [1u64, 63, 64, 500, 1_023, 1_024, 90_000] {
        let key = set(&mut timers, start, ms(due), 0);
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
    set(&mut timers, start, ms(10), 4);
    assert_eq!(timers.next_in(start + ms(51)), Some(Duration::ZERO));
    assert_eq!(expired(&mut timers, start + ms(51)), [4]);
}
