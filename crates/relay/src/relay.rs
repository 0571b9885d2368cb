//! The relay: owns the connections whose protocol is known, their calls, the clusters that calls go to, and the
//! connections to endpoints. It knows no socket, no thread and no clock: bytes, events and the time come from the event
//! loop, and [`Effect`]s go back to it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::FieldSection;
use leno_model::discovery::Subject;
use leno_model::mesh::Mesh;
use leno_model::spiffe::SpiffeId;
use rustc_hash::FxHashMap;

use crate::access_log::AccessLog;
use crate::accounts::Accounts;
use crate::budget::Budget;
use crate::call::CallId;
use crate::calls::Calls;
use crate::client::{Client, ClientId};
use crate::cluster::{ClusterId, TargetKey};
use crate::clusters::Clusters;
use crate::config::{Config, Settings};
use crate::discover::Question;
use crate::effect::Effect;
use crate::failure::FailureLog;
use crate::limits::Limits;
use crate::link::LinkId;
use crate::metrics::{Direction, NoTlsReason, Target, Tls, TrafficLabels, TrafficMetrics, WorkerMetrics};
use crate::origin::Door;
use crate::pools::Pools;
use crate::ports::Ports;
use crate::server_first::ServerFirst;
use crate::slots::Slots;
use crate::upstream::UpstreamId;

/// See [the crate](crate).
pub struct Relay {
    pub(crate) limits: Arc<Limits>,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) access_log: AccessLog,
    pub(crate) failures: FailureLog,
    /// Metrics of calls that no cluster's metrics count, one for each direction.
    pub(crate) unrouted: [Arc<TrafficMetrics>; 2],
    /// Number of the worker.
    pub(crate) index: usize,
    pub(crate) seed: u64,
    /// What the event loop has to do.
    pub(crate) effects: Vec<Effect>,

    pub(crate) mesh: Arc<Mesh>,
    /// Our own identity; `None` without mutual TLS.
    pub(crate) own: Option<SpiffeId>,
    /// The addresses that the proxy listens on.
    pub(crate) listening: Vec<(Door, SocketAddr)>,
    pub(crate) settings: Settings,
    /// Version of the mesh: increases with each mesh received. A route that was found under an older version is looked
    /// up again.
    pub(crate) mesh_version: u64,
    /// Whether questions that the mesh cannot answer can be asked. If not, the mesh is complete.
    pub(crate) discovers: bool,
    pub(crate) questions: FxHashMap<Subject, Question>,
    /// Subjects that were looked up for calls since the last report, and when.
    pub(crate) used: FxHashMap<Subject, Instant>,
    pub(crate) clusters: Clusters,
    pub(crate) cluster_by_key: FxHashMap<TargetKey, ClusterId>,

    /// Ports of the application that metrics name.
    pub(crate) ports: Ports,
    pub(crate) server_first: ServerFirst,
    pub(crate) clients: Slots<Client>,
    pub(crate) pools: Pools,
    pub(crate) calls: Calls,
    pub(crate) accounts: Accounts,

    /// Calls to be sent before this turn of the loop ends.
    pub(crate) to_send: VecDeque<CallId>,
    /// Links that have output to write.
    pub(crate) dirty: Vec<LinkId>,
    /// Clients whose protocol was guessed wrong.
    pub(crate) recalled: Vec<ClientId>,
    /// Connections to endpoints that have not been told of all cancelled calls.
    pub(crate) cancelling: Vec<UpstreamId>,
    /// Upstream connections that collect short pieces of content before they send them.
    pub(crate) collecting: Vec<UpstreamId>,
    pub(crate) next_reset_tick: Option<Instant>,

    /// The time of this turn of the event loop.
    pub(crate) now: Instant,
    pub(crate) next_sweep: Instant,
    pub(crate) sweep_turn: usize,
    /// Time at which the drain must be over; `None` before a drain.
    pub(crate) draining: Option<Instant>,
    pub(crate) fields: FieldSection,
    pub(crate) budget: Budget,
    /// Not for secrets.
    pub(crate) random: fastrand::Rng,
    /// Whether a burst has used memory that was not given back yet.
    pub(crate) burst: bool,
}

