//! The access log: one line for each call, and for each connection that carries no calls.
//!
//! The log is off by default. A worker formats lines into its own buffer, and hands them over to the writer thread once
//! in each turn of its loop. A worker never waits: lines that do not fit into the writer's buffer are dropped and
//! counted.

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

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object per line.
    Json,
    /// Apache's combined format, followed by the values that it has no field for.
    Apache,
}

/// The treatment of the query in a request's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queries {
    /// Omitted, because queries may contain tokens and personal data.
    Drop,
    /// Logged.
    Keep,
}

/// Appends a record's line, including the newline.
pub fn format_line(line: &mut Vec<u8>, format: Format, queries: Queries, record: &Record) {
    match format {
        Format::Json => json::format(line, queries, record),
        Format::Apache => apache::format(line, queries, record),
    }
}
