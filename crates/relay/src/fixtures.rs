//! Helpers for unit tests of the whole relay: create a relay, its mesh, its clients, and its connections to endpoints.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::{Connection, Event, FieldSection, Role, StreamKey};
use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::Mesh;
use leno_model::spiffe::SpiffeId;
use leno_model::translate::translate;

use crate::access_log::AccessLog;
use crate::config::{Config, Settings};
use crate::downstream::client::{Accepted, ClientId, Speaks};
use crate::downstream::origin::{Door, Origin};
use crate::effect::Effect;
use crate::limits::Limits;
use crate::link::LinkId;
use crate::metrics::WorkerMetrics;
use crate::pool::upstream::UpstreamId;
use crate::slots::Id;
use crate::{Relay, SWEEP_EVERY};

/// The fields of a request to the Service `cart`.
pub(crate) const TO_CART: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "cart.shop"), (":path", "/")];

/// Returns the manifests of a Service in the namespace `shop`, with port 80.
pub(crate) fn service(name: &str, endpoints: &[&str]) -> String {
    let endpoints: String = endpoints.iter().map(|address| format!("- addresses: [{address}]\n")).collect();
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{ports: [{{name: http, port: 80}}]}}\n\
         ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {{name: {name}-1, namespace: shop, labels: {{kubernetes.io/service-name: {name}}}}}\n\
         addressType: IPv4\nports: [{{name: http, port: 8080}}]\nendpoints:\n{endpoints}"
    )
}

/// Returns the manifest of a TrafficPolicy for the Service `cart`. `parts` is the YAML of its parts, on one line.
pub(crate) fn policy(parts: &str) -> String {
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: cart, namespace: shop}}\n\
         spec: {{targetRefs: [{{kind: Service, name: cart}}], {parts}}}\n"
    )
}

/// Returns the mesh that manifests describe.
pub(crate) fn mesh_of(manifests: String) -> Mesh {
    let file = SourceFile { path: "mesh.yaml".to_owned(), text: manifests };
    translate(&parse_file(&file, "default").expect("no mistakes").objects, "default").mesh
}

/// Returns the relay of a proxy beside the workload ns/shop/sa/cart.
pub(crate) fn relay(seed: u64, mesh: Mesh, discovers: bool) -> Relay {
    let config = Config {
        index: 0,
        workers: 1,
        own: Some("spiffe://example.org/ns/shop/sa/cart".parse().expect("an id")),
        listening: Vec::new(),
        discovers,
        settings: Settings::default(),
        access_log: AccessLog::off(),
        limits: Arc::new(Limits::default()),
        memory_budget_bytes: 64 << 20,
        metrics: WorkerMetrics::new(),
        tracing: None,
        spent_chains: Arc::default(),
        seed,
    };
    Relay::new(config, Arc::new(mesh), Instant::now())
}

/// The origin of a connection of our own application to the proxy's outbound port.
pub(crate) fn outbound() -> Origin {
    let here = "127.0.0.1:4140".parse().expect("an address");
    Origin { door: Door::Outbound, peer: here, local: here, original_destination: None }
}

/// The origin of a connection of another workload, or of a kubelet, to our application.
pub(crate) fn inbound() -> Origin {
    let application = "10.0.0.9:8080".parse().expect("an address");
    let peer = "10.0.1.1:40000".parse().expect("an address");
    Origin { door: Door::Inbound, peer, local: application, original_destination: Some(application) }
}

/// Adds a client that has sent `first` on the connection with this number.
pub(crate) fn connect(
    relay: &mut Relay,
    number: u32,
    origin: Origin,
    identity: Option<SpiffeId>,
    (speaks, first): (Speaks, Vec<u8>),
) -> ClientId {
    relay.add_client(Accepted {
        wire: Id::numbered(number),
        origin,
        target: origin.original_destination,
        peer_id: identity.map(Arc::new),
        has_tls: false,
        speaks,
        first,
        opened: relay.now,
        held_since: None,
    })
}

/// Returns a relay beside an application, and a connection of the application with the protocol `speaks`.
pub(crate) fn client(speaks: Speaks) -> (Relay, ClientId) {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let opaque = matches!(speaks, Speaks::Opaque(_)).then(|| "10.0.0.7:3306".parse().expect("an address"));
    let origin = Origin { original_destination: opaque, ..outbound() };
    let client = connect(&mut relay, 0, origin, None, (speaks, Vec::new()));
    assert!(relay.begin_read(LinkId::Client(client)).is_some());
    relay.dispatch();
    (relay, client)
}

