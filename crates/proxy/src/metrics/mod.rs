//! The metrics that the proxy adds to its relays' metrics, and the export of all metrics for Prometheus.

mod config;
mod export;
mod identity;
mod process;
mod traces;

pub(crate) use config::ConfigMetrics;
pub(crate) use export::Scrape;
pub(crate) use identity::identity_text;
pub(crate) use process::ProcessMetrics;
