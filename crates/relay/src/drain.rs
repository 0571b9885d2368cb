//! Drain: before the process ends, the relay tells every client that its connection ends. The client's calls may finish
//! until a given time.

use std::time::Instant;

use crate::Relay;
use crate::call::reply::ProxyError;
use crate::call::{Call, CallId};
use crate::downstream::client::ClientId;
use crate::target::cluster::ClusterState;

impl Relay {
    /// Begins a drain, which must be over at `until`: tells all clients that their connections end. Ends open taps,
    /// which could otherwise last for an hour.
    pub fn begin_drain(&mut self, until: Instant) {
        self.draining = Some(until);
        let is_tap = |call: &Call| self.targets.get(call.cluster).is_some_and(ClusterState::is_tap);
        let taps: Vec<CallId> = self.calls.iter().filter(|(_, call)| is_tap(call)).map(|(id, _)| id).collect();
        for id in taps {
            self.end_accepted(id, &tap_ends());
        }
        for id in self.downstreams.ids() {
            self.shut_down_client(id);
        }
    }

    /// Returns when the drain must be over; `None` before a drain.
    pub fn draining(&self) -> Option<Instant> {
        self.draining
    }

    /// Ends all calls, because the process ends. Resets the connections whose peers would take an orderly close for the
    /// end of the content: opaque connections, upgraded connections, and responses that end with the connection.
    pub fn cut_off(&mut self) {
        for id in self.downstreams.ids() {
            self.cancel_calls_of(id);
            if self.downstreams.get(id).is_some_and(|client| client.link.codec.hides_cut()) {
                self.close_client(id);
            }
        }
        let cut = self.pools.upstreams().filter(|(_, upstream)| upstream.link.codec.hides_cut()).map(|(id, _)| id);
        for id in cut.collect::<Vec<_>>() {
            self.close_upstream(id, "the proxy ends");
        }
    }

    /// During a drain, tells a new client that its connection ends. Call this after the relay has read the connection
    /// once, so that the relay still answers the requests that the client has already sent.
    pub fn shut_down_if_draining(&mut self, id: ClientId) {
        if self.draining.is_some() {
            self.shut_down_client(id);
        }
    }
}

/// Returns the error of a tap that ends, or does not begin, because the proxy drains.
pub(crate) fn tap_ends() -> ProxyError {
    ProxyError::NoRoute("the proxy of this workload ends, and its taps with it; tap another one".to_owned())
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
