//! The harness of the whole-system tests.
//!
//! Every test starts a real `leno-proxy` ([`proxy`]) on a directory of manifests ([`manifests`]). Real servers run
//! behind the proxy ([`backend`], [`scripted`]), and real clients call it ([`client`], [`load`], [`programs`]).
//! Attackers send arbitrary bytes ([`wire`], [`attacker`]). [`siege`] measures what an attack costs the well-behaved
//! clients of the same proxy. Each workload of a [`mesh`] has a proxy and a network namespace. Tests that change a
//! machine's network run in [`namespaces`]. Tests of the control plane ([`control`]) use a real API server
//! ([`kubernetes`]).
//!
//! No module of this library uses the proxy's own crates, so that the tests judge independently. If a function of the
//! harness fails, it panics with a sentence about the failure. It returns no error, because a test could do nothing but
//! panic.

pub mod admin;
pub mod attacker;
pub mod backend;
pub mod client;
pub mod control;
pub mod dashboard;
pub mod kubernetes;
pub mod load;
pub mod manifests;
pub mod mesh;
pub mod messages;
pub mod namespaces;
pub mod programs;
pub mod prometheus;
pub mod proxy;
pub mod scrape;
pub mod scripted;
pub mod siege;
pub mod sockets;
pub mod traces;
pub mod wire;
pub mod xds;
