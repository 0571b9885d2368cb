//! Translates the mesh model ([`leno_model`]) to xDS resources in protobuf, and xDS resources back to the model. Pure:
//! no sockets, no files, no clock.
//!
//! A [`leno_model::mesh::Cluster`] travels as four xDS resources, each named by [`name`]: a Cluster ([`cluster`]), a
//! ClusterLoadAssignment ([`endpoints`]), a RouteConfiguration ([`routes`]) and the Listeners that lead to the cluster
//! ([`listener`]). The policies that select a workload are a Listener too ([`inbound`]).
//!
//! If xDS has a field for a value, the resource has the value in this field, so that Envoy and gRPC understand it.
//! Values that only Leno understands are in the resource's metadata ([`facts`]). [`bootstrap`] writes the file with
//! which xDS clients start. Each module writes resources for one [`View`]. Each module also reads the resources that a
//! control plane sends. A control plane's resource may contain anything: the result is a value within [`limits`], or an
//! [`Unreadable`].
//!
//! ```
//! use leno_model::{manifest::read_object, translate::translate};
//! use leno_xds::{Dialect, View, cluster};
//! use prost::Message;
//!
//! let service = serde_json::json!({
//!     "apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart", "namespace": "shop"},
//!     "spec": {"ports": [{"port": 50051}]},
//! });
//! let objects = read_object(&service).expect("no mistakes").objects;
//! let mesh = translate(&objects, "default").mesh;
//! let cart = mesh.cluster_by_authority(b"cart.shop:50051").expect("the Service");
//!
//! let sent = cluster::write(cart, View { dialect: Dialect::Envoy, mutual_tls: None }).encode_to_vec();
//! assert_eq!(cluster::read(&sent).expect("ours").key, cart.key);
//! ```
#![forbid(unsafe_code)]

pub mod bootstrap;
mod call_policy;
pub mod cluster;
pub mod endpoints;
mod error;
pub mod facts;
pub mod identity;
pub mod inbound;
pub mod kind;
pub mod limits;
pub mod listener;
mod matcher;
pub mod name;
mod pb;
mod proto;

pub mod routes;
mod tls;
mod view;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod round_trip_tests;

pub use error::Unreadable;
pub use kind::Kind;
pub use view::{Dialect, PROXY_USER_AGENT, View};
