//! The relay: owns the connections whose protocol is known, their calls, the clusters that calls go to, and the
//! connections to endpoints. It knows no socket, no thread and no clock. The event loop gives it bytes, events and the
//! time, and carries out the [`Effect`]s that it returns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use leno_http1::Heads;
use leno_http2::FieldSection;
use leno_model::mesh::Mesh;
use leno_model::spiffe::SpiffeId;

use crate::access_log::AccessLog;
use crate::budget::Budget;
use crate::call::calls::Calls;
use crate::config::{Config, Settings};
use crate::downstream::downstreams::Downstreams;
use crate::downstream::origin::Door;
use crate::downstream::server_first::ServerFirst;
use crate::effect::Effect;
use crate::failure::FailureLog;
use crate::limits::Limits;
use crate::link::LinkId;
use crate::metrics::{Direction, TargetLabel, TlsLabel, TrafficLabels, TrafficMetrics, WorkerMetrics};
use crate::pool::pools::Pools;
use crate::pool::upstream::UpstreamId;
use crate::spent_chains::SpentChains;
use crate::tap::{Tap, Taps};
use crate::target::discover::Questions;
use crate::target::ports::Ports;
use crate::target::targets::Targets;
use crate::trace::Tracer;

/// See [the crate](crate).
pub struct Relay {
    pub(crate) limits: Arc<Limits>,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) access_log: AccessLog,
    /// The taps: the requests of users to watch calls (`leno tap`).
    pub(crate) taps: Taps,
    pub(crate) tracer: Tracer,
    pub(crate) spent_chains: Arc<SpentChains>,
    pub(crate) failures: FailureLog,
    /// Metrics of calls without a cluster, one for each direction.
    pub(crate) unrouted: [Arc<TrafficMetrics>; 2],
    /// Index of this worker, from 0.
    pub(crate) index: usize,
    /// Number of workers of the process.
    pub(crate) workers: u32,
    pub(crate) seed: u64,
    /// The actions that the event loop must still carry out.
    pub(crate) effects: Vec<Effect>,

    /// The addresses that the proxy listens on.
    pub(crate) listening: Vec<(Door, SocketAddr)>,
    pub(crate) settings: Settings,
    pub(crate) questions: Questions,
    pub(crate) targets: Targets,

    /// The ports of the application that have metric series of their own.
    pub(crate) ports: Ports,
    pub(crate) server_first: ServerFirst,
    pub(crate) downstreams: Downstreams,
    pub(crate) pools: Pools,
    pub(crate) calls: Calls,

    /// Links that have output to write.
    pub(crate) dirty: Vec<LinkId>,

    /// The time of this turn of the event loop.
    pub(crate) now: Instant,
    /// The same moment on the monotonic clock and on the wall clock.
    wall_clock: (Instant, SystemTime),
    pub(crate) next_sweep: Instant,
    pub(crate) sweep_turn: usize,
    /// When the relay next releases the metric series of callers that have no connection any more.
    pub(crate) next_release: Instant,
    /// Time at which the drain must be over; `None` before a drain.
    pub(crate) draining: Option<Instant>,
    pub(crate) fields: FieldSection,
    /// A cache of HTTP/1 header sections that connections have read or written more than once. It saves parsing or
    /// writing them again.
    pub(crate) heads: Heads,
    pub(crate) budget: Budget,
    /// The source of random choices. It is not cryptographically secure: do not generate secrets with it.
    pub(crate) random: fastrand::Rng,
    /// Whether memory that a burst has used must still be freed ([`Relay::shrink`]).
    pub(crate) burst: bool,
}

