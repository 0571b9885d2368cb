//! Leno's HTTP/2 engine: RFC 9113 and RFC 7541, without I/O, for relaying.
//!
//! Bytes and `now` go in, events and bytes come out; no sockets, no clock, no threads, no unsafe. A [`Connection`] is a
//! client or a server ([`Role`]). [`Connection::receive`] takes its input, and [`Connection::output`] returns its
//! output. See `connection/` for the flow of bytes, and `limits` for the limits on peers.
//!
//! A client and a server that exchange a request in memory:
//!
//! ```
//! # use std::{sync::Arc, time::Instant};
//! use leno_http2::{Connection, Event, FieldSection, Limits, Role};
//!
//! let now = Instant::now();
//! let mut client = Connection::new(Role::Client, Arc::new(Limits::client()), now);
//! let mut server = Connection::new(Role::Server, Arc::new(Limits::server()), now);
//! let mut request = FieldSection::new();
//! for (name, value) in [(":method", "GET"), (":scheme", "http"), (":authority", "echo"), (":path", "/")] {
//!     request.push(name.as_bytes(), value.as_bytes());
//! }
//! let stream = client.open(now, 0, &request, true)?;
//!
//! // In a program these bytes go through a socket.
//! let bytes = client.output().to_vec();
//! client.advance_output(bytes.len());
//! let (mut input, mut fields) = (&bytes[..], FieldSection::new());
//! assert_eq!(server.receive(now, &mut input, &mut fields)?, Some(Event::Settings));
//! let Some(Event::Headers { stream: same, .. }) = server.receive(now, &mut input, &mut fields)? else { panic!() };
//! assert_eq!((same.id, fields.iter().count()), (stream.id, 4));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
mod stream_index;
pub mod syntax;

pub use buffer::OutputBuffer;
pub use connection::{Connection, Drained, Event, OpenError, Role, Windows};
pub use error::{ConnectionError, ErrorCode, Flood, Violation};
pub use fields::FieldSection;
pub use limits::Limits;
pub use message::{Section, parse_content_length};
pub use queue::ContentQueue;
pub use settings::PeerSettings;
pub use stream::StreamKey;
