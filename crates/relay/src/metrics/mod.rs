//! The metrics of relays, and their export for Prometheus.
//!
//! Every number has exactly one writer: a worker thread, or the control thread. So counting is a relaxed load and a
//! relaxed store, without a lock or a contended cache line. `export` sums the workers' numbers at each scrape.
//!
//! A worker looks up a series by its labels only once: when the identity of a connection's peer is known, or when a
//! cluster gets its first call. The worker keeps the handle, so a call needs no lookup.

mod authorization;
mod class;
mod counter;
mod endpoints;
mod exemplars;
mod export;
#[cfg(test)]
pub(crate) mod fixtures;
mod histogram;
mod inbound;
mod keyed;
mod labels;
mod method;
mod objective;
mod route;
mod series;
mod skipped;
mod tcp;
mod text;
mod traffic;
mod worker;

pub use authorization::{AuthorizationMetrics, Decisions};
pub use class::Class;
pub use counter::{Counter, Gauge};
pub use endpoints::EndpointMetrics;
pub use exemplars::{Exemplar, ExemplarLines};
pub use export::RelayScrape;
pub use labels::{
    AuthorizationLabels, ConnectionLabels, DecidedBy, Direction, NoTlsReason, PeerLabel, TargetLabel, TlsLabel,
    TrafficLabels,
};
pub use method::{Measured, MethodLabels, MethodMetrics, MethodName, MethodOutcome, MethodTarget};
pub use route::{FurtherMetrics, RouteLabels, RouteMetrics};
pub(crate) use skipped::reason;
pub use tcp::TcpMetrics;
pub use text::{counter, encode_count, gauge};
pub use traffic::TrafficMetrics;
pub use worker::WorkerMetrics;
