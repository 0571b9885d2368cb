//! Create: creates the state of a target at the first call to this target. Also removes the state of an idle address
//! that belongs to no Service.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leno_model::mesh::{Cluster, Mesh};
use rustc_hash::FxHashSet;

use crate::Relay;
use crate::call::reply::ProxyError;
use crate::limits::ms;
use crate::target::cluster::{ClusterId, ClusterState, TargetKey, single};

/// Interval at which the relay releases the metrics series of callers and endpoints that have left.
const RELEASE_EVERY: Duration = Duration::from_secs(60);

impl Relay {
    /// Returns the state of a Service's cluster. The first call to the Service creates the state.
    pub(crate) fn service_state(&mut self, cluster: &Arc<Cluster>) -> ClusterId {
        let target = TargetKey::Service(cluster.key.clone());
        match self.targets.find(&target) {
            Some(id) => id,
            None => self.add_cluster(target, cluster.clone()),
        }
    }

    /// Returns the state of an address whose calls are not balanced. The first call to the address creates the state.
    pub(crate) fn address_state(&mut self, target: TargetKey) -> Result<ClusterId, ProxyError> {
        if let Some(id) = self.targets.find(&target) {
            return Ok(id);
        }
        self.has_room_for(&target)?;
        let cluster = match target {
            TargetKey::Address(address) => self.cluster_of_address(self.targets.mesh(), address),
            TargetKey::Local(address) => single(address, None),
            TargetKey::Service(_) => return Err(ProxyError::NoRoute("a Service has no address here".to_owned())),
        };
        Ok(self.add_cluster(target, cluster))
    }

    /// Returns an error if the relay may not create the state of one more address.
    pub(crate) fn has_room_for(&self, target: &TargetKey) -> Result<(), ProxyError> {
        let most = self.limits.relay.max_targets as usize;
        // Callers choose ports of our application. These ports may use half of all targets, and leave the rest to the
        // calls of our application itself.
        let is_full_of_local = self.targets.local() >= most.div_ceil(2);
        if self.targets.len() >= most || (is_full_of_local && matches!(target, TargetKey::Local(_))) {
            return Err(ProxyError::TooManyTargets { targets: self.targets.len() });
        }
        Ok(())
    }

    pub(crate) fn cluster_of_address(&self, mesh: &Mesh, address: SocketAddr) -> Arc<Cluster> {
        let known = mesh.endpoint_by_address(address);
        let mut cluster = single(address, known.map(|(cluster, endpoint)| (&**cluster, endpoint)));
        if known.is_none() {
            Arc::make_mut(&mut cluster).settings.connect_timeout = ms(self.limits.relay.egress_connect_timeout_ms);
        }
        cluster
    }

    fn add_cluster(&mut self, target: TargetKey, cluster: Arc<Cluster>) -> ClusterId {
        let seed = self.seed ^ self.random.u64(..);
        let is_named = match &target {
            TargetKey::Local(address) => {
                self.ports.name(address.port());
                self.ports.is_named(address.port())
            }
            TargetKey::Service(_) | TargetKey::Address(_) => true,
        };
        let mut state = ClusterState::new(target, cluster, seed, self.now);
        if !is_named {
            state.hide_port();
        }
        if let TargetKey::Local(address) = &state.target
            && self.settings.tap_port == Some(address.port())
        {
            state.become_tap();
        }
        self.targets.insert(state)
    }

    /// Forgets addresses without calls and without connections.
    pub(crate) fn forget_idle_addresses(&mut self) {
        let pools = &self.pools;
        let is_left = |state: &ClusterState| !matches!(state.target, TargetKey::Service(_)) && state.is_idle(pools);
        let left: FxHashSet<ClusterId> =
            self.targets.iter().filter(|(_, state)| is_left(state)).map(|(id, _)| id).collect();
        for &id in &left {
            if let Some(mut state) = self.targets.remove(id) {
                self.pools_gone(state.clear(self.now));
            }
        }
        self.forget_latest_targets(&left, &BTreeSet::new());
    }

    /// Releases the metrics series of callers and endpoints that have left, if this is due. Released series end after a
    /// while. Without this, a server that always has callers would keep the series of all callers that it has ever had.
    /// A client of a Service would keep a series for each ReplicaSet and each Job whose Pods it has ever called.
    pub(crate) fn release_traffic(&mut self) {
        if self.now < self.next_release {
            return;
        }
        self.next_release = self.now + RELEASE_EVERY;
        let latest = self.downstreams.iter().filter_map(|(_, client)| client.latest_target.as_ref());
        let of_clients = latest.filter_map(|latest| Some((latest.cluster, latest.traffic?)));
        let of_calls = self.calls.iter().filter_map(|(_, call)| call.cluster.zip(call.traffic));
        let used: FxHashSet<(ClusterId, u32)> = of_clients.chain(of_calls).collect();
        for (id, state) in self.targets.iter_mut() {
            state.release_traffic(|place| used.contains(&(id, place)));
        }
    }
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;
