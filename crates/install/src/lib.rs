//! Leno on Kubernetes, the pure part: no cluster, no sockets, no files.
//!
//! - [`inject`]: adds the proxy to a Pod template, as a patch; [`workload`] finds the templates of an object.
//! - [`webhook`]: the same patch as an answer to an API server, and the validation of our own objects.
//! - [`chart`]: the objects of an installation, from the templates that Helm renders too.
//! - [`names`], [`annotations`]: the names, labels and annotations that all programs share.
//! - [`yaml`]: the text of objects, read as kubectl reads it.
//!
//! ```
//! use leno_install::{inject::Options, manifest::{Namespaces, inject_file}};
//!
//! let pod = "
//! apiVersion: v1
//! kind: Pod
//! metadata: {name: cart, namespace: shop}
//! spec: {containers: [{name: cart, image: cart}]}
//! ";
//! let injected = inject_file(pod, &Namespaces::new("default"), &Options::default(), None).expect("it is YAML");
//! assert!(injected.text.contains("name: leno-proxy"));
//! assert!(injected.reports[0].to_string().ends_with(": injected"));
//! ```
#![forbid(unsafe_code)]

pub mod annotations;
pub mod chart;
pub mod inject;
pub mod manifest;
pub mod names;
pub mod patch;
pub mod quantity;
pub mod schema;
pub mod webhook;
pub mod workload;
pub mod yaml;
