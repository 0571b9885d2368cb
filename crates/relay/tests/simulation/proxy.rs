//! A simulated proxy, which restarts: one process drains and ends, and then the next process starts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::Windows;
use leno_model::mesh::Mesh;
use leno_model::spiffe::SpiffeId;
use leno_relay::SWEEP_EVERY;

use crate::arrival::{From, To};
use crate::log::Log;
use crate::mesh::Bounds;
use crate::net::{CableId, Net};
use crate::parts::Part;
use crate::shell::{Listen, Shell};

/// Longest time from the end of a draining relay's last call until its clients' connections have ended. It is the sum
/// of five times: the grace after the first GOAWAY, the wait for the client to close, one sweep interval after each of
/// these two times, and 2 s for a client that does not read.
const ENDS_WITHIN: Duration = Duration::from_secs(8);

/// Longest time from the start of a drain until all clients have learnt (for example by GOAWAY) that their connections
/// end.
const TELLS_WITHIN: Duration = Duration::from_secs(3);

/// Longest time for which a relay does not read from a connection while it waits for its control plane's answer.
const UNREAD_FOR: Duration = Duration::from_secs(5);

pub(crate) struct Proxy {
    /// The current process; `None` while no process runs.
    shell: Option<Shell>,
    mesh: Arc<Mesh>,
    own: Option<SpiffeId>,
    bounds: Bounds,
    /// Whether the relay requests the mesh from a control plane, destination by destination.
    pub(crate) discovers: bool,
    /// Number of discovery requests that the processes sent.
    pub(crate) questions: u64,
    /// Number of answers that the control plane has withdrawn because the relay did not use them.
    pub(crate) forgotten: u64,
    pub(crate) log: Log,
    drain_at: Option<Instant>,
    /// Longest time of a drain.
    grace: Duration,
    pub(crate) has_drained: bool,
    /// Time for which the relay has been draining, without the time for which the machine was suspended.
    drains_for: Duration,
    /// Time for which the draining relay has had no calls.
    idle_for: Duration,
    last_turn: Instant,
    /// Time at which the next process starts.
    begins_at: Option<Instant>,
    /// Whether a process has ended while clients were still connected.
    pub(crate) was_cut: bool,
    /// Whether a connection had to make room for another connection, or a new connection was rejected because the
    /// listener was full.
    pub(crate) have_yielded: bool,
    /// Whether a connection that had to make room was closed at once, so that its calls, if any, were cut off.
    have_cut: bool,
    /// Whether a control plane may have left some discovery requests without an answer.
    has_lost_answers: bool,
}

impl Proxy {
    /// Creates a proxy with the identity `own`.
    pub(crate) fn new(mesh: Arc<Mesh>, own: Option<SpiffeId>, net: &mut Net) -> Self {
        let bounds = Bounds::new(net);
        let (drains, is_patient) = (net.random.u8(..4) == 0, net.random.u8(..4) > 0);
        let at = net.now + Duration::from_micros(net.random.u64(..150_000));
        // 40 s is longer than the time for which clients and servers are active, so such a drain waits for all calls.
        let grace = Duration::from_millis(if is_patient { 40_000 } else { net.random.u64(1..3_000) });
        let discovers = net.random.u8(..3) == 0 && net.parts.has(Part::Questions);
        Self {
            shell: Some(Shell::new(mesh.clone(), discovers, own.as_ref(), &bounds, net)),
            mesh,
            own,
            bounds,
            discovers,
            questions: 0,
            forgotten: 0,
            log: Log::default(),
            drain_at: (drains && net.parts.has(Part::Drains)).then_some(at),
            grace,
            has_drained: false,
            drains_for: Duration::ZERO,
            idle_for: Duration::ZERO,
            last_turn: net.now,
            begins_at: None,
            was_cut: false,
            have_yielded: false,
            have_cut: false,
            has_lost_answers: false,
        }
    }

    /// Accepts a connection, unless no process listens.
    pub(crate) fn accept(&mut self, cable: CableId, from: From, to: To, net: &mut Net) -> bool {
        let listens = |shell: &&mut Shell| shell.relay.draining().is_none();
        let Some(shell) = self.shell.as_mut().filter(listens) else { return false };
        let is_accepted = shell.accept(cable, from, to, net);
        self.have_yielded |= shell.doors.have_yielded || !is_accepted;
        self.have_cut |= shell.doors.have_cut;
        is_accepted
    }

    /// Replaces the relay's mesh.
    pub(crate) fn set_mesh(&mut self, mesh: Arc<Mesh>, net: &Net) {
        if let Some(shell) = &mut self.shell {
            shell.set_mesh(&mesh, net);
        }
        self.mesh = mesh;
    }

    /// Does everything that is due. Returns an error if an invariant is broken.
    pub(crate) fn turn(&mut self, net: &mut Net, servers: &mut impl Listen) -> Result<(), String> {
        if self.begins_at.take_if(|at| *at <= net.now).is_some() {
            let mesh = self.mesh.clone();
            self.shell = Some(Shell::new(mesh, self.discovers, self.own.as_ref(), &self.bounds, net));
        }
        let unread_for = self.unread_for();
        let Some(shell) = &mut self.shell else { return Ok(()) };
        if self.drain_at.take_if(|at| *at <= net.now).is_some() {
            shell.drain(net.now + self.grace, net);
            self.has_drained = true;
        }
        shell.take_place(net);
        shell.turn(net, servers);
        self.have_yielded |= shell.doors.have_yielded;
        self.have_cut |= shell.doors.have_cut;
        self.questions += std::mem::take(&mut shell.questions);
        self.forgotten += shell.take_forgotten();
        self.has_lost_answers |= shell.has_lost_answers();
        shell.check_yielding(net)?;
        self.log.read(&mut shell.relay, shell.traces.as_mut())?;
        if shell.is_over_budget {
            return Err("a relay has held more memory than its budget".to_owned());
        }
        if let Some((limit, used)) = shell.relay.exceeded_limit() {
            return Err(format!("{limit} is exceeded: {used} of it is used"));
        }
        let passed = net.now - std::mem::replace(&mut self.last_turn, net.now);
        if shell.relay.draining().is_some() {
            let passed = passed.min(SWEEP_EVERY);
            self.drains_for += passed;
            self.idle_for = if shell.calls() > 0 { Duration::ZERO } else { self.idle_for + passed };
            if shell.is_drained(net) {
                self.end(net, servers)?;
            } else if self.idle_for > ENDS_WITHIN + unread_for {
                return Err(format!("a relay drains without calls for {:?}, and has clients", self.idle_for));
            }
        }
        Ok(())
    }

