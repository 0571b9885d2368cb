//! HPACK: field compression for HTTP/2 (RFC 7541).
//!
//! A [`Decoder`] turns a complete field block into a field section, and an [`Encoder`] does the reverse. Each belongs
//! to one connection, and allocates no memory when it is created.

mod decoder;
mod encoder;
mod huffman;
mod index;
mod integer;
mod repeats;
mod static_table;
mod table;

pub use decoder::{DecodeError, Decoder};
pub use encoder::Encoder;
pub use table::MAX_TABLE_SIZE;

/// The size of both tables of a connection before any SETTINGS, in bytes (RFC 9113 section 6.5.2).
pub const DEFAULT_TABLE_SIZE: usize = 4096;

#[cfg(test)]
mod appendix_c_tests;
#[cfg(test)]
mod differential_tests;
#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod steady_stream_tests;
#[cfg(test)]
mod testing;
