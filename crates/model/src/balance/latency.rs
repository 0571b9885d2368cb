//! The `latency` policy. It chooses the endpoint with the fewest calls in flight, among the endpoints that are neither
//! slow nor failing.
//!
//! The policy decides two questions separately:
//!
//! 1. Which endpoints should get calls? Latencies and failures decide this, but only after a statistical test has ruled
//!    out chance ([`Health::judge`](super::health::Health::judge)).
//! 2. Which of these endpoints gets this call? The current numbers of calls in flight decide this.
//!
//! Power of two choices on peak EWMA uses a single score for both questions. This has two faults: among equal
//! endpoints, chance decides, and a mildly slow endpoint wins whenever the others are busy.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::baseline::Baseline;
use super::choose::{self, COMPARE_ALL_MAX, Choice, Entry, Rank, Why};
use super::endpoints::{Endpoint, EndpointId, Endpoints};
use super::health::State;
use super::methods::Methods;
use super::probation::Probation;

/// Interval between checks. A check detects silent endpoints, calculates a new baseline, and compares every endpoint
/// with the baseline.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between checks until [`FIRST_REFRESHES`] checks have run. It is shorter, so that a new balancer soon finds
/// endpoints that fail or are slow from the beginning.
const FIRST_REFRESH_INTERVAL: Duration = Duration::from_millis(10);
const FIRST_REFRESHES: u32 = 20;
/// Interval between counts of open calls. An open call counts as a success when its answer began 1 to 2 intervals ago.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// For this many picks per endpoint after a failure, calls that have been answered and continue do not count as calls in
/// flight, and chance breaks the ties between endpoints with equally few calls in flight. Otherwise, the failing calls of
/// one client could all go to one endpoint, which would look worse than the others:
///
/// - Streams stay open for minutes, so the endpoint with the fewest streams would get all calls.
/// - If the endpoints strictly took turns, and a client called a method that works and a method that fails in turn, the
///   failing calls would always go to the same endpoints.
///
/// With a much smaller number, the endpoint whose call has failed would get the next turn too often.
const BY_CHANCE: usize = 8;

/// The policy's state for the whole cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Latency {
    pub(super) baseline: Baseline,
    pub(super) methods: Methods,
    next_refresh: Option<Instant>,
    refreshes: u32,
    next_count: Option<Instant>,
    /// Lower bound of the time of the next due probe; `None` if no probe becomes due before the next refresh.
    next_probe: Option<Instant>,
    /// Serial number of a pick, or 0: no due probe is looked for before this pick, unless an endpoint on probation is
    /// judged before.
    probe_turn: u64,
    /// Number of the next picks to which [`BY_CHANCE`] applies.
    picks_by_chance: usize,
}

impl Latency {
    /// If the interval has passed, calculates a new baseline and compares every endpoint with it.
    pub(super) fn refresh(&mut self, now: Instant, endpoints: &mut Endpoints) {
        if self.next_refresh.is_some_and(|next_refresh| now < next_refresh) {
            return;
        }
        let is_new = self.refreshes < FIRST_REFRESHES;
        self.refreshes = self.refreshes.saturating_add(1);
        self.next_refresh = Some(now + if is_new { FIRST_REFRESH_INTERVAL } else { REFRESH_INTERVAL });
        let is_count_due = self.next_count.is_none_or(|next_count| now >= next_count);
        if is_count_due {
            self.next_count = Some(now + COUNT_INTERVAL);
        }
        for endpoint in &mut endpoints.list {
            if is_count_due {
                endpoint.count_open_answers(now, &self.baseline);
            }
            if endpoint.calls.owe_answer() {
                let silent_ms = self.methods.normalised_at_least(as_ms(endpoint.health.silence(now)));
                // Do not cap this wait: an endpoint that answers no call at all is stronger evidence than one slow
                // call.
                endpoint.health.waited(now, silent_ms, f64::INFINITY);
            }
        }
        self.baseline.refresh(now, self.methods.usual_ms(), &mut endpoints.list);
        for endpoint in &mut endpoints.list {
            endpoint.judge(now, &mut self.baseline);
            endpoint.health.relieve(&self.baseline);
        }
        promote_newcomers_without_elders(&mut endpoints.list);
        self.next_probe = soonest_probe(&endpoints.list);
        self.probe_turn = 0;
    }

    /// Judges one endpoint right after an answer or a failure, so that the reaction to a fault does not wait for the
    /// next refresh.
    pub(super) fn judge(&mut self, now: Instant, endpoint: &mut Endpoint) {
        // A success need not be in the pool before the next refresh.
        if endpoint.health.failure_rate.has_just_failed {
            self.baseline.update_pool(now, endpoint);
        }
        endpoint.judge(now, &mut self.baseline);
        if let Some(probation) = endpoint.health.probation() {
            self.next_probe = sooner(self.next_probe, Some(probation.next_probe));
            self.probe_turn = 0;
        }
    }

