//! The harness of the whole-system tests.
//!
//! Every test starts a real `leno-proxy` ([`proxy`]) on a directory of manifests ([`manifests`]), with real servers
//! behind it ([`backend`], [`scripted`]) and real clients in front of it ([`client`], [`load`], [`programs`]).
//! Attackers send arbitrary bytes ([`wire`], [`attacker`]); an attack is rated by its cost for well-behaved clients
//! beside it ([`siege`]). Each workload of a [`mesh`] has a proxy and a network namespace. Tests that change a
//! machine's network run in [`namespaces`]. Tests of the control plane ([`control`]) use a real API server
//! ([`kubernetes`]).
//!
//! No module here uses the proxy's own crates, so that the tests judge independently. Harness functions panic with a
//! sentence about the failure, because a test could not handle an error either.

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
