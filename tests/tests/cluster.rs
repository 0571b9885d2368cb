//! The whole mesh on a real cluster of two nodes: the steps of a user from a cluster without a mesh to a meshed client
//! and server, and back.
//!
//! The tests use a cluster of their own, or the cluster that `LENO_KUBECONFIG` names. Without a cluster or images, they
//! print a message and pass. `tests/kube/build nodes` builds the cluster, and `images/build` the images.

#[path = "cluster/authority.rs"]
mod authority;
#[path = "cluster/closed.rs"]
mod closed;
#[path = "cluster/explain.rs"]
mod explain;
#[path = "cluster/grpc.rs"]
mod grpc;
#[path = "cluster/lab.rs"]
mod lab;
#[path = "cluster/load.rs"]
mod load;
#[path = "cluster/meshed.rs"]
mod meshed;
#[path = "cluster/neighbours.rs"]
mod neighbours;
#[path = "cluster/objectives.rs"]
mod objectives;
#[path = "cluster/rights.rs"]
mod rights;
#[path = "cluster/sight.rs"]
mod sight;
#[path = "cluster/traces.rs"]
mod traces;
#[path = "cluster/user.rs"]
mod user;
#[path = "cluster/wire.rs"]
mod wire;
