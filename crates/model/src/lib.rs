//! Leno's types and decisions. This crate uses no sockets, no files and no clock.
//!
//! [`manifest`] parses Kubernetes manifests into [`object`]s, and [`typed`] parses objects from the Kubernetes API.
//! [`translate`] converts the objects into a [`mesh::Mesh`]. [`route`] finds the rule for a request, and [`balance`]
//! chooses among the endpoints of a cluster. [`traffic`] contains the time limits and retries of calls. [`policy`]
//! decides which callers may call a workload.
//!
//! This example translates a Service's manifest into a mesh, and finds the cluster of a call:
//!
//! ```
//! use leno_model::manifest::{SourceFile, parse_file};
//! use leno_model::translate::translate;
//!
//! let text = "
//! apiVersion: v1
//! kind: Service
//! metadata: {name: cart, namespace: shop}
//! spec: {ports: [{port: 50051}]}
//! ".to_owned();
//! let manifest = parse_file(&SourceFile { path: "cart.yaml".to_owned(), text }, "default").expect("no mistakes");
//! let mesh = translate(&manifest.objects, "default").mesh;
//! let cluster = mesh.cluster_by_authority(b"cart.shop:50051").expect("the Service");
//! assert_eq!(cluster.key.to_string(), "cart.shop:50051");
//! assert!(cluster.endpoints.is_empty());
//! ```
#![forbid(unsafe_code)]

pub mod authority;
pub mod balance;
pub mod discovery;
pub mod explain;
#[cfg(test)]
mod fixtures;
pub mod http_method;
pub mod manifest;
pub mod mesh;
pub mod object;
pub mod policy;
pub mod problem;
pub mod protocol;
pub mod proxy;
pub mod route;
pub mod settings;
pub mod sorted;
pub mod spelling;
pub mod spiffe;
pub mod tap;
pub mod tcp_probe;
pub mod traffic;
pub mod translate;
pub mod typed;
