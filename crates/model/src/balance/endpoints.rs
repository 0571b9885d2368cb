//! The endpoints of one cluster, in the order of their addresses, and their handles.
//!
//! Invariants:
//! - The addresses are unique and ascending.
//! - An [`EndpointId`] finds only the endpoint for which it was created. When an endpoint is removed, its slot gets a
//!   new generation, so the removed endpoint's id finds nothing.

use std::net::SocketAddr;
use std::time::Instant;

use super::baseline::Baseline;
use super::health::Health;

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
    /// Serial number of the endpoint's latest pick. The endpoint with the lowest number has waited longest for a pick.
    pub(super) turn: u64,
    pub(super) picks: u64,
    pub(super) failures: u64,
    pub(super) health: Health,
}

impl Endpoint {
    /// Records the start of a call.
    pub(super) fn picked(&mut self, now: Instant, turn: u64, baseline: &Baseline) {
        if self.unanswered == 0 {
            self.health.heard(now);
        }
        self.in_flight += 1;
        self.unanswered += 1;
        self.picks += 1;
        self.turn = turn;
        self.health.picked(now, baseline);
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
                Endpoint { id, address, in_flight: 0, unanswered: 0, turn, picks: 0, failures: 0, health }
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
