//! The whole mesh on a real cluster of two nodes: what its users do, from nothing to a meshed pair and back to nothing.
//!
//! On a cluster of its own, or on the one that `LENO_KUBECONFIG` names. Where there is neither, which `tests/kube/build nodes` and `images/build` make possible, it says so and passes.

#[path = "cluster/closed.rs"]
mod closed;
#[path = "cluster/grpc.rs"]
mod grpc;
#[path = "cluster/load.rs"]
mod load;
#[path = "cluster/meshed.rs"]
mod meshed;
#[path = "cluster/neighbours.rs"]
mod neighbours;
#[path = "cluster/user.rs"]
mod user;
#[path = "cluster/wire.rs"]
mod wire;
