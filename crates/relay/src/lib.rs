//! Leno's relay as an engine: it owns clients' connections, calls, the clusters that calls go to, balancers, pools of
//! connections to endpoints, and timers. It knows no socket, no TLS session, no thread and no clock.
//!
//! The event loop gives the relay the bytes that connections have received, the events of connections, and the time.
//! The relay returns bytes to be written and [`Effect`]s, such as "open a connection" or "close a connection". In each
//! turn (one iteration of its loop), the event loop
//!
//! 1. sets the time ([`Relay::set_now`]),
//! 2. lets the relay handle what connections have received ([`Relay::begin_read`], [`Relay::receive`],
//!    [`Relay::receive_end`]),
//! 3. lets the relay do the work that is due ([`Relay::recall_clients`], [`Relay::expire_deadlines`], [`Relay::sweep`],
//!    [`Relay::dispatch`]),
//! 4. writes the output of all connections ([`Relay::next_dirty`], [`Relay::flushed`], [`Relay::serve_waiting`]),
//! 5. and carries out the effects ([`Relay::take_effects`]).
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)
)]

#[cfg_attr(
    not(test),
    expect(clippy::indexing_slicing, clippy::expect_used, reason = "months are from 1 to 12; memory is writable")
)]
pub mod access_log;
pub mod audit;
mod budget;
mod call;
mod certain;
mod config;
mod downstream;
mod drain;
mod effect;
pub mod explain;
#[cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "the index was just found"))]
pub mod failure;
#[cfg(test)]
mod fixtures;
mod inventory;
mod labels;
pub mod limits;
mod link;
pub mod metrics;
mod pool;
mod relay;
mod slots;
pub mod spent_chains;
mod sweep;
pub mod tap;
mod target;
#[cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "slots are below their number"))]
mod timers;
pub mod trace;
mod transfer;

use std::time::Duration;

use leno_http2::Violation;

pub use budget::{CONNECTION_BYTES, Relief};
pub use call::open::{OpenCall, OpenCalls, Progress};
pub use config::{Config, Settings};
pub use downstream::client::{Accepted, ClientId, Speaks};
pub use downstream::origin::{Door, Inspection, Origin};
pub use effect::{Effect, ServerTls, WireId};
pub use inventory::Entries;
pub use link::messages::Messages;
pub use link::opaque::Contents;
pub use link::{Link, LinkId, detect, grpc};
pub use pool::upstream::UpstreamId;
pub use relay::Relay;
pub use slots::{Id, Slots};
pub use target::explain::{ClusterExplanation, EndpointExplanation};
pub use target::find::{ForwardedFor, client_id_field};
pub use target::hedge_delays::HedgeDelayExplanation;
pub use target::usage::Usage;

/// Time between two sweeps. An established connection is checked for timeouts in every tenth sweep.
pub const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// Maximum time for a client to acknowledge our first GOAWAY.
pub const GOAWAY_GRACE: Duration = Duration::from_secs(1);

/// Returns the metric label of a connection that was closed because its client violated the protocol.
fn violation_label(why: &Violation) -> &'static str {
    match why {
        Violation::Flood(flood) => flood.label(),
        Violation::BadPreface => "bad_preface",
        Violation::Protocol(_) => "protocol_error",
    }
}
