//! Drain: before the process ends, the relay tells every client that its connection ends. The client's calls may finish
//! until a given time.

use std::time::Instant;

use crate::Relay;
use crate::downstream::client::ClientId;

impl Relay {
    /// Begins a drain, which must be over at `until`: tells all clients that their connections end.
    pub fn begin_drain(&mut self, until: Instant) {
        self.draining = Some(until);
        for id in self.downstreams.ids() {
            self.shut_down_client(id);
        }
    }

    /// Returns when the drain must be over; `None` before a drain.
    pub fn draining(&self) -> Option<Instant> {
        self.draining
    }

    /// During a drain, tells a new client that its connection ends. Requests that the client has already sent are still
    /// answered, so this is called after the connection was read once.
    pub fn shut_down_if_draining(&mut self, id: ClientId) {
        if self.draining.is_some() {
            self.shut_down_client(id);
        }
    }
}
