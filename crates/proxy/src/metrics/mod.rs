//! What the proxy counts, and how Prometheus reads it.
//!
//! Every number has exactly one writer: a worker thread, or the control thread. So counting is a
//! relaxed load and a relaxed store, with no lock and no contended cache line; `export` sums the
//! workers' numbers when somebody scrapes.

mod cluster;
mod config;
mod counter;
mod export;
mod histogram;
mod keyed;
mod process;
mod worker;

pub use cluster::ClusterMetrics;
pub use counter::{Counter, Gauge};
pub use histogram::Histogram;
pub use worker::{TcpMetrics, WorkerMetrics};

pub(crate) use config::ConfigMetrics;
pub(crate) use export::{CONTENT_TYPE, Scrape};
pub(crate) use process::ProcessMetrics;
