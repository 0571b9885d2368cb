//! The configuration directory: reads manifests on disk, watches them, and joins them into a mesh.
//!
//! Without Kubernetes, both the proxy and the control plane read such a directory. This code is a separate crate
//! because `leno_model` must not read files.
//!
//! ```
//! use leno_config::Directory;
//!
//! let directory = tempfile::tempdir()?;
//! let service = "{apiVersion: v1, kind: Service, metadata: {name: cart}, spec: {ports: [{port: 50051}]}}";
//! std::fs::write(directory.path().join("cart.yaml"), service)?;
//! let mut manifests = Directory::open(directory.path())?;
//! assert_eq!(manifests.configuration().mesh.clusters().len(), 1);
//!
//! // A mistake leaves the last valid version in force.
//! std::fs::write(directory.path().join("cart.yaml"), service.replace("50051", "70000"))?;
//! assert!(manifests.refresh());
//! let configuration = manifests.configuration();
//! assert_eq!((configuration.mesh.clusters().len(), configuration.problems.len()), (1, 1));
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod directory;
mod watch;

pub use directory::{Configuration, Directory, FileStatus, Serving};
pub use watch::Watch;
