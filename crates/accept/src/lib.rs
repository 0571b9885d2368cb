//! Accepting connections from strangers: which of them a listener keeps when it has no place left, and whose turn it is when
//! work waits.
//!
//! Every listener of the mesh that another workload can reach uses [`Places`]: the proxy's doors, the admin endpoint, the
//! probes, the webhooks, the issuer and xDS. [`Room`], [`Listener`] and [`Queue`] are for tokio; [`Places`], [`Source`] and
//! [`Turns`] know no sockets and no clock. [`container_memory`] is what budgets in bytes are parts of.
#![forbid(unsafe_code)]

mod container;
mod listener;
mod places;
mod queue;
mod room;
mod source;
mod turns;

pub use container::container_memory;
pub use listener::{Arrival, Listener, listen};
pub use places::{Entry, Places};
pub use queue::{Overload, Permit, Queue};
pub use room::{Place, Replaced, Room, RoomSize, Standing};
pub use source::Source;
pub use turns::{Full, Turns};
