//! The access log: one line for each call, and for each connection that carries no calls.
//!
//! It is off by default. A worker formats lines into a buffer of its own and hands them over once in a turn of its
//! loop; one thread writes them. A worker never waits: what the writer has no room for is dropped and counted.

mod apache;
mod escape;
#[cfg(test)]
mod fixtures;
mod json;
mod record;
mod time;
mod worker;
mod writer;

pub use record::{Protocol, Record};
pub use worker::AccessLog;
pub use writer::{Destination, Writer};

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// Apache's combined format, and then what it has no place for.
    Apache,
}

/// What is done with the query of a request's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queries {
    /// It is left out, because queries carry tokens and personal data.
    Drop,
    /// It is written.
    Keep,
}

/// Appends a record's line, its newline included.
pub fn format_line(line: &mut Vec<u8>, format: Format, queries: Queries, record: &Record) {
    match format {
        Format::Json => json::format(line, queries, record),
        Format::Apache => apache::format(line, queries, record),
    }
}