    /// Returns whether the relay has been draining for so long that every client must have learnt of the drain.
    pub(crate) fn has_told_all(&self) -> bool {
        self.drains_for > TELLS_WITHIN + self.unread_for()
    }

    /// Returns the longest time for which the relay does not read a new connection from its own application.
    pub(crate) fn unread_for(&self) -> Duration {
        if self.discovers { UNREAD_FOR } else { Duration::ZERO }
    }

    fn end(&mut self, net: &mut Net, servers: &mut impl Listen) -> Result<(), String> {
        let Some(mut shell) = self.shell.take() else { return Ok(()) };
        self.was_cut |= shell.has_work();
        self.begins_at = Some(net.now + Duration::from_millis(net.random.u64(..300)));
        (self.drains_for, self.idle_for) = (Duration::ZERO, Duration::ZERO);
        shell.cut_off(net, servers);
        self.log.read(&mut shell.relay, shell.traces.as_mut())?;
        shell.end(net);
        Ok(())
    }

    /// Returns whether a control plane may have left some of the relay's discovery requests without an answer.
    pub(crate) fn has_lost_answers(&self) -> bool {
        self.has_lost_answers
    }

    /// Returns whether the proxy had no reason to fail a call that it accepted.
    pub(crate) fn is_calm(&self) -> bool {
        !self.was_cut && !self.have_cut && !self.has_lost_answers && self.bounds.are_wide
    }

    /// Returns whether the relay must have recorded every request whose bytes have reached its socket. Returns `false`
    /// for a relay that ignored requests after its GOAWAY, or that may have refused requests at its limits.
    pub(crate) fn records_all(&self) -> bool {
        !self.has_drained && !self.have_yielded && !self.was_cut && self.bounds.are_wide
    }

    /// Returns the flow-control windows of a connection as the relay counts them. Returns `None` if the relay has no
    /// such connection.
    pub(crate) fn windows(&mut self, cable: CableId) -> Option<Windows> {
        self.shell.as_mut()?.windows(cable)
    }

    /// Returns the number of calls in flight.
    pub(crate) fn calls(&self) -> usize {
        self.shell.as_ref().map_or(0, Shell::calls)
    }

    /// Returns the time of the next action.
    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        let shell = self.shell.as_ref().map(|shell| shell.next(net));
        let yields = self.shell.as_ref().and_then(|shell| shell.doors.yield_at);
        shell.into_iter().chain(yields).chain(self.drain_at).chain(self.begins_at).min()
    }

    /// Checks that the relay keeps no state of ended calls while connections are open. Returns whether the relay has no
    /// more calls.
    pub(crate) fn check_settled(&self) -> Result<bool, String> {
        let Some(shell) = &self.shell else { return Ok(false) };
        let entries = shell.relay.call_entries();
        // If a call ends while its discovery request waits for an answer, the relay keeps the request until the answer
        // arrives or the request expires.
        if entries.iter().any(|(table, _)| ["calls", "questions"].contains(table)) {
            return Ok(false);
        }
        if entries.is_empty() { Ok(true) } else { Err(format!("a relay without calls still holds {entries:?}")) }
    }

    /// Checks that all calls have ended, that each was recorded once, and that the relay keeps no state of them.
    pub(crate) fn check_calls_over(&self) -> Result<(), String> {
        if let Some(id) = self.log.recorded_twice {
            return Err(format!("call {id} is recorded twice"));
        }
        let Some(shell) = &self.shell else { return Ok(()) };
        let in_methods = shell.relay.metrics().calls_in_methods();
        if in_methods != 0 {
            return Err(format!("{in_methods} calls are left in the metrics of methods"));
        }
        let entries = shell.relay.call_entries();
        if !entries.is_empty() {
            return Err(format!("all calls are over, and a relay still holds {entries:?}"));
        }
        for cluster in shell.relay.explain() {
            let in_flight: Vec<_> = cluster.endpoints.iter().map(|endpoint| endpoint.balancer.in_flight).collect();
            if in_flight.iter().any(|calls| *calls > 0) {
                return Err(format!("picks that were not finished: {in_flight:?}"));
            }
        }
        Ok(())
    }

    pub(crate) fn check_clients_gone(&self) -> Result<(), String> {
        let has_clients = self.shell.as_ref().is_some_and(Shell::has_work);
        if has_clients { Err("clients are left".to_owned()) } else { Ok(()) }
    }

    /// Checks that the relay keeps no state of connections after all connections have ended.
    pub(crate) fn check_empty(&self) -> Result<(), String> {
        let Some(shell) = &self.shell else { return Ok(()) };
        let (wires, entries) = (shell.connections(), shell.relay.connection_entries());
        if wires > 0 || !entries.is_empty() {
            return Err(format!("{wires} wires and {entries:?} are held in the end"));
        }
        Ok(())
    }
}
