//! Dial again: ends the connections of our application to an address that has died, so that the application looks up the
//! new addresses.

use std::net::SocketAddr;
use std::time::Duration;

use crate::Relay;
use crate::call::CallId;
use crate::downstream::client::{Client, ClientId};
use crate::downstream::origin::Door;
use crate::target::cluster::{ClusterId, TargetKey};

/// Minimum age of a connection that [`Relay::let_dial_again`] ends. So an application dials a dead address at most
/// once in this time, for example while a Pod restarts.
const DIAL_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Relay {
    /// Lets the client of a call dial again if the call's target is an address ([`Relay::let_dial_again`]).
    pub(crate) fn let_caller_dial_again(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id) else { return };
        let target = |cluster: ClusterId| self.targets.get(cluster).map(|state| &state.target);
        if let (Some(client), Some(TargetKey::Address(_))) = (call.client, call.cluster.and_then(target)) {
            self.let_dial_again(client);
        }
    }

    /// Lets all clients that have dialled `address` dial again ([`Relay::let_dial_again`]). Their calls may have ended
    /// before the connection failed.
    pub(crate) fn let_all_dial_again(&mut self, address: SocketAddr) {
        let cluster = self.targets.mesh().cluster_by_address(address);
        let has_dialled = |client: &Client| {
            let is_balanced = cluster.is_some_and(|cluster| client.may_be_balanced(cluster, address));
            client.origin.door == Door::Outbound
                && client.target == Some(address)
                && client.leaving_since.is_none()
                && !is_balanced
        };
        let clients = self.downstreams.iter().filter(|(_, client)| has_dialled(client));
        for client in clients.map(|(id, _)| id).collect::<Vec<_>>() {
            self.let_dial_again(client);
        }
    }

    /// Announces the end of our application's connection to an address to which the proxy cannot connect, and whose
    /// calls it does not balance.
    ///
    /// The application has dialled this address, but its connection ends at this proxy. So the connection stays open
    /// after the address has died, for example after a rollout of a headless Service. A gRPC client then never asks DNS
    /// for the new addresses. Without a proxy, the connection would have broken.
    fn let_dial_again(&mut self, client: ClientId) {
        let may_end = |client: &Client| {
            let age = self.now.saturating_duration_since(client.link.opened);
            age >= DIAL_AGAIN_AFTER && !client.link.codec.is_opaque()
        };
        if self.downstreams.get(client).is_some_and(may_end) {
            self.shut_down_client(client);
        }
    }
}

#[cfg(test)]
#[path = "dial_again_tests.rs"]
mod tests;
