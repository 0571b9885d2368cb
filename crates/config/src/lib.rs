//! The configuration directory: manifests on disk are read, watched, and joined into a mesh.
//!
//! Both planes read one where there is no Kubernetes, so this is a crate of its own: the model knows no files.
#![forbid(unsafe_code)]

mod directory;
mod watch;

pub use directory::{Configuration, Directory, FileStatus, Serving};
pub use watch::Watch;
