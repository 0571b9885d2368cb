//! A line in Apache's combined format, with the client's SPIFFE id as the user, followed by these fields:
//!
//! `"authority" direction tls server server-id grpc-status duration-ms "request-id" proxy-error`
//!
//! A missing value is `-`. The referrer is always `-`, because it may contain another request's query.

use std::fmt;

use super::escape::{
    AUTHORITY_MAX_BYTES, METHOD_MAX_BYTES, PATH_MAX_BYTES, REQUEST_ID_MAX_BYTES, USER_AGENT_MAX_BYTES, push_fmt,
    push_quoted,
};
use super::{Queries, Record, time};

pub(super) fn format(line: &mut Vec<u8>, queries: Queries, record: &Record) {
    let (client, client_id) = (record.client.ip(), OrDash(record.client_id));
    push_fmt(line, format_args!("{client} - {client_id} [{}] \"", time::Apache(record.time)));
    push_or_dash(line, record.method, METHOD_MAX_BYTES);
    line.push(b' ');
    push_or_dash(line, record.shown_path(queries), PATH_MAX_BYTES);
    let (protocol, status, sent) = (record.protocol.name(), OrDash(record.status), record.response_bytes);
    push_fmt(line, format_args!(" {protocol}\" {status} {sent} \"-\" \""));
    push_or_dash(line, record.user_agent, USER_AGENT_MAX_BYTES);
    line.extend(b"\" \"");
    push_or_dash(line, record.authority, AUTHORITY_MAX_BYTES);
    let (direction, tls) = (record.direction.label(), OrDash(record.tls));
    push_fmt(line, format_args!("\" {direction} {tls} {} {}", OrDash(record.server), OrDash(record.server_id)));
    push_fmt(line, format_args!(" {} {} \"", OrDash(record.grpc_status), time::Milliseconds(record.duration)));
    push_or_dash(line, record.request_id, REQUEST_ID_MAX_BYTES);
    push_fmt(line, format_args!("\" {}\n", OrDash(record.proxy_error)));
}

/// Appends bytes from a peer, escaped and cut to `max_bytes`. Appends `-` if there are no bytes.
fn push_or_dash(line: &mut Vec<u8>, bytes: &[u8], max_bytes: usize) {
    push_quoted(line, if bytes.is_empty() { b"-" } else { bytes }, max_bytes);
}

struct OrDash<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrDash<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

#[cfg(test)]
#[path = "apache_tests.rs"]
mod tests;