impl Relay {
    /// Creates a relay without connections.
    pub fn new(config: Config, mesh: Arc<Mesh>, now: Instant) -> Self {
        let mut random = fastrand::Rng::with_seed(config.seed);
        Self {
            unrouted: [Direction::Inbound, Direction::Outbound].map(|side| unrouted(&config.metrics, side)),
            limits: config.limits,
            metrics: config.metrics,
            access_log: config.access_log,
            taps: Taps::default(),
            spent_chains: config.spent_chains,
            tracer: Tracer::new(config.tracing, now, &mut random),
            failures: FailureLog::default(),
            index: config.index,
            workers: config.workers,
            seed: config.seed,
            effects: Vec::new(),
            listening: config.listening,
            settings: config.settings,
            questions: Questions::new(config.discovers),
            targets: Targets::new(mesh, config.own),
            ports: Ports::default(),
            server_first: ServerFirst::default(),
            downstreams: Downstreams::default(),
            pools: Pools::default(),
            calls: Calls::new(now),
            dirty: Vec::new(),
            now,
            wall_clock: (now, SystemTime::UNIX_EPOCH),
            next_sweep: now,
            sweep_turn: 0,
            next_release: now,
            draining: None,
            fields: Default::default(),
            heads: Heads::default(),
            budget: Budget::new(config.memory_budget_bytes),
            random,
            burst: false,
        }
    }

    /// Sets the time of a turn of the event loop.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Sets the time of day at this turn, for the access log. Call it regularly: the clocks may drift apart, and the
    /// time of day may be corrected.
    pub fn set_wall_clock(&mut self, wall_clock: SystemTime) {
        self.wall_clock = (self.now, wall_clock);
    }

    /// Converts a moment to wall-clock time.
    pub(crate) fn wall_clock_at(&self, at: Instant) -> SystemTime {
        let (now, wall_clock) = self.wall_clock;
        match at.checked_duration_since(now) {
            Some(later) => wall_clock.checked_add(later),
            None => wall_clock.checked_sub(now - at),
        }
        .unwrap_or(wall_clock)
    }

    /// Returns the time of this turn of the event loop.
    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    pub fn metrics(&self) -> &WorkerMetrics {
        &self.metrics
    }

    /// Returns the access log, with the lines of the calls that have ended.
    pub fn access_log(&mut self) -> &mut AccessLog {
        &mut self.access_log
    }

    /// From now on, reports each call that ends to the tap's user, until the tap is closed.
    pub fn begin_tap(&mut self, tap: Arc<Tap>) {
        self.taps.begin(tap, self.now);
    }

    /// Returns the actions that the event loop must carry out, in their order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns whether a connection to an endpoint still exists.
    pub fn has_upstream(&self, id: UpstreamId) -> bool {
        self.pools.upstream(id).is_some()
    }

    /// Returns whether memory that a burst has used must still be freed ([`Relay::shrink`]).
    pub fn has_burst(&self) -> bool {
        self.burst
    }

    /// Returns how long the event loop may wait for events before the relay has other work to do.
    pub fn wait(&self) -> Duration {
        if self.calls.has_listed() || self.downstreams.has_recalled() {
            return Duration::ZERO;
        }
        let until = |at: Instant| at.saturating_duration_since(self.now);
        let mut wait = until(self.next_sweep);
        if let Some(tick) = self.pools.next_reset_at() {
            wait = wait.min(until(tick));
        }
        if let Some(timer) = self.calls.next_due_in(self.now) {
            wait = wait.min(timer);
        }
        wait
    }

    /// Replaces the identity of our own workload.
    pub fn set_own(&mut self, own: &SpiffeId) {
        self.targets.set_own(own);
    }

    pub fn has_no_clients(&self) -> bool {
        self.downstreams.is_empty()
    }

    /// Returns whether the relay has work left: a client is connected, or the relay still sends the rest of a request
    /// that the server has already answered.
    pub fn has_work(&self) -> bool {
        !self.has_no_clients() || self.pools.upstreams().any(|(_, upstream)| upstream.has_unfinished_requests())
    }

    /// Returns whether a connection sends nothing after its current output.
    pub fn is_closing(&mut self, id: LinkId) -> bool {
        self.link(id).is_some_and(|link| link.is_closing())
    }
}

/// Returns the metrics of calls whose destination is unknown. The proxy never sends such a call.
fn unrouted(metrics: &WorkerMetrics, direction: Direction) -> Arc<TrafficMetrics> {
    let tls = TlsLabel::Unknown;
    metrics.traffic(&TrafficLabels { direction, target: TargetLabel::Unknown, server: None, tls })
}
