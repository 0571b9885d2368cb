//! The endpoints of one cluster, in the order of their addresses, and their handles.
//!
//! Invariants:
//! - The addresses are unique and ascending.
//! - An [`EndpointId`] finds only the endpoint for which it was created. When an endpoint is removed, its slot gets a
//!   new generation, so the removed endpoint's id finds nothing.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::baseline::Baseline;
use super::failure_rate::Outcomes;
use super::health::{Health, State};

/// An endpoint with an answered call that is still open counts as this many outcomes at least, unless it may hang or
/// its latest outcome is a failure. Without this number, new endpoints whose streams stay open have hardly any outcome,
/// so that no other endpoint could be failing in comparison.
const OUTCOMES_WHILE_OPEN: f64 = 20.0;
/// The outcomes of an endpoint are no measure of other endpoints if it has left all calls of this time without an answer.
/// If the usual latency is long, the limit is [`HANG_FACTOR`] times the usual latency.
const HANG_MIN: Duration = Duration::from_secs(2);
const HANG_FACTOR: f64 = 3.0;
/// A failed call keeps its place in flight for about this multiple of the usual latency, or for [`KEPT_MIN_MS`]. With a
/// larger number, an endpoint that fails a part of its calls gets fewer calls.
const KEPT_FACTOR: f64 = 4.0;
const KEPT_MIN_MS: f64 = 0.4;
/// After this multiple of that time, less than a hundredth of a thousand kept places is left.
const KEPT_AGE_MAX: f64 = 12.0;

/// Identifies one endpoint of one [`Balancer`](super::Balancer), from the endpoint's addition to its removal.
///
/// The id of a removed endpoint does not identify a later endpoint, unless 2^32 endpoints have used its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EndpointId {
    slot: u32,
    generation: u32,
}

impl EndpointId {
    /// Returns the number of the endpoint's slot, to index a table beside the balancer. The numbers are small, and no
    /// two current endpoints have the same number. A new endpoint may get the number of a removed endpoint.
    pub fn slot(self) -> usize {
        self.slot as usize
    }

    /// Returns a number that identifies the endpoint among all past and current endpoints of the balancer.
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }
}

/// One endpoint and its state in the balancer.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) id: EndpointId,
    pub(super) address: SocketAddr,
    /// Number of picks that are not finished yet.
    pub(super) in_flight: u32,
    /// Number of picks in `in_flight` whose calls have not been answered yet.
    pub(super) unanswered: u32,
    /// Number of open calls whose answers have begun since the latest [`Self::count_open_answers`]. Without calls that
    /// have an outcome.
    new_answers: u32,
    /// Like `new_answers`, but the answers began before.
    old_answers: u32,
    /// Start of the latest call.
    latest_start: Option<Instant>,
    /// Start of the call that began last among the answered calls.
    latest_answered_start: Option<Instant>,
    /// Start of the first call since the endpoint's last answer or failure. The call may have been cancelled since.
    waits_since: Option<Instant>,
    /// When the endpoint last became failing.
    failing_since: Option<Instant>,
    /// The places in flight that failed calls keep ([`Self::load`]), as of `kept_at`.
    kept_places: f64,
    kept_at: Option<Instant>,
    /// Serial number of the endpoint's latest pick. The endpoint with the lowest number has waited longest for a pick.
    pub(super) turn: u64,
    pub(super) picks: u64,
    pub(super) failures: u64,
    pub(super) health: Health,
}

impl Endpoint {
    /// Returns whether a call waits for its answer, and no call that began later has an answer. If later calls overtake
    /// a call, the endpoint works, and the call waits for another reason. For example, the call is a stream, and its
    /// server has no message to send yet.
    pub(super) fn owes_answer(&self) -> bool {
        self.unanswered > 0 && self.latest_start > self.latest_answered_start
    }

    /// Records the start of a call.
    pub(super) fn picked(&mut self, now: Instant, turn: u64, baseline: &Baseline) {
        if !self.owes_answer() {
            self.health.heard(now);
        }
        self.latest_start = Some(now);
        self.waits_since.get_or_insert(now);
        self.in_flight += 1;
        self.unanswered += 1;
        self.picks += 1;
        self.turn = turn;
        self.health.picked(now, baseline);
    }

    /// Records the response headers of the call that began at `started`. The call continues.
    pub(super) fn answered(&mut self, now: Instant, started: Instant) {
        self.unanswered -= 1;
        self.new_answers += 1;
        self.heard(now, started);
    }

