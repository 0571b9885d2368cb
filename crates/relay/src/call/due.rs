//! Due: the times for which calls wait, and the timers that wake the calls.
//!
//! A call may wait for several things at once: its deadline, the limit of an attempt, the next check whether it is
//! idle. Nearly all calls end before any of these times. So a call stores each due time as a number, and has one timer
//! for all due times.

use std::time::{Duration, Instant};

use crate::call::{Call, CallId};
use crate::certain::Certain;
use crate::slots::Slots;
use crate::timers::{Tick, TimerKey, Timers};

/// The events that may become due for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// The call has reached its deadline, and must end.
    Deadline,
    /// Check whether an attempt has taken longer than the call's rule allows.
    Attempt,
    /// Check whether content of the request still arrives.
    Content,
    /// Send the call again, after a pause.
    Retry,
    /// The call has reached a request timeout in mode Audit: count this, and let the call go on.
    Audit,
    /// Check whether both sides of the call are silent.
    Idle,
    /// Send the call to a further endpoint, because it was not answered in time.
    Hedge,
}

impl Due {
    const ALL: [Self; 7] =
        [Self::Deadline, Self::Attempt, Self::Content, Self::Retry, Self::Audit, Self::Idle, Self::Hedge];
}

/// The due times of one call, and its timer.
#[derive(Debug)]
pub(crate) struct DueTimes {
    /// The time of each [`Due`], in the order of [`Due::ALL`]; [`Tick::NEVER`] if the call does not wait for it.
    at: [Tick; Due::ALL.len()],
    timer: Option<TimerKey>,
    /// When the timer fires; [`Tick::NEVER`] without a timer.
    fires: Tick,
    is_listed: bool,
}

impl Default for DueTimes {
    #[inline]
    fn default() -> Self {
        Self { at: [Tick::NEVER; Due::ALL.len()], timer: None, fires: Tick::NEVER, is_listed: false }
    }
}

impl DueTimes {
    /// Returns whether the call waits for `due`.
    pub(crate) fn waits_for(&self, due: Due) -> bool {
        self.at.get(due as usize).is_some_and(|at| *at != Tick::NEVER)
    }

    /// Clears the time of `due`, so that `due` does not happen.
    pub(crate) fn call_off(&mut self, due: Due) {
        if let Some(at) = self.at.get_mut(due as usize) {
            *at = Tick::NEVER;
        }
    }

    #[inline]
    fn earliest(&self) -> Tick {
        self.at.iter().fold(Tick::NEVER, |earliest, at| earliest.min(*at))
    }
}

/// If at least this number of calls is listed, a [`Timetable`] sets the timers of the listed calls.
const LISTED_MAX: usize = 1_024;

/// The timers of all calls of a worker, and a list of the calls that have just begun to wait for something.
///
/// Most calls end after a few milliseconds, before anything is due. So the timetable does not set a call's timer at
/// once, but adds the call to a list. The timetable sets the timers of the listed calls when the list is long, or when
/// one of the listed calls may have something due. Most listed calls have ended by then.
///
/// A timer that fires before anything is due costs little, because few timers fire at all. So the timetable leaves a
/// timer unchanged when a due time is postponed or cleared.
///
/// Invariants, for each call in flight:
/// - If the call waits for anything, the call is listed, or its timer fires at or before the earliest of its due times.
/// - The call is in `listed` if `is_listed` is set. `waiting` is the number of calls with `is_listed`. If `waiting` is
///   0, the list is empty.
/// - If the call is listed, its earliest due time is `listed_due` or later.
#[derive(Debug)]
pub(crate) struct Timetable {
    timers: Timers<CallId>,
    /// The calls whose timers may have to be set. Some of these calls may have ended.
    listed: Vec<CallId>,
    listed_due: Tick,
    waiting: usize,
}

impl Timetable {
    pub(crate) fn new(now: Instant) -> Self {
        Self { timers: Timers::new(now), listed: Vec::new(), listed_due: Tick::NEVER, waiting: 0 }
    }

    /// Sets the time at which `due` happens for a call: `since` plus `after`. Replaces the time that was set before.
    #[inline]
    pub(crate) fn wait_for(&mut self, id: CallId, times: &mut DueTimes, due: Due, since: Instant, after: Duration) {
        let at = self.timers.tick_after(since, after);
        self.set(id, times, due, at);
    }

