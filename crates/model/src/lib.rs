//! Leno's plain nouns and pure decisions: no sockets, no files, no clock.
//!
//! [`manifest`] reads Kubernetes manifests into [`object`]s, [`typed`] what the Kubernetes API gives, [`translate`] joins the
//! objects into a [`mesh::Mesh`], [`route`] finds the rule that a request meets, [`balance`] chooses among the endpoints of a
//! cluster, [`policy`] says who may call a workload.
#![forbid(unsafe_code)]

pub mod authority;
pub mod balance;
pub mod discovery;
#[cfg(test)]
mod fixtures;
pub mod manifest;
pub mod mesh;
pub mod object;
pub mod policy;
pub mod problem;
pub mod protocol;
pub mod route;
pub mod settings;
pub mod sorted;
pub mod spelling;
pub mod spiffe;
pub mod translate;
pub mod typed;
