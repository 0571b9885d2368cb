//! The configuration directory: manifests on disk, read, watched, and joined into a mesh.
//!
//! The data plane and the control plane both read one where there is no Kubernetes; the model knows no files.
#![forbid(unsafe_code)]

mod directory;
mod watch;

pub use directory::{Configuration, Directory, FileStatus, Serving};
pub use watch::Watch;