    /// Records the end of the call that began at `started`. Returns whether a success of the call is a new outcome: false
    /// if [`Self::count_open_answers`] has counted it, or if the call began before the endpoint became failing.
    ///
    /// A call that ends is taken for the latest answered call. The endpoint does not track its calls, and only the
    /// number of counted calls matters.
    pub(super) fn ended(&mut self, is_answered: bool, started: Instant) -> bool {
        self.in_flight -= 1;
        if !is_answered {
            self.unanswered -= 1;
            return true;
        }
        // `new_answers` and `old_answers` do not contain this call, but perhaps a probe.
        if self.failing_since.is_some_and(|since| started < since) {
            return false;
        }
        let latest = if self.new_answers > 0 { &mut self.new_answers } else { &mut self.old_answers };
        let is_new = *latest > 0;
        *latest = latest.saturating_sub(1);
        is_new
    }

    /// Counts each open call whose answer began before the previous count as a success. Otherwise, an endpoint whose
    /// streams stay open for hours would have no outcomes but failures.
    pub(super) fn count_open_answers(&mut self, now: Instant, baseline: &Baseline) {
        for _ in 0..self.old_answers {
            self.health.stayed_open(now, baseline);
        }
        self.old_answers = std::mem::take(&mut self.new_answers);
    }

    /// Judges the endpoint's health. If the endpoint becomes failing, its open calls are no evidence of a recovery.
    ///
    /// If the endpoint becomes ready, it gets as many kept places as the other ready endpoints have. Otherwise, if all
    /// endpoints are overloaded, it would get all calls at once, and fail more of them than the others.
    pub(super) fn judge(&mut self, now: Instant, baseline: &mut Baseline) {
        let (was_failing, was_ready) = (self.health.is_failing(), self.health.state == State::Ready);
        self.health.judge(now, baseline);
        if self.health.state == State::Ready && !was_ready {
            self.kept_places = self.kept_places(now, baseline.latency_ms).max(baseline.kept_places);
            self.kept_at = Some(now);
        }
        if self.health.is_failing() && !was_failing {
            baseline.one_more_fails();
            baseline.update_pool(now, self);
            self.failing_since = Some(now);
            self.new_answers = 0;
            self.old_answers = 0;
        }
    }

    /// Returns the outcomes with which the balancer compares other endpoints; `None` if the endpoint hangs. A common
    /// cause may let one endpoint hang and the calls to the others fail. Compared with the earlier outcomes of the
    /// endpoint that hangs, all others would be failing, and it would get their calls.
    pub(super) fn outcomes(&self, now: Instant, usual_ms: Option<f64>) -> Option<Outcomes> {
        let usual_s = usual_ms.map_or(0.0, |usual_ms| usual_ms / 1e3);
        let waited_s = self.waits_since.map_or(0.0, |since| now.saturating_duration_since(since).as_secs_f64());
        if waited_s > HANG_MIN.as_secs_f64().max(HANG_FACTOR * usual_s) {
            return None;
        }
        let rate = &self.health.failure_rate;
        let may_hang = matches!(self.health.state, State::Slow(_)) && self.owes_answer();
        let is_answering = self.in_flight > self.unanswered && !may_hang && !rate.has_just_failed;
        Some(rate.outcomes(now).at_least(if is_answering { OUTCOMES_WHILE_OPEN } else { 0.0 }))
    }

    /// Records an answer, or a failure, of the call that began at `started`.
    pub(super) fn heard(&mut self, now: Instant, started: Instant) {
        self.latest_answered_start = self.latest_answered_start.max(Some(started));
        self.waits_since = None;
        self.health.heard(now);
    }

    /// Records that a call has failed.
    pub(super) fn failed(&mut self, now: Instant, usual_ms: Option<f64>) {
        self.failures += 1;
        self.kept_places = self.kept_places(now, usual_ms) + 1.0;
        self.kept_at = Some(now);
    }

    /// Returns the calls in flight, with those failed calls that keep their places.
    ///
    /// A failed call keeps its place for a while. Otherwise, an endpoint that fails fast has the fewest calls in flight,
    /// so it attracts calls. An overloaded endpoint that rejects calls at once would then reject most of them. If the
    /// cause is one client's calls, these calls would go to one endpoint after the other, and each endpoint would look
    /// worse than the others.
    pub(super) fn load(&self, now: Instant, usual_ms: Option<f64>) -> u32 {
        self.in_flight.saturating_add(self.kept_places(now, usual_ms).round() as u32)
    }

