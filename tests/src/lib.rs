//! The harness of the whole-system tests.
//!
//! Every test starts a real `leno-proxy` ([`proxy`]) on a directory of manifests ([`manifests`]), puts real
//! servers behind it ([`backend`], [`scripted`]) and real clients in front of it ([`client`], [`load`],
//! [`programs`]). Attackers write their own bytes ([`wire`], [`attacker`]) and are judged by what they cost the
//! good clients beside them ([`siege`]). Workloads of a [`mesh`] have a proxy and a network namespace each. Tests that change a machine's network do so in [`namespaces`].
//! The control plane's ([`control`]) run beside a real API server ([`kubernetes`]).
//!
//! Nothing here uses the proxy's own crates: the tests are an independent judge. Harness functions panic, with a
//! sentence that says what went wrong, because a test has nothing better to do.

pub mod admin;
pub mod attacker;
pub mod backend;
pub mod client;
pub mod control;
pub mod kubernetes;
pub mod load;
pub mod manifests;
pub mod mesh;
pub mod messages;
pub mod namespaces;
pub mod programs;
pub mod proxy;
pub mod scrape;
pub mod scripted;
pub mod siege;
pub mod wire;
pub mod xds;
