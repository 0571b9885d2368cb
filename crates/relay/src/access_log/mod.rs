//! The access log: one line for each call, and for each connection that carries no calls.
//!
//! The log is off by default. The relay formats lines into a buffer, which the event loop empties once in each turn.

mod apache;
mod escape;
#[cfg(test)]
pub(crate) mod fixtures;
mod json;
mod log;
mod record;
mod time;

pub(crate) use escape::push_json;
pub use log::{AccessLog, Lines};
pub use record::{Protocol, Record};

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object per line.
    Json,
    /// Apache's combined format, followed by the values for which this format has no field.
    Apache,
}

/// Whether lines contain the query of a request's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queries {
    /// Lines omit the query, because queries may contain tokens and personal data.
    Drop,
    /// Lines contain the query.
    Keep,
}

/// Appends a record's line, including the newline.
pub fn format_line(line: &mut Vec<u8>, format: Format, queries: Queries, record: &Record) {
    match format {
        Format::Json => json::format(line, queries, record),
        Format::Apache => apache::format(line, queries, record),
    }
}