    /// Sets the time at which `due` happens for a call: `since` plus `after`. Does nothing if an earlier time is set.
    #[inline]
    pub(crate) fn wait_at_most(&mut self, id: CallId, times: &mut DueTimes, due: Due, since: Instant, after: Duration) {
        let at = self.timers.tick_after(since, after);
        if times.at.get(due as usize).is_some_and(|earlier| at < *earlier) {
            self.set(id, times, due, at);
        }
    }

    #[inline]
    fn set(&mut self, id: CallId, times: &mut DueTimes, due: Due, at: Tick) {
        if let Some(place) = times.at.get_mut(due as usize) {
            *place = at;
        }
        if at < times.fires {
            self.listed_due = self.listed_due.min(at);
            if !std::mem::replace(&mut times.is_listed, true) {
                self.waiting += 1;
                self.listed.push(id);
            }
        }
    }

    /// Clears all due times and the timer of a call. Must be called before the call is removed.
    #[inline]
    pub(crate) fn clear(&mut self, times: &mut DueTimes) {
        if std::mem::take(&mut times.is_listed) {
            self.waiting -= 1;
            if self.waiting == 0 {
                self.listed.clear();
                self.listed_due = Tick::NEVER;
            }
        }
        if let Some(timer) = times.timer.take() {
            self.timers.cancel(timer);
        }
        *times = DueTimes::default();
    }

    /// Returns the time until something may become due for a call; `None` if no call waits for anything.
    pub(crate) fn next_in(&self, now: Instant) -> Option<Duration> {
        let listed = (self.waiting > 0).then(|| self.timers.time_of(self.listed_due).saturating_duration_since(now));
        self.timers.next_in(now).into_iter().chain(listed).min()
    }

    /// Returns every [`Due`] whose time has passed, with its call, the earliest first. Clears these due times.
    pub(crate) fn expire(&mut self, calls: &mut Slots<Call>, now: Instant) -> Vec<(CallId, Due)> {
        if self.listed.len() >= LISTED_MAX || self.listed_due <= self.timers.tick_after(now, Duration::ZERO) {
            self.set_timers(calls);
        }
        let (mut fired, mut due) = (Vec::new(), Vec::new());
        self.timers.expire(now, &mut fired);
        for id in fired {
            let Some(call) = calls.get_mut(id).certain() else { continue };
            let times = &mut call.due;
            (times.timer, times.fires) = (None, Tick::NEVER);
            for (what, at) in Due::ALL.into_iter().zip(&mut times.at) {
                if self.timers.has_passed(*at) {
                    due.push((std::mem::replace(at, Tick::NEVER), id, what));
                }
            }
            set_timer(&mut self.timers, id, times);
        }
        due.sort_by_key(|(at, ..)| *at);
        due.into_iter().map(|(_, id, what)| (id, what)).collect()
    }

    /// Sets the timers of the calls on the list, and empties the list.
    fn set_timers(&mut self, calls: &mut Slots<Call>) {
        for id in self.listed.drain(..) {
            if let Some(call) = calls.get_mut(id) {
                call.due.is_listed = false;
                set_timer(&mut self.timers, id, &mut call.due);
            }
        }
        (self.listed_due, self.waiting) = (Tick::NEVER, 0);
    }

    /// Returns how many entries there are for calls in flight: timers, and listed calls.
    pub(crate) fn entries(&self) -> usize {
        self.timers.len() + self.waiting + self.listed.len()
    }

    /// Frees memory that is no longer needed after a burst.
    pub(crate) fn shrink(&mut self) {
        self.timers.shrink();
        self.listed.shrink_to_fit();
    }
}

/// Sets the timer of a call, unless its current timer fires early enough.
fn set_timer(timers: &mut Timers<CallId>, id: CallId, times: &mut DueTimes) {
    let earliest = times.earliest();
    if earliest >= times.fires {
        return;
    }
    if let Some(timer) = times.timer.take() {
        timers.cancel(timer);
    }
    times.timer = Some(timers.set(earliest, id));
    times.fires = earliest;
}

#[cfg(test)]
#[path = "due_tests.rs"]
mod tests;
