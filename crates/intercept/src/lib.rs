//! Redirects the TCP connections of a network namespace to the proxy in it.
//!
//! [`Redirection`] has the options. [`transaction`] turns them into one transaction of nf_tables, in the kernel's
//! message format, and [`load`](kernel::load) sends it. So `leno-init`, which an init container runs, needs no other
//! program in its image. [`description`] shows the same rules to people.
//!
//! ```
//! use leno_intercept::{Redirection, transaction};
//!
//! let redirection = Redirection::new(2102);
//! redirection.check().expect("the proxy's ports differ");
//! // These messages go to the kernel; sending them requires CAP_NET_ADMIN.
//! let messages = transaction(&redirection);
//! assert!(!messages.is_empty());
//! ```
#![forbid(unsafe_code)]

pub mod kernel;
mod message;
mod redirection;
mod rules;

pub use redirection::{PortRange, Redirection, SamePort, Subnet};
pub use rules::{LINK_LOCAL, TABLE, description, transaction};
