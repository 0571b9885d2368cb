//! A worker: one thread with one event loop, which moves bytes between sockets and its relay ([`leno_relay`]).
//!
//! - A client's connection: `accept`, `arrival` (before its protocol is known, with `arrivals`), `places` (which
//!   connections stay if there are too many).
//! - Bytes: `wire` (a socket and its `tls`, counted by `meter`), `sockets` (input, output, and the effects that the
//!   relay requests), `socket_memory` (what the kernel holds for a socket).
//! - Certificates: `trust` (when a connection ends because of its peer's certificate, with `standing` and `recheck`).
//! - The rest: `handle` (the control thread's handle of a worker), `listen` (the sockets that accept), `upkeep`
//!   (periodic work), `memory` (of the process).
//!
//! One turn of the loop reads the input of all ready connections, lets the relay send the calls on, and writes every
//! connection once. A sweep is the periodic work of the relay and of `upkeep`.

mod accept;
mod arrival;
mod arrivals;
mod handle;
mod listen;
pub(crate) mod memory;
mod meter;
mod places;
mod recheck;
mod socket_memory;
mod sockets;
mod standing;
pub mod tls;
mod trust;
mod upkeep;
mod wire;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use leno_identity::TlsIdentity;
use leno_model::discovery::Subject;
use leno_relay::{Relay, Slots};
use mio::{Events, Poll, Token};
use tokio::sync::mpsc as tokio_mpsc;

use accept::Arrival;
use handle::Command;
use listen::Listener;
use places::Doors;
use recheck::Recheck;
use wire::{Buffers, Wire, WireId, wire_of};

use crate::access_log::Outlet;

pub use handle::{SpawnError, WorkerConfig, WorkerHandle};
pub use listen::{BindError, Bound, MAX_LISTENERS, bind_workers};
pub use standing::Standing;

const WAKER: Token = Token(0);
/// First poll token of the listeners. The tokens of wires are larger ([`wire::token`]).
const FIRST_LISTENER: usize = 1;
/// Maximum number of bytes to read from one connection in one turn of the loop.
const READ_BYTES: usize = 64 * 1024;
/// One worker thread: the event loop around a relay.
struct Worker {
    poll: Poll,
    listeners: Vec<Listener>,
    commands: mpsc::Receiver<Command>,
    relay: Relay,
    /// Outlet for the lines of the access log.
    outlet: Outlet,
    /// Channel for questions to the control plane; `None` without a control plane.
    discovery: Option<tokio_mpsc::Sender<Subject>>,
    /// Our workload certificate, and the trust anchors for peers' certificates; `None` if the proxy has no identity.
    identity: Option<Arc<TlsIdentity>>,
    /// Limits the number of connections from clients.
    doors: Doors,
    /// The best certificate that each peer has shown to any worker.
    standing: Arc<Standing>,
    /// Connections whose peers' certificates must be verified again, because a trust anchor was removed.
    recheck: Recheck,
    wires: Slots<Wire>,
    arrivals: Slots<Arrival>,
    /// Wires that had more to read than one turn allows.
    unfinished: Vec<WireId>,
    accept_again: bool,
    /// Whether accepting failed; the next sweep then tries again.
    accept_failed: bool,
    buffers: Buffers,
    /// Whether a burst of traffic has used memory that was not returned to the system yet.
    burst: bool,
    /// Whether the next upkeep shall call [`memory::trim`]: the tables are shrunk and the thread's cache is emptied, so
    /// that their memory can be returned.
    trim_next: bool,
    next_trim: Instant,
}

impl Worker {
    /// Runs the event loop until the worker is drained.
    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            let wait = self.wait();
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => self.relay.set_now(Instant::now()),
            }
            self.serve_wires(&events);
            if self.accept_again {
                self.accept();
            }
            self.relay.recall_clients();
            self.relay.expire_deadlines();
            self.recheck_peers();
            self.keep_up();
            self.relay.dispatch();
            self.flush_all();
            self.keep_budget();
            let now = self.relay.now();
            self.outlet.hand_over(self.relay.access_log(), now);
            if self.is_drained() {
                self.relay.cut_off();
                self.flush_all();
                return Ok(());
            }
        }
    }

    /// Continues to read wires that had more to read, and then handles the events.
    fn serve_wires(&mut self, events: &Events) {
        for wire in std::mem::take(&mut self.unfinished) {
            self.read_on(wire);
            self.carry_out();
        }
        for event in events {
            match wire_of(event.token()) {
                Some(wire) => self.on_ready(wire, event),
                None if event.token() == WAKER => self.run_commands(),
                None => self.accept_again = true,
            }
            // Carry out requested effects now. So a connection that has ended is closed, and frees its place, before
            // another connection needs a place.
            self.carry_out();
        }
    }

    /// Returns the longest time for which the worker may wait for events.
    fn wait(&self) -> Duration {
        if !self.unfinished.is_empty() || self.accept_again {
            return Duration::ZERO;
        }
        let now = self.relay.now();
        let slice = self.recheck.next_slice(now).map(|slice| slice.saturating_duration_since(now));
        slice.map_or(self.relay.wait(), |slice| slice.min(self.relay.wait()))
    }
}
