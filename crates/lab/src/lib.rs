//! Leno's lab: echo servers, load, scenarios and reports.
//!
//! The lab judges proxies from outside and shares no code with Leno's data plane: it has clients, clocks and histograms
//! of its own. There are three exceptions:
//! - [`simulate`] uses Leno's balancer, because it simulates that balancer's decisions.
//! - The simulated proxies of [`control_plane`] use the same code as real proxies for certificates and resource names.
//! - The names of gRPC's statuses come from Leno's `model` crate, so that they are defined in one place.
#![forbid(unsafe_code)]

mod backends;
pub mod call;
pub mod chart;
pub mod child;
mod columns;
pub mod compare;
pub mod control_plane;
mod cpus;
pub mod demo;
pub mod echo;
pub mod error;
pub mod experiment;
mod foreground;
pub mod formats;
pub mod http;
mod kubernetes;
pub mod load;
mod manifest;
mod namespaces;
pub mod procfs;
pub mod publication;
mod reflect;
pub mod relay_cost;
pub mod report;
pub mod signals;
pub mod simulate;
mod targets;
pub mod tls;
mod units;
