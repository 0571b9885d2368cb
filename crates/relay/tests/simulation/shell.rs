//! The event loop around the relay, over the simulated network and in virtual time.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::Mesh;
use leno_model::translate::translate;
use leno_relay::access_log::{AccessLog, Format, Queries};
use leno_relay::limits::Limits;
use leno_relay::metrics::WorkerMetrics;
use leno_relay::{Accepted, Config, Door, Effect, Id, LinkId, Origin, Relay, Relief, Settings, Slots, Speaks};

use crate::net::{CableId, End, Net, Read};

/// Whoever listens where a proxy connects to.
pub(crate) trait Listen {
    /// Accepts a connection. Returns whether anyone listens there.
    fn accept(&mut self, address: SocketAddr, cable: CableId, net: &Net) -> bool;
}

/// Most bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
struct Wire {
    cable: CableId,
    /// The end that the proxy holds.
    end: End,
    link: LinkId,
    /// The connection is established, or refused, at this time.
    connected_at: Option<Instant>,
    is_refused: bool,
    is_unfinished: bool,
    /// The socket took no more bytes.
    is_blocked: bool,
    is_write_closed: bool,
}

type WireId = Id<Wire>;

/// A proxy: a relay, and the event loop around it.
pub(crate) struct Shell {
    pub(crate) relay: Relay,
    wires: Slots<Wire>,
    clients: u16,
    /// The calls that the access log has a line of.
    pub(crate) recorded: BTreeSet<u64>,
    /// A call with two lines.
    pub(crate) recorded_twice: Option<u64>,
    /// Has held more memory than its budget although it had clients to close.
    pub(crate) is_over_budget: bool,
}

impl Shell {
    pub(crate) fn new(mesh: Arc<Mesh>, net: &mut Net) -> Self {
        let metrics = WorkerMetrics::new();
        let config = Config {
            index: 0,
            own: None,
            listening: Vec::new(),
            discovers: false,
            settings: Settings::default(),
            access_log: AccessLog::on(Format::Json, Queries::Drop, metrics.clone()),
            limits: Arc::new(limits_of(&mut net.random)),
            memory_budget_bytes: if net.random.u8(..4) == 0 { net.random.usize(200_000..2_000_000) } else { 512 << 20 },
            metrics,
            seed: net.random.u64(..),
        };
        Self {
            relay: Relay::new(config, mesh, net.now),
            wires: Slots::default(),
            clients: 0,
            recorded: BTreeSet::new(),
            recorded_twice: None,
            is_over_budget: false,
        }
    }

    /// Accepts a connection of the proxy's own application, or one to its application at this address.
    pub(crate) fn accept(&mut self, cable: CableId, to: Option<SocketAddr>, net: &Net) {
        self.clients += 1;
        let peer = SocketAddr::from(([127, 0, 0, 1], 10_000 + self.clients));
        let (door, local) = match to {
            None => (Door::Outbound, SocketAddr::from(([127, 0, 0, 1], 4140))),
            Some(address) => (Door::Inbound, SocketAddr::new(address.ip(), 4143)),
        };
        let origin = Origin { door, peer, local, original_destination: to };
        self.relay.set_now(net.now);
        // The link is known only afterwards.
        let unknown = LinkId::Client(Id::numbered(u32::MAX));
        let wire = self.wires.insert(Wire {
            cable,
            end: End::Far,
            link: unknown,
            connected_at: None,
            is_refused: false,
            is_unfinished: true,
            is_blocked: false,
            is_write_closed: false,
        });
        let client = self.relay.add_client(Accepted {
            wire: wire.cast(),
            origin,
            target: to,
            peer_id: None,
            has_tls: false,
            speaks: Speaks::Http2,
            first: Vec::new(),
            opened: net.now,
        });
        if let Some(wire) = self.wires.get_mut(wire) {
            wire.link = LinkId::Client(client);
        }
    }

