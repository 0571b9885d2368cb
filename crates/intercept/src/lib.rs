//! Redirects the TCP connections of a network namespace to the proxy that runs in it.
//!
//! [`Redirection`] says which and where; [`transaction`] is the same as one transaction of nf_tables, made of the
//! messages that the kernel takes, and [`load`](kernel::load) hands it over. So the program `leno-init`, which an init
//! container runs, needs nothing else in its image.
#![forbid(unsafe_code)]

pub mod kernel;
mod message;
mod redirection;
mod rules;

pub use redirection::{PortRange, Redirection, SamePort, Subnet};
pub use rules::{TABLE, transaction};