    /// Returns the places in flight that failed calls keep.
    pub(super) fn kept_places(&self, now: Instant, usual_ms: Option<f64>) -> f64 {
        let (Some(kept_at), Some(usual_ms)) = (self.kept_at, usual_ms) else { return 0.0 };
        let constant_ms = (KEPT_FACTOR * usual_ms).max(KEPT_MIN_MS);
        let age_ms = now.saturating_duration_since(kept_at).as_secs_f64() * 1e3;
        // Each pick asks every endpoint, so spare most of them the exponential function.
        if self.kept_places == 0.0 || age_ms > KEPT_AGE_MAX * constant_ms {
            return 0.0;
        }
        self.kept_places * (-age_ms / constant_ms).exp()
    }
}

#[derive(Debug, Clone)]
struct Slot {
    generation: u32,
    /// Position in `Endpoints::list` of the endpoint that uses the slot; `None` if the slot is free.
    index: Option<u32>,
}

/// The endpoints, ascending by address.
#[derive(Debug, Clone, Default)]
pub(super) struct Endpoints {
    pub(super) list: Vec<Endpoint>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Endpoints {
    pub(super) fn index(&self, id: EndpointId) -> Option<usize> {
        let slot = self.slots.get(id.slot())?;
        if slot.generation != id.generation {
            return None;
        }
        slot.index.map(|index| index as usize)
    }

    pub(super) fn get(&self, id: EndpointId) -> Option<&Endpoint> {
        self.index(id).and_then(|index| self.list.get(index))
    }

    pub(super) fn get_mut(&mut self, id: EndpointId) -> Option<&mut Endpoint> {
        self.index(id).and_then(|index| self.list.get_mut(index))
    }

    /// Replaces the list of endpoints: the new list has one endpoint for each of `addresses`. An endpoint whose address
    /// is still present keeps its state. `newcomer` creates the `health` and the `turn` of a new endpoint. Returns the
    /// slots of removed endpoints.
    pub(super) fn replace(
        &mut self,
        addresses: impl IntoIterator<Item = SocketAddr>,
        mut newcomer: impl FnMut() -> (Health, u64),
    ) -> Vec<usize> {
        let mut addresses: Vec<SocketAddr> = addresses.into_iter().collect();
        addresses.sort_unstable();
        addresses.dedup();

        let mut gone = Vec::new();
        let mut old = std::mem::take(&mut self.list).into_iter().peekable();
        for address in addresses {
            while let Some(endpoint) = old.next_if(|endpoint| endpoint.address < address) {
                gone.push(endpoint.id);
            }
            let kept = old.next_if(|endpoint| endpoint.address == address);
            let endpoint = kept.unwrap_or_else(|| {
                let (health, turn) = newcomer();
                let id = self.occupy();
                Endpoint {
                    id,
                    address,
                    in_flight: 0,
                    unanswered: 0,
                    new_answers: 0,
                    old_answers: 0,
                    latest_start: None,
                    latest_answered_start: None,
                    waits_since: None,
                    failing_since: None,
                    kept_places: 0.0,
                    kept_at: None,
                    turn,
                    picks: 0,
                    failures: 0,
                    health,
                }
            });
            self.list.push(endpoint);
        }
        gone.extend(old.map(|endpoint| endpoint.id));

        // Release the slots of removed endpoints only after all new endpoints have their slots. The caller still has
        // data of the removed endpoints under these slots, so no new endpoint of the same update may take one of them.
        for id in &gone {
            self.vacate(*id);
        }
        for (index, endpoint) in self.list.iter().enumerate() {
            self.slots[endpoint.id.slot()].index = Some(index as u32);
        }
        gone.into_iter().map(EndpointId::slot).collect()
    }

    fn occupy(&mut self) -> EndpointId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, index: None });
            (self.slots.len() - 1) as u32
        });
        EndpointId { slot, generation: self.slots[slot as usize].generation }
    }

    fn vacate(&mut self, id: EndpointId) {
        let slot = &mut self.slots[id.slot()];
        slot.generation = slot.generation.wrapping_add(1);
        slot.index = None;
        self.free.push(id.slot);
    }
}
