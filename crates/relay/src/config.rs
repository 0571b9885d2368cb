//! Config: the settings and the shared objects with which a relay starts.

use std::net::SocketAddr;
use std::sync::Arc;

use leno_model::policy::{DefaultInboundPolicy, Probes};
use leno_model::protocol::PortRanges;
use leno_model::spiffe::SpiffeId;

use crate::access_log::AccessLog;
use crate::downstream::origin::Door;
use crate::limits::Limits;
use crate::metrics::WorkerMetrics;
use crate::spent_chains::SpentChains;
use crate::target::find::ForwardedFor;
use crate::trace::Tracing;

/// The settings and the shared objects with which a relay starts.
pub struct Config {
    /// Index of the relay's worker, from 0.
    pub index: usize,
    /// Number of workers of the process, at least 1.
    pub workers: u32,
    /// The identity of our own workload; `None` without mutual TLS.
    pub own: Option<SpiffeId>,
    /// The addresses that the proxy listens on.
    pub listening: Vec<(Door, SocketAddr)>,
    /// Whether the relay can ask the control plane about unknown destinations. If `false`, the relay gets the whole
    /// mesh at once, and never asks.
    pub discovers: bool,
    /// Settings for the proxy's own application.
    pub settings: Settings,
    /// The access log, which gets a line for each call.
    pub access_log: AccessLog,
    /// Configuration of traces; `None` if calls are not traced.
    pub tracing: Option<Tracing>,
    /// Requests to our application that its callers must not retry. All relays of a proxy share this list.
    pub spent_chains: Arc<SpentChains>,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// Maximum memory that peers can make the relay hold, in bytes.
    pub memory_budget_bytes: usize,
    /// The relay's metrics.
    pub metrics: Arc<WorkerMetrics>,
    /// Seed of the relay's random choices.
    pub seed: u64,
}

/// Settings for the proxy's own application. All relays of a proxy have the same settings.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Who may call the application if no policy is enforced.
    pub default_policy: DefaultInboundPolicy,
    /// Ports of the application whose bytes the proxy relays without parsing them.
    pub opaque_ports: PortRanges,
    /// Ports of the application that speak HTTP and nothing else.
    pub http_ports: PortRanges,
    /// Whether the proxy also sends `x-forwarded-client-cert`, which tells the application the identity of a verified
    /// client.
    pub forwarded_client_cert: bool,
    /// The change that the proxy makes to `x-forwarded-for` in requests to the application.
    pub forwarded_for: ForwardedFor,
    /// The port where the proxy itself serves taps to callers whose identity a policy names; `None` if the proxy serves
    /// no taps.
    pub tap_port: Option<u16>,
    /// The kubelet's probes of the application. They are always allowed, independent of the policies.
    pub probes: Probes,
}