/// Returns a relay whose client has upgraded its HTTP/1 connection to another protocol, and the connections to the
/// client and to the server.
pub(crate) fn upgraded() -> (Relay, LinkId, LinkId) {
    let (mut relay, id) = client(Speaks::Http1);
    let client = LinkId::Client(id);
    let asked = b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    relay.receive(client, asked);
    relay.dispatch();
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    relay.receive(upstream, b"HTTP/1.1 101 -\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    flush(&mut relay, client);
    (relay, client, upstream)
}

/// Makes a call with HTTP/1 on a new connection, which gets this number.
pub(crate) fn call(
    relay: &mut Relay,
    number: u32,
    origin: Origin,
    identity: Option<SpiffeId>,
    request: Vec<u8>,
) -> ClientId {
    let client = connect(relay, number, origin, identity, (Speaks::Http1, request));
    relay.begin_read(LinkId::Client(client));
    relay.dispatch();
    client
}

/// Begins to open the connections to endpoints that the relay has requested, as the event loop does. Returns the
/// connections and the addresses of their endpoints.
pub(crate) fn begin_connections(relay: &mut Relay) -> Vec<(UpstreamId, SocketAddr)> {
    let mut begun = Vec::new();
    for effect in relay.take_effects() {
        if let Effect::Connect { upstream, address, .. } = effect {
            relay.attach_upstream(upstream, Id::numbered(upstream.place()), address);
            begun.push((upstream, address));
        }
    }
    begun
}

/// Begins to open the connection that the relay has requested from the event loop.
pub(crate) fn begin_to_connect(relay: &mut Relay) -> UpstreamId {
    begin_connections(relay).first().expect("a call needs a connection").0
}

/// Opens the connection that the relay has requested from the event loop.
pub(crate) fn connect_endpoint(relay: &mut Relay) -> UpstreamId {
    let upstream = begin_to_connect(relay);
    relay.connected(upstream);
    flush(relay, LinkId::Endpoint(upstream));
    upstream
}

/// Flushes all connections. Only the socket of `open` accepts bytes. Returns whether the relay has requested to read a
/// connection.
pub(crate) fn flush(relay: &mut Relay, open: LinkId) -> bool {
    let now = relay.now;
    loop {
        while let Some(id) = relay.next_dirty() {
            let link = relay.link(id).expect("it is dirty");
            while id == open && !link.output().is_empty() {
                let written = link.output().len();
                link.note_written(written);
            }
            let is_blocked = !link.output().is_empty();
            link.note_flushed(now, is_blocked);
            relay.flushed(id);
        }
        relay.serve_waiting();
        if !relay.has_dirty() {
            break;
        }
    }
    relay.take_effects().iter().any(|effect| matches!(effect, Effect::ReadOn(_)))
}

/// Lets `time` pass. In its last second, sweeps each connection once.
pub(crate) fn sweep(relay: &mut Relay, time: Duration) {
    relay.set_now(relay.now + time - Duration::from_secs(1));
    for _ in 0..10 {
        relay.set_now(relay.now + SWEEP_EVERY);
        relay.sweep();
    }
}

pub(crate) fn is_open(relay: &mut Relay, id: LinkId) -> bool {
    relay.link(id).is_some()
}

/// Returns a section with these fields.
pub(crate) fn fields(pairs: &[(&str, &str)]) -> FieldSection {
    let mut fields = FieldSection::new();
    pairs.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
    fields
}

/// Lets an HTTP/2 engine read bytes, and returns the stream of the last header section.
pub(crate) fn read(http2: &mut Connection, now: Instant, mut bytes: &[u8]) -> Option<StreamKey> {
    let (mut fields, mut asked) = (FieldSection::new(), None);
    while let Some(event) = http2.receive(now, &mut bytes, &mut fields).expect("valid frames") {
        if let Event::Headers { stream, .. } = event {
            asked = Some(stream);
        }
    }
    asked
}

/// Creates the HTTP/2 engine of a client that has begun a request with these fields. Returns the engine and the
/// request's stream. The request is not complete.
pub(crate) fn http2_caller(now: Instant, request: &[(&str, &str)]) -> (Connection, StreamKey) {
    let mut caller = Connection::new(Role::Client, Arc::new(leno_http2::Limits::client()), now);
    let stream = caller.open(now, 0, &fields(request), false).expect("a stream");
    (caller, stream)
}

/// Establishes a connection to an endpoint that speaks HTTP/2, and lets the endpoint send its SETTINGS. Returns the
/// endpoint's HTTP/2 engine.
pub(crate) fn establish_http2(relay: &mut Relay, upstream: UpstreamId) -> Connection {
    let (now, endpoint) = (relay.now, LinkId::Endpoint(upstream));
    let mut server = Connection::new(Role::Server, Arc::new(leno_http2::Limits::server()), now);
    relay.connected(upstream);
    let link = relay.link(endpoint).expect("it is open");
    let preface = link.output().to_vec();
    link.note_written(preface.len());
    assert_eq!(read(&mut server, now, &preface), None);
    let settings = server.output().to_vec();
    server.advance_output(settings.len());
    relay.receive(endpoint, &settings);
    server
}
