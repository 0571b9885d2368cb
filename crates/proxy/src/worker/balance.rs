//! Balance: which endpoint a call goes to.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use leno_http2::fields::Known;
use leno_model::balance::{Balancer, Method};
use leno_model::mesh::{Cluster, Mesh};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Worker;
use super::accounts::Lane;
use super::cluster::{ClusterState, Pool, Standing, TargetKey, single};
use super::hop::{PoolKey, Protocol};
use super::reply::ProxyError;
use crate::limits::ms;

impl Worker {
    /// The state of a Service's cluster, made when its first call comes.
    pub(super) fn service_state(&mut self, cluster: &Arc<Cluster>) -> usize {
        let target = TargetKey::Service(cluster.key.clone());
        match self.cluster_by_key.get(&target) {
            Some(&index) => index,
            None => self.add_cluster(target, cluster.clone()),
        }
    }

    /// The state of an address that is no Service's, made when its first call comes.
    pub(super) fn address_state(&mut self, target: TargetKey) -> Result<usize, ProxyError> {
        if let Some(&index) = self.cluster_by_key.get(&target) {
            return Ok(index);
        }
        let most = self.limits.relay.max_targets as usize;
        // Callers choose ports of our application: these leave half of all targets to our application's own calls.
        let is_full_of_local = self.clusters.local() >= most.div_ceil(2);
        if self.clusters.len() >= most || (is_full_of_local && matches!(target, TargetKey::Local(_))) {
            return Err(ProxyError::TooManyTargets { targets: self.clusters.len() });
        }
        let cluster = match target {
            TargetKey::Address(address) => self.cluster_of_address(&self.mesh, address),
            TargetKey::Local(address) => single(address, None),
            TargetKey::Service(_) => return Err(ProxyError::NoRoute("a Service has no address here".to_owned())),
        };
        Ok(self.add_cluster(target, cluster))
    }

    pub(super) fn cluster_of_address(&self, mesh: &Mesh, address: SocketAddr) -> Arc<Cluster> {
        let known = mesh.endpoint_by_address(address);
        let mut cluster = single(address, known.map(|(cluster, endpoint)| (&**cluster, endpoint)));
        if known.is_none() {
            Arc::make_mut(&mut cluster).settings.connect_timeout = ms(self.limits.relay.egress_connect_timeout_ms);
        }
        cluster
    }

    fn add_cluster(&mut self, target: TargetKey, cluster: Arc<Cluster>) -> usize {
        let seed = self.seed ^ self.next_random();
        let is_named = match &target {
            TargetKey::Local(address) => {
                self.ports.name(address.port());
                self.ports.is_named(address.port())
            }
            TargetKey::Service(_) | TargetKey::Address(_) => true,
        };
        let mut state = ClusterState {
            is_named,
            target: target.clone(),
            balancer: Balancer::new(cluster.balancer, seed),
            traffic: Vec::new(),
            cluster: cluster.clone(),
            members: FxHashMap::default(),
            pools: FxHashMap::default(),
            routes: self.routes_to(&target),
            calls: 0,
            standing: Standing::Known,
        };
        state.update(self.now, cluster);
        let index = self.clusters.insert(state);
        self.cluster_by_key.insert(target, index);
        index
    }

    /// Forgets addresses that nobody calls any more.
    pub(super) fn forget_idle_addresses(&mut self) {
        let is_left = |state: &ClusterState| !matches!(state.target, TargetKey::Service(_)) && state.is_idle();
        let left: FxHashSet<usize> =
            self.clusters.iter().filter(|(_, state)| is_left(state)).map(|(index, _)| index).collect();
        for &index in &left {
            if let Some(state) = self.clusters.try_remove(index) {
                self.lose_target(&state.target, index);
            }
        }
        self.forget_latest_routes(&left, &BTreeSet::new());
    }

