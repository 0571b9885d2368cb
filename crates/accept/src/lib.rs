//! Shares a limited number of connections fairly among clients: decides which connection a full listener closes, and
//! which client's waiting work runs next.
//!
//! Every listener of the mesh that other workloads can reach uses [`Places`]: the proxy's listeners, the admin
//! endpoint, the probes, the webhooks, the issuer and xDS. [`Room`], [`Listener`] and [`Queue`] need tokio; [`Places`],
//! [`Source`] and [`Turns`] use no sockets and no clock. Limits in bytes are fractions of [`container_memory`].
//!
//! A listener has a fixed number of places, and each open connection takes one. When all places are taken, a new
//! connection replaces a connection of the client that has the most connections:
//!
//! ```
//! use leno_accept::{Entry, Places};
//!
//! let mut places = Places::new(3);
//! for connection in [1, 2, 3] {
//!     assert_eq!(places.enter("flooder", connection), Entry::Free);
//! }
//! assert_eq!(places.enter("kubelet", 4), Entry::Replaces(1));
//! assert_eq!((places.held_by(&"flooder"), places.held_by(&"kubelet")), (2, 1));
//! ```
#![forbid(unsafe_code)]

mod container;
mod family;
mod listener;
mod places;
mod queue;
mod room;
mod source;
mod turns;

pub use container::container_memory;
pub use family::{has_ipv6, stream_socket, usable};
pub use listener::{Arrival, BACKLOG, Listener, listen};
pub use places::{Entry, Places};
pub use queue::{Overload, Permit, Queue};
pub use room::{Place, Replaced, Room, RoomSize, Standing};
pub use source::Source;
pub use turns::{Full, Ticket, Turns};
