//! Leno's HTTP/1.1 engine: RFC 9110 and RFC 9112, without I/O, for relaying.
//!
//! Bytes and `now` go in, events and bytes come out. The [`Event`]s and the field sections are the same as for
//! [`leno_http2::Connection`], and the functions correspond to each other. Every section that is parsed here could be
//! sent as HTTP/2. So one relay can join any two connections of the two protocols. An HTTP/1 connection carries one
//! exchange (a request and its response) at a time. An exchange corresponds to a stream of HTTP/2.
//!
//! The engine rejects bytes that two programs could interpret differently, because request smuggling depends on such
//! bytes (RFC 9112 section 11.2).
//!
//! A server that parses a request and answers it:
//!
//! ```
//! # use std::{sync::Arc, time::Instant};
//! use leno_http1::{Connection, Event, FieldSection, Heads, Limits, Role, Section};
//!
//! let now = Instant::now();
//! let mut server = Connection::new(Role::Server, Arc::new(Limits::server()), now);
//! let (mut fields, mut heads) = (FieldSection::new(), Heads::default());
//! let mut input = &b"GET /cart HTTP/1.1\r\nhost: shop\r\n\r\n"[..];
//! let event = server.receive(now, &mut input, &mut fields, &mut heads)?;
//! let Some(Event::Headers { stream, .. }) = event else { panic!() };
//! // The same fields as in HTTP/2.
//! assert!(fields.iter().any(|field| (field.name, field.value) == (b":path", b"/cart")));
//!
//! let mut answer = FieldSection::new();
//! answer.push(b":status", b"204");
//! server.send_headers(stream, Section::Response, &answer, true, &mut heads);
//! assert!(server.output().starts_with(b"HTTP/1.1 204 "));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
mod head;
pub mod limits;
mod list;
mod message;
mod reason;
mod repeats;
mod request;
mod response;
mod target;
mod trailers;
mod write;

pub use connection::{Connection, OpenError};
pub use error::ConnectionError;
pub use leno_http2::{Drained, ErrorCode, Event, FieldSection, Role, Section, StreamKey};
pub use limits::Limits;
pub use message::carries_http;
pub use repeats::Heads;
pub use write::Unwritable;