    /// Chooses the endpoint of a call.
    pub(super) fn pick_endpoint(&mut self, slot: u32) -> Result<PoolKey, ProxyError> {
        let gone = || ProxyError::NoRoute("the Service has been removed".to_owned());
        let lane = self.choose_lane(slot);
        let call = self.calls.get_mut(slot as usize).ok_or_else(gone)?;
        call.lane = lane;
        let cluster = call.cluster.and_then(|index| self.clusters.get_mut(index)).ok_or_else(gone)?;
        if cluster.standing == Standing::Removed {
            return Err(gone());
        }
        // Copies of requests are together as one client.
        let own_waiting = self.clients.get(call.client).map_or(self.mirrors, |client| client.waiting_calls);
        // A client leaves as many places free as it takes, so that no single one fills a queue.
        let max_waiting =
            (self.limits.relay.max_waiting_calls_per_endpoint as usize).saturating_sub(own_waiting).max(1);
        let pick = cluster.pick(self.now, call, max_waiting).ok_or_else(|| cluster.why_none(self.now, own_waiting))?;
        let endpoint = pick.endpoint;
        let method = call.request.get(Known::Path).map_or_else(Method::default, Method::of_path);
        call.pick = Some(pick.of(method));
        call.sent_at = self.now;
        let member = cluster.members.get(&endpoint);
        let key = call.pool_key(endpoint, member.and_then(|member| member.endpoint.proxy.as_ref()));
        if call.traffic.is_none() {
            call.traffic = member.and_then(|member| member.traffic);
            match call.traffic.and_then(|place| cluster.traffic(place)) {
                Some(_) if call.is_guess => {}
                Some(traffic) => traffic.request(),
                None => self.count_first_request(slot, key),
            }
        }
        Ok(key)
    }

    /// Which connections a call may use. Copies of requests, and connections of our own application that are carried unread,
    /// belong to no account that could stand out. A caller's opaque connection takes a whole connection of the application: its
    /// account has a share of these as it has of calls.
    fn choose_lane(&mut self, slot: u32) -> Lane {
        let Some(call) = self.calls.get_mut(slot as usize) else { return Lane::Shared };
        let Some(client) = self.clients.get(call.client) else { return Lane::Shared };
        let is_opaque = call.protocol == Protocol::Opaque;
        if is_opaque && !self.accounts.is_of_a_caller(client.account) {
            return Lane::Shared;
        }
        // An opaque connection stays open by nature.
        let is_open = !is_opaque && !call.request_ended && !call.counts_as_open;
        let lane = self.accounts.lane(client.account, is_open, &self.limits.relay);
        if is_open && lane.is_common() {
            call.counts_as_open = true;
            self.accounts.request_open(client.account);
        }
        lane
    }

    /// Outbound calls count under the name of the endpoint that they are sent to; the first one looks for the series.
    fn count_first_request(&mut self, slot: u32, key: PoolKey) {
        let Some(index) = self.calls.get(slot as usize).and_then(|call| call.cluster) else { return };
        let Some(cluster) = self.clusters.get(index) else { return };
        let proxy = cluster.member(key.endpoint).and_then(|endpoint| endpoint.proxy.as_ref());
        let id = proxy.and_then(|proxy| self.id_of(proxy));
        let tls = self.endpoint_tls(cluster.target.direction(), key.hop, id);
        let Some(cluster) = self.clusters.get_mut(index) else { return };
        let place = cluster.traffic_place(&self.metrics, tls);
        if let Some(member) = cluster.members.get_mut(&key.endpoint) {
            member.traffic = Some(place);
        }
        self.count_request(slot, index, place);
    }

    /// Counts a call that has come, in the series at a place of its cluster's. A guess only learns its place.
    pub(super) fn count_request(&mut self, slot: u32, cluster: usize, place: u32) {
        let Some(call) = self.calls.get_mut(slot as usize) else { return };
        call.traffic = Some(place);
        if !call.is_guess
            && let Some(traffic) = self.clusters.get(cluster).and_then(|cluster| cluster.traffic(place))
        {
            traffic.request();
        }
    }

    pub(super) fn pool(&mut self, cluster: usize, key: PoolKey) -> Option<&mut Pool> {
        self.clusters.get_mut(cluster)?.pools.get_mut(&key)
    }

    /// The pool of an endpoint that is known, made when its first call comes.
    pub(super) fn pool_of_member(&mut self, cluster: usize, key: PoolKey) -> Option<&mut Pool> {
        let state = self.clusters.get(cluster)?;
        if !state.pools.contains_key(&key) {
            let address = self.address_of(key.hop, state.member(key.endpoint)?);
            self.clusters.get_mut(cluster)?.pools.insert(key, Pool::new(address));
        }
        self.pool(cluster, key)
    }
}
