//! Leno's HTTP/2 engine: RFC 9113 and RFC 7541, sans-IO, made for relaying.
//!
//! Bytes and `now` in, events and bytes out; no sockets, no clock, no threads, no unsafe. A [`Connection`] of either
//! role is fed with [`Connection::receive`] and emptied with [`Connection::output`]; see `connection/` for the flow,
//! `limits` for everything a peer is kept from doing.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)
)]

mod buffer;
mod connection;
pub mod error;
pub mod fields;
pub mod frame;
pub mod hpack;
pub mod limits;
mod message;
mod queue;
mod settings;
mod stream;

pub use buffer::OutputBuffer;
pub use connection::{Connection, Drained, Event, OpenError, Role};
pub use error::{ConnectionError, ErrorCode, Flood, Violation};
pub use fields::FieldSection;
pub use limits::Limits;
pub use message::{Section, parse_content_length};
pub use queue::ContentQueue;
pub use settings::PeerSettings;
pub use stream::StreamKey;
