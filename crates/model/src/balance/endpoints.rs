//! The endpoints of one cluster, in the order of their addresses, and their handles.
//!
//! Invariants:
//! - The addresses are unique and ascending.
//! - An [`EndpointId`] finds only the endpoint for which it was created. When an endpoint is removed, its slot gets a
//!   new generation, so the removed endpoint's id finds nothing.

use std::net::SocketAddr;
use std::time::Instant;

use super::baseline::Baseline;
use super::failure_rate::Outcomes;
use super::health::{Health, State};
use super::kept_places::KeptPlaces;
use super::open_calls::OpenCalls;

/// An endpoint with an answered call that is still open counts as this many outcomes at least, unless it may hang or
/// its latest outcome is a failure. Without this number, new endpoints whose streams stay open have hardly any outcome,
/// so that no other endpoint could be failing in comparison.
const OUTCOMES_WHILE_OPEN: f64 = 20.0;

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
    pub(super) calls: OpenCalls,
    pub(super) kept_places: KeptPlaces,
    /// Serial number of the endpoint's latest pick. The endpoint with the lowest number has waited longest for a pick.
    pub(super) turn: u64,
    pub(super) picks: u64,
    pub(super) failures: u64,
    pub(super) health: Health,
}

impl Endpoint {
    fn new(id: EndpointId, address: SocketAddr, (health, turn): (Health, u64)) -> Self {
        let (calls, kept_places) = (OpenCalls::default(), KeptPlaces::default());
        Self { id, address, calls, kept_places, turn, picks: 0, failures: 0, health }
    }

    /// Records the start of a call.
    pub(super) fn picked(&mut self, now: Instant, turn: u64) {
        if !self.calls.owe_answer() {
            self.health.heard(now);
        }
        self.calls.begin(now);
        self.picks += 1;
        self.turn = turn;
        self.health.picked(now, turn);
    }

    /// Records the response headers of the call that began at `started`. The call continues.
    pub(super) fn answered(&mut self, now: Instant, started: Instant) {
        self.calls.answer();
        self.heard(now, started);
    }

    /// Counts each open call whose answer began before the previous count as a success. Otherwise, an endpoint whose
    /// streams stay open for hours would have no outcomes but failures.
    pub(super) fn count_open_answers(&mut self, now: Instant, baseline: &Baseline) {
        for _ in 0..self.calls.take_old_answers() {
            self.health.stayed_open(now, baseline);
        }
    }

    /// Judges the endpoint's health. If the endpoint becomes failing, its open calls are no evidence of a recovery.
    ///
    /// If the endpoint becomes ready, it gets as many kept places as the other ready endpoints have. Otherwise, if all
    /// endpoints are overloaded, it would get all calls at once, and fail more of them than the others.
    pub(super) fn judge(&mut self, now: Instant, baseline: &mut Baseline) {
        let (was_failing, was_ready) = (self.health.is_failing(), self.health.state == State::Ready);
        self.health.judge(now, baseline);
        if self.health.state == State::Ready && !was_ready {
            self.kept_places.raise_to(baseline.kept_places, now, baseline.latency_ms);
        }
        if self.health.is_failing() && !was_failing {
            baseline.one_more_fails();
            baseline.update_pool(now, self);
            self.calls.forget_answers(now);
        }
    }

    /// Returns the outcomes with which the balancer compares other endpoints; `None` if the endpoint hangs. A common
    /// cause may let one endpoint hang and the calls to the others fail. Compared with the earlier outcomes of the
    /// endpoint that hangs, all others would be failing, and it would get their calls.
    pub(super) fn outcomes(&self, now: Instant, usual_ms: Option<f64>) -> Option<Outcomes> {
        if self.calls.hang(now, usual_ms) {
            return None;
        }
        let rate = &self.health.failure_rate;
        let may_hang = matches!(self.health.state, State::Slow(_)) && self.calls.owe_answer();
        let is_answering = self.calls.answered() > 0 && !may_hang && !rate.has_just_failed;
        Some(rate.outcomes(now).at_least(if is_answering { OUTCOMES_WHILE_OPEN } else { 0.0 }))
    }

    /// Records an answer, or a failure, of the call that began at `started`.
    pub(super) fn heard(&mut self, now: Instant, started: Instant) {
        self.calls.heard(started);
        self.health.heard(now);
    }

    /// Records that a call has failed.
    pub(super) fn failed(&mut self, now: Instant, usual_ms: Option<f64>) {
        self.failures += 1;
        self.kept_places.add(now, usual_ms);
    }

    /// Returns the number that counts as the calls in flight: the open calls, and the failed calls that keep their
    /// places. `without_streams`: calls that have been answered and continue do not count.
    #[inline]
    pub(super) fn load(&self, now: Instant, usual_ms: Option<f64>, without_streams: bool) -> u32 {
        let open = if without_streams { self.calls.unanswered } else { self.calls.in_flight };
        let kept = self.kept_places.number(now, usual_ms);
        if kept == 0.0 { open } else { open.saturating_add(kept.round() as u32) }
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
                let newcomer = newcomer();
                Endpoint::new(self.occupy(), address, newcomer)
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