    /// One turn of the event loop.
    pub(crate) fn turn(&mut self, net: &mut Net, servers: &mut impl Listen) {
        self.relay.set_now(net.now);
        let ids: Vec<WireId> = self.wires.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.serve(id, net);
        }
        self.carry_out(net, servers);
        self.relay.recall_clients();
        self.relay.expire_deadlines();
        self.relay.sweep();
        self.relay.dispatch();
        loop {
            while let Some(id) = self.relay.next_dirty() {
                self.flush(id, net);
            }
            self.relay.serve_waiting();
            self.carry_out(net, servers);
            if !self.relay.has_dirty() {
                break;
            }
        }
        if self.relay.exceeds_budget() {
            let mut relief = Relief::default();
            while self.relay.relieve(&mut relief) {
                self.carry_out(net, servers);
            }
            self.is_over_budget |= self.relay.exceeds_budget() && !self.relay.has_no_clients();
        }
        self.read_log();
    }

    fn read_log(&mut self) {
        let Some(lines) = self.relay.access_log().lines() else { return };
        let text = String::from_utf8(std::mem::take(&mut lines.text)).expect("the log is text");
        lines.note_taken();
        for line in text.lines() {
            let id = line.split_once(r#""request_id":""#).and_then(|(_, rest)| rest.split_once('"'));
            let id = id.and_then(|(id, _)| id.parse().ok()).unwrap_or_else(|| panic!("whose line is this? {line}"));
            if !self.recorded.insert(id) {
                self.recorded_twice = Some(id);
            }
        }
    }

    fn serve(&mut self, id: WireId, net: &mut Net) {
        let Some(wire) = self.wires.get_mut(id) else { return };
        let link = wire.link;
        if let Some(at) = wire.connected_at {
            if at > net.now {
                return;
            }
            wire.connected_at = None;
            if let LinkId::Endpoint(upstream) = link {
                if wire.is_refused {
                    return self.relay.close_upstream(upstream, "refused");
                }
                self.relay.connected(upstream);
            }
        }
        if wire.is_blocked && net.is_writable(wire.cable, wire.end) {
            wire.is_blocked = false;
            self.relay.mark_dirty(link);
        }
        // Several times in a turn, as several events may come.
        for _ in 0..3 {
            let Some(wire) = self.wires.get_mut(id) else { return };
            let (cable, end) = (wire.cable, wire.end);
            if !std::mem::take(&mut wire.is_unfinished) && !net.is_readable(cable, end) {
                return;
            }
            let Some(most) = self.relay.begin_read(link) else { return };
            match net.read(cable, end, most.min(READ_BYTES)) {
                Read::Bytes(bytes) => self.relay.receive(link, &bytes),
                Read::Nothing => self.relay.receive(link, &[]),
                Read::End => {
                    self.relay.end_follows(link);
                    self.relay.receive_end(link);
                }
            }
        }
    }

    fn flush(&mut self, id: LinkId, net: &mut Net) {
        let Some(link) = self.relay.link(id) else { return };
        let Some(wire_id) = link.wire().map(Id::cast) else { return };
        let Some(wire) = self.wires.get_mut(wire_id) else { return };
        let mut has_failed = false;
        while !wire.is_write_closed {
            let output = link.output();
            if output.is_empty() {
                link.note_flushed(net.now, false);
                break;
            }
            match net.write(wire.cable, wire.end, output) {
                Some(0) => {
                    link.note_flushed(net.now, true);
                    wire.is_blocked = true;
                    break;
                }
                Some(written) => link.note_written(written),
                None => {
                    has_failed = true;
                    break;
                }
            }
        }
        if link.is_closing() || link.is_finished() {
            wire.is_write_closed = true;
            net.close_write(wire.cable, wire.end);
        }
        if has_failed && !link.is_closing() {
            wire.is_unfinished = true;
            return self.relay.end_follows(id);
        }
        self.relay.flushed(id);
    }

    fn carry_out(&mut self, net: &mut Net, servers: &mut impl Listen) {
        loop {
            let effects = self.relay.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Connect { upstream, address, .. } => {
                        if !self.relay.has_upstream(upstream) {
                            continue;
                        }
                        let cable = net.open();
                        let is_refused = !servers.accept(address, cable, net);
                        let way = Duration::from_micros(net.random.u64(50..5_000));
                        let wire = self.wires.insert(Wire {
                            cable,
                            end: End::Near,
                            link: LinkId::Endpoint(upstream),
                            connected_at: Some(net.now + way),
                            is_refused,
                            is_unfinished: true,
                            is_blocked: false,
                            is_write_closed: false,
                        });
                        self.relay.attach_upstream(upstream, wire.cast(), address);
                    }
                    Effect::ReadOn(wire) => {
                        if let Some(wire) = self.wires.get_mut(wire.cast::<Wire>()) {
                            wire.is_unfinished = true;
                        }
                    }
                    Effect::WriteLast(wire, bytes) => {
                        if let Some(wire) = self.wires.get(wire.cast::<Wire>()) {
                            net.write(wire.cable, wire.end, &bytes);
                        }
                    }
                    Effect::Close(wire) => {
                        if let Some(wire) = self.wires.remove(wire.cast()) {
                            net.close(wire.cable, wire.end);
                        }
                    }
                    Effect::Abort(_) | Effect::Settle(_) | Effect::Count(..) => {}
                    Effect::Ask(_) | Effect::Recall { .. } => unreachable!("all is known, and nothing is guessed"),
                }
            }
        }
    }

    /// Returns when the next turn is due.
    pub(crate) fn next(&self, net: &Net) -> Instant {
        let is_unfinished = self.wires.iter().any(|(_, wire)| wire.is_unfinished && wire.connected_at.is_none());
        if is_unfinished {
            return net.now + Duration::from_micros(1);
        }
        let connects = self.wires.iter().filter_map(|(_, wire)| wire.connected_at).min();
        let due = net.now + self.relay.wait().max(Duration::from_micros(1));
        connects.map_or(due, |at| at.min(due))
    }
}

/// Returns the usual limits, or small ones that a world reaches.
fn limits_of(random: &mut Rng) -> Limits {
    let mut limits = Limits::default();
    if random.u8(..3) == 0 {
        let relay = &mut limits.relay;
        relay.max_calls = random.u32(5..60);
        relay.max_waiting_calls_per_endpoint = random.u32(1..20);
        relay.max_wait_ms = random.u32(10..2_000);
        relay.max_attempts = random.u32(1..4);
        relay.max_replay_bytes_per_call = random.u32(1_000..100_000);
        relay.max_replay_bytes = random.u32(1_000..200_000);
        relay.max_buffered_bytes_per_client = random.u32(70_000..300_000);
        relay.max_cancelled_calls_per_client = random.u32(1..20);
    }
    limits
}

/// Returns a mesh with one Service, which has these endpoints.
pub(crate) fn mesh_of(endpoints: &[SocketAddr]) -> Arc<Mesh> {
    let mut text =
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: echo}\nspec: {ports: [{port: 80}]}\n".to_owned();
    for (index, endpoint) in endpoints.iter().enumerate() {
        text += &format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
             metadata: {{name: echo-{index}, labels: {{kubernetes.io/service-name: echo}}}}\n\
             ports: [{{port: {}}}]\nendpoints: [{{addresses: [{}]}}]\n",
            endpoint.port(),
            endpoint.ip()
        );
    }
    let file = SourceFile { path: "mesh.yaml".to_owned(), text };
    let objects = parse_file(&file, "default").expect("a manifest without mistakes").objects;
    Arc::new(translate(&objects, "default").mesh)
}