    /// Records that a call to one of `endpoints` endpoints has failed.
    pub(super) fn failed(&mut self, endpoints: usize) {
        // Of more endpoints, a pick compares only a few, so the endpoint with the fewest streams gets fewer of the calls.
        self.picks_by_chance = BY_CHANCE.saturating_mul(endpoints.min(COMPARE_ALL_MAX));
    }

    /// Chooses an endpoint. `turn` is the serial number of the latest pick.
    pub(super) fn choose(
        &mut self,
        (now, turn): (Instant, u64),
        endpoints: &Endpoints,
        random: &mut Rng,
        mut usable: impl FnMut(EndpointId) -> bool,
    ) -> Option<Choice> {
        if self.next_probe.is_some_and(|next_probe| now >= next_probe)
            && turn >= self.probe_turn
            && let Some(probe) = self.due_probe((now, turn), &endpoints.list, &mut usable)
        {
            return Some(probe);
        }
        let usual_ms = self.baseline.latency_ms;
        let by_chance = self.picks_by_chance > 0;
        self.picks_by_chance = self.picks_by_chance.saturating_sub(1);
        choose::fewest_in_flight(&endpoints.list, random, |endpoint, compared, random| {
            usable(endpoint.id).then(|| Entry {
                rank: rank(now, endpoint, compared, random),
                load: endpoint.load(now, usual_ms, by_chance),
                turn: if by_chance { random.u64(..) } else { endpoint.turn },
            })
        })
    }

    /// Returns the endpoint that is usable and whose probe has been due for the longest time. `None` if there is no
    /// such endpoint.
    fn due_probe(
        &mut self,
        (now, turn): (Instant, u64),
        list: &[Endpoint],
        mut usable: impl FnMut(EndpointId) -> bool,
    ) -> Option<Choice> {
        let mut found: Option<(usize, &Probation)> = None;
        let mut later = None;
        let mut later_turn = None;
        for (index, endpoint) in list.iter().enumerate() {
            let Some(probation) = endpoint.health.probation() else {
                continue;
            };
            if now >= probation.next_probe {
                let next_turn = endpoint.health.next_turn(list.len());
                if turn < next_turn {
                    later_turn = sooner(later_turn, Some(next_turn));
                    continue;
                }
                // An unusable endpoint cannot be probed, so skip its due probe until the next refresh. Otherwise,
                // `self.next_probe` would stay in the past, and every choice would scan the list again.
                if !usable(endpoint.id) {
                    continue;
                }
            }
            let put_off = match found {
                Some((_, best)) if best.next_probe <= probation.next_probe => Some(probation),
                _ => found.replace((index, probation)).map(|(_, best)| best),
            };
            later = sooner(later, put_off.map(|probation| probation.next_probe));
        }
        self.probe_turn = later_turn.unwrap_or(0);
        let waiting_since = later_turn.map(|_| now);
        match found {
            Some((index, probation)) if now >= probation.next_probe => {
                self.next_probe = sooner(later, waiting_since);
                Some(Choice { index, why: Why::Probe { good_answers: probation.good_answers } })
            }
            _ => {
                self.next_probe = sooner(found.map(|(_, probation)| probation.next_probe), waiting_since);
                None
            }
        }
    }
}

fn sooner<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

/// Returns an endpoint's rank for one comparison of `compared` endpoints.
#[inline]
fn rank(now: Instant, endpoint: &Endpoint, compared: usize, random: &mut Rng) -> Rank {
    match endpoint.health.state {
        State::Ready => Rank::Ready,
        _ => rank_with_part(now, endpoint, compared, random),
    }
}

/// Returns the rank of an endpoint that is not ready.
///
/// An endpoint with a partial share gets the rank of a ready endpoint only in some comparisons, chosen at random. Their
/// frequency is such that the endpoint gets its share of the calls.
fn rank_with_part(now: Instant, endpoint: &Endpoint, compared: usize, random: &mut Rng) -> Rank {
    let (otherwise, has_part) = match endpoint.health.state {
        State::Ready => (Rank::Ready, false),
        State::Warming { .. } => (Rank::Warming, true),
        State::Slow(probation) => (Rank::Slow, probation.relief > 0.0),
        State::Failing(probation) => (Rank::Failing, probation.relief > 0.0),
    };
    if !has_part {
        return otherwise;
    }
    let chance = endpoint.health.weight(now) / compared as f64;
    if random.f64() < chance { Rank::Ready } else { otherwise }
}

pub(super) fn as_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Makes all warming endpoints ready if no endpoint is ready. A warming endpoint gets only a part of a full share, and
/// only ready endpoints could get the rest of the calls.
fn promote_newcomers_without_elders(list: &mut [Endpoint]) {
    let any_ready = list.iter().any(|endpoint| endpoint.health.state == State::Ready);
    if any_ready {
        return;
    }
    for endpoint in list {
        if matches!(endpoint.health.state, State::Warming { .. }) {
            endpoint.health.make_ready();
        }
    }
}

fn soonest_probe(list: &[Endpoint]) -> Option<Instant> {
    list.iter().filter_map(|endpoint| endpoint.health.probation()).map(|probation| probation.next_probe).min()
}
