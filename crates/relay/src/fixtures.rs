//! Helpers for unit tests of the whole relay: create a relay, its mesh, and its clients.

use std::sync::Arc;
use std::time::Instant;

use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::Mesh;
use leno_model::spiffe::SpiffeId;
use leno_model::translate::translate;

use crate::Relay;
use crate::access_log::AccessLog;
use crate::config::{Config, Settings};
use crate::downstream::client::{Accepted, ClientId, Speaks};
use crate::downstream::origin::{Door, Origin};
use crate::limits::Limits;
use crate::link::LinkId;
use crate::metrics::WorkerMetrics;
use crate::slots::Id;

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
