//! The whole mesh on a real cluster of two nodes: what its users do, from nothing to a meshed pair and back to nothing.
//!
//! Where there is no such cluster, which `tests/kube/build nodes` and `images/build` make possible, it says so and passes.

#[path = "cluster/load.rs"]
mod load;
#[path = "cluster/user.rs"]
mod user;
