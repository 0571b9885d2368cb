//! Leno's lab: echo servers, load, scenarios and reports.
//!
//! It judges proxies from outside. It shares no code with Leno's data plane: clients, clocks and
//! histograms are its own. Only [`simulate`] uses the balancer, which is what it simulates, and the simulated proxies of
//! [`control_plane`] have certificates and names of resources from where real ones have them.
#![forbid(unsafe_code)]

mod backends;
pub mod call;
pub mod chart;
pub mod child;
pub mod control_plane;
mod cpus;
pub mod demo;
pub mod echo;
pub mod error;
pub mod experiment;
mod http;
pub mod load;
mod manifest;
pub mod procfs;
pub mod relay_cost;
pub mod report;
pub mod simulate;
mod targets;
pub mod tls;