impl Relay {
    /// Creates a relay without connections.
    pub fn new(config: Config, mesh: Arc<Mesh>, now: Instant) -> Self {
        Self {
            unrouted: [Direction::Inbound, Direction::Outbound].map(|side| unrouted(&config.metrics, side)),
            limits: config.limits,
            metrics: config.metrics,
            access_log: config.access_log,
            failures: FailureLog::default(),
            index: config.index,
            seed: config.seed,
            effects: Vec::new(),
            mesh,
            own: config.own,
            listening: config.listening,
            settings: config.settings,
            mesh_version: 0,
            discovers: config.discovers,
            questions: Default::default(),
            used: Default::default(),
            clusters: Default::default(),
            cluster_by_key: Default::default(),
            ports: Ports::default(),
            server_first: ServerFirst::default(),
            clients: Default::default(),
            pools: Pools::default(),
            calls: Calls::new(now),
            accounts: Default::default(),
            to_send: Default::default(),
            dirty: Vec::new(),
            recalled: Vec::new(),
            cancelling: Vec::new(),
            collecting: Vec::new(),
            next_reset_tick: None,
            now,
            next_sweep: now,
            sweep_turn: 0,
            draining: None,
            fields: Default::default(),
            budget: Budget::new(config.memory_budget_bytes),
            random: fastrand::Rng::with_seed(config.seed),
            burst: false,
        }
    }

    /// Sets the time of a turn of the event loop.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// The time of this turn.
    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    pub fn metrics(&self) -> &WorkerMetrics {
        &self.metrics
    }

    /// The lines of calls that have ended.
    pub fn access_log(&mut self) -> &mut AccessLog {
        &mut self.access_log
    }

    /// Returns what the event loop has to do, in this order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Begins a drain, which must be over at `until`.
    pub fn begin_drain(&mut self, until: Instant) {
        self.draining = Some(until);
    }

    /// Returns when the drain must be over; `None` before a drain.
    pub fn draining(&self) -> Option<Instant> {
        self.draining
    }

    /// Returns whether a connection to an endpoint has not ended.
    pub fn has_upstream(&self, id: UpstreamId) -> bool {
        self.pools.upstream(id).is_some()
    }

    /// Returns whether memory was used in a burst and was not given back ([`Relay::shrink`]).
    pub fn has_burst(&self) -> bool {
        self.burst
    }

    /// Returns how long the event loop may wait for events before the relay has something else to do.
    pub fn wait(&self) -> Duration {
        if !self.to_send.is_empty() || !self.recalled.is_empty() {
            return Duration::ZERO;
        }
        let until = |at: Instant| at.saturating_duration_since(self.now);
        let mut wait = until(self.next_sweep);
        if let Some(tick) = self.next_reset_tick {
            wait = wait.min(until(tick));
        }
        if let Some(timer) = self.calls.next_timer_in(self.now) {
            wait = wait.min(timer);
        }
        wait
    }

    /// Uses a new identity of our own from now on.
    pub fn set_own(&mut self, own: &SpiffeId) {
        self.own = Some(own.clone());
        self.renew_routes();
    }

    pub fn has_no_clients(&self) -> bool {
        self.clients.is_empty()
    }

    /// Returns whether a connection has sent its last output.
    pub fn is_closing(&mut self, id: LinkId) -> bool {
        self.link(id).is_some_and(|link| link.is_closing())
    }
}

/// Returns the metrics of calls whose destination is unknown.
fn unrouted(metrics: &WorkerMetrics, direction: Direction) -> Arc<TrafficMetrics> {
    let tls = match direction {
        Direction::Inbound => Tls::None(NoTlsReason::NoTlsFromRemote),
        Direction::Outbound => Tls::Disabled,
    };
    metrics.traffic(&TrafficLabels { direction, target: Target::Unknown, tls })
}
