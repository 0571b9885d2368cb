use std::collections::BTreeMap;

use leno_http2::{FieldSection, StreamKey};

use super::*;
use crate::pool::hop::Protocol;

/// A timetable with its calls, at a time that only the test changes.
struct Clock {
    start: Instant,
    now_ms: u64,
    timetable: Timetable,
    calls: Slots<Call>,
}

impl Clock {
    fn new() -> Self {
        let start = Instant::now();
        Self { start, now_ms: 0, timetable: Timetable::new(start), calls: Slots::default() }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.now_ms)
    }

    fn call(&mut self) -> CallId {
        let client = (None, StreamKey::numbered(1));
        self.calls.insert(Call::new(client, FieldSection::new(), Protocol::Http2, true, self.now()))
    }

    fn wait_for(&mut self, id: CallId, due: Due, after_ms: u64) {
        let (now, after) = (self.now(), Duration::from_millis(after_ms));
        let call = self.calls.get_mut(id).expect("the call is not over");
        self.timetable.wait_for(id, &mut call.due, due, now, after);
    }

    fn end(&mut self, id: CallId) {
        let call = self.calls.get_mut(id).expect("the call is not over");
        self.timetable.clear(&mut call.due);
        self.calls.discard(id);
    }

    /// Moves the time to `now_ms`, and returns what is due then.
    fn due_at(&mut self, now_ms: u64) -> Vec<(CallId, Due)> {
        self.now_ms = now_ms;
        let now = self.now();
        self.timetable.expire(&mut self.calls, now)
    }

    /// Returns how many timers are set.
    fn timers(&self) -> usize {
        self.timetable.timers.len()
    }
}

#[test]
fn everything_that_a_call_waits_for_is_due_at_its_time() {
    let mut clock = Clock::new();
    let id = clock.call();
    for (due, after_ms) in [(Due::Deadline, 2_000), (Due::Idle, 500), (Due::Attempt, 300), (Due::Hedge, 500)] {
        clock.wait_for(id, due, after_ms);
    }
    for (now_ms, expected) in
        [(299, &[][..]), (300, &[Due::Attempt]), (499, &[]), (500, &[Due::Idle, Due::Hedge]), (2_000, &[Due::Deadline])]
    {
        let due: Vec<Due> = clock.due_at(now_ms).into_iter().map(|(_, due)| due).collect();
        assert_eq!(due, expected, "after {now_ms} ms");
    }
    assert_eq!((clock.timers(), clock.timetable.next_in(clock.now())), (0, None));
}

#[test]
fn a_call_that_ends_soon_sets_no_timer_and_wakes_nobody() {
    let mut clock = Clock::new();
    let calls = [clock.call(), clock.call()];
    for id in calls {
        clock.wait_for(id, Due::Deadline, 300);
    }
    assert!(clock.due_at(100).is_empty());
    assert_eq!((clock.timers(), clock.timetable.next_in(clock.now())), (0, Some(Duration::from_millis(200))));
    calls.into_iter().for_each(|id| clock.end(id));
    assert_eq!((clock.timers(), clock.timetable.next_in(clock.now())), (0, None));
}

#[test]
fn a_call_that_goes_on_has_one_timer_whatever_it_waits_for() {
    let mut clock = Clock::new();
    let id = clock.call();
    for (due, after_ms) in [(Due::Deadline, 2_000), (Due::Idle, 500), (Due::Retry, 1)] {
        clock.wait_for(id, due, after_ms);
    }
    assert_eq!((clock.due_at(1), clock.timers()), (vec![(id, Due::Retry)], 1));
    clock.wait_for(id, Due::Attempt, 300);
    clock.wait_for(id, Due::Retry, 100);
    assert_eq!((clock.due_at(101), clock.timers()), (vec![(id, Due::Retry)], 1));
    clock.end(id);
    assert_eq!(clock.timers(), 0);
}

#[test]
fn many_calls_on_the_list_get_their_timers() {
    let mut clock = Clock::new();
    let calls: Vec<CallId> = (0..LISTED_MAX).map(|_| clock.call()).collect();
    for id in &calls {
        clock.wait_for(*id, Due::Deadline, 2_000);
    }
    calls.iter().skip(10).for_each(|id| clock.end(*id));
    assert!(clock.due_at(1).is_empty());
    assert_eq!((clock.timers(), clock.timetable.listed.len()), (10, 0));
}

#[test]
fn what_is_put_off_or_called_off_leaves_the_timer_which_then_fires_for_nothing() {
    let mut clock = Clock::new();
    let id = clock.call();
    clock.wait_for(id, Due::Retry, 1);
    clock.wait_for(id, Due::Hedge, 10);
    assert_eq!(clock.due_at(1), [(id, Due::Retry)]);
    clock.wait_for(id, Due::Hedge, 29);
    assert!(clock.due_at(20).is_empty());
    assert_eq!(clock.due_at(30), [(id, Due::Hedge)]);
    clock.wait_for(id, Due::Hedge, 10);
    clock.calls.get_mut(id).expect("the call is not over").due.call_off(Due::Hedge);
    assert!(clock.due_at(40).is_empty());
}

#[test]
fn an_earlier_time_replaces_a_later_one_and_not_the_other_way_round() {
    let mut clock = Clock::new();
    let (id, now) = (clock.call(), clock.now());
    for after_ms in [30, 20, 40] {
        let call = clock.calls.get_mut(id).expect("the call is not over");
        clock.timetable.wait_at_most(id, &mut call.due, Due::Attempt, now, Duration::from_millis(after_ms));
    }
    assert!(clock.due_at(19).is_empty());
    assert_eq!(clock.due_at(20), [(id, Due::Attempt)]);
}

#[test]
fn calls_that_wait_for_anything_at_random_are_due_at_the_first_turn_after_it() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let mut clock = Clock::new();
    let mut waits = BTreeMap::<CallId, BTreeMap<usize, u64>>::new();
    for _ in 0..5_000 {
        let now_ms = clock.now_ms;
        for _ in 0..random.usize(..4) {
            let known = waits.keys().nth(random.usize(..=waits.len())).copied();
            let id = known.unwrap_or_else(|| clock.call());
            let due = *random.choice(&Due::ALL).expect("there are some");
            let longest_ms = if random.bool() { 10 } else { 3_000 };
            let after_ms = 1 + random.u64(..longest_ms);
            clock.wait_for(id, due, after_ms);
            waits.entry(id).or_default().insert(due as usize, now_ms + after_ms);
        }
        if random.u8(..) < 60
            && let Some(id) = waits.keys().nth(random.usize(..=waits.len())).copied()
        {
            clock.end(id);
            waits.remove(&id);
        }
        assert!(clock.timers() <= waits.len());
        let next_ms = waits.values().flat_map(BTreeMap::values).min();
        let wait = clock.timetable.next_in(clock.now());
        assert!(next_ms.is_none_or(|next_ms| wait.is_some_and(|wait| wait <= Duration::from_millis(next_ms - now_ms))));
        let now_ms = now_ms + random.u64(..20);
        let mut due: Vec<(CallId, usize)> =
            clock.due_at(now_ms).into_iter().map(|(id, due)| (id, due as usize)).collect();
        due.sort_unstable();
        let mut expected = Vec::new();
        for (id, times) in &mut waits {
            times.retain(|due, at_ms| {
                let is_due = *at_ms <= now_ms;
                expected.extend(is_due.then_some((*id, *due)));
                !is_due
            });
        }
        assert_eq!(due, expected);
    }
}
