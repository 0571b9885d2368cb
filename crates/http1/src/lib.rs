//! Leno's HTTP/1.1 engine: RFC 9110 and RFC 9112, sans-IO, made for relaying.
//!
//! Bytes and `now` in, events and bytes out, as [`leno_http2::Connection`] does it: the same [`Event`]s, the same field
//! sections (every section that is read here could be sent as HTTP/2), the same calls. So one relay joins any two of
//! them. An HTTP/1 connection carries one exchange at a time, which stands for a stream.
//!
//! A byte that two programs could take in two ways is refused: that is what request smuggling lives on (RFC 9112
//! section 11.2).
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)
)]

mod block;
mod chunk;
mod connection;
mod error;
mod exchange;
pub mod limits;
mod list;
mod message;
mod reason;
mod request;
mod response;
mod target;
mod trailers;
mod write;

pub use connection::Connection;
pub use error::ConnectionError;
pub use leno_http2::{Drained, ErrorCode, Event, FieldSection, OpenError, Role, Section, StreamKey};
pub use limits::Limits;
pub use write::{Unwritable, check_request};
