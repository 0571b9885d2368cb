//! Leno on Kubernetes, as far as it is pure: no cluster, no sockets, no files.
//!
//! - [`inject`]: a Pod template to the same with a proxy, as a patch; [`workload`] finds the templates of an object.
//! - [`webhook`]: the same for an API server that asks, and the review of our own objects.
//! - [`chart`]: the objects of an installation, from the templates that Helm renders too.
//! - [`names`], [`annotations`]: what objects are called and marked by, for everybody who looks for them.
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
