//! Leno on Kubernetes, the pure part: no cluster, no sockets, no files.
//!
//! - [`inject`]: adds the proxy to a Pod template, as a patch; [`workload`] finds the templates of an object.
//! - [`webhook`]: the same as an answer to an API server, and the validation of our own objects.
//! - [`chart`]: the objects of an installation, from the templates that Helm renders too.
//! - [`names`], [`annotations`]: the names, labels and annotations that all programs share.
//! - [`yaml`]: the text of objects, read as kubectl reads it.
#![forbid(unsafe_code)]

pub mod annotations;
pub mod chart;
pub mod inject;
pub mod manifest;
pub mod names;
pub mod patch;
pub mod schema;
pub mod webhook;
pub mod workload;
pub mod yaml;
