//! `leno lab run --cluster`: the same scenarios in a Kubernetes cluster, with and without its meshes.
//!
//! ```text
//! options -> access (rights, meshes) -> workload -> stage (objects, pods, servers), one for each mesh
//!         -> turn -> load (commands in the load Pods) and usage (kubelets) -> record -> report
//! ```
//!
//! Each mesh has a namespace of its own, with the same servers and load Pods. All namespaces exist during the whole
//! experiment, and the runs of all meshes take turns. So if other programs disturb the cluster for a minute, all meshes
//! are affected alike, and their results stay comparable.
//!
//! The load may also call a user's own Service (`workload`). Then the namespaces contain only load Pods.

mod access;
mod clean;
mod endpoints;
mod exec;
mod load;
mod mesh;
mod nodes;
mod objects;
mod options;
mod pods;
mod runner;
mod servers;
mod stage;
mod turn;
mod usage;
mod waiting;
mod workload;
mod workload_options;

pub use clean::{CleanOptions, clean};
pub use options::ClusterOptions;
pub(super) use options::refuse_impossible;
pub(super) use runner::run;
