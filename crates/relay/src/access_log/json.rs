//! A log line as a JSON object. The object omits fields without a value.

use super::escape::{
    AUTHORITY_MAX_BYTES, METHOD_MAX_BYTES, PATH_MAX_BYTES, REQUEST_ID_MAX_BYTES, USER_AGENT_MAX_BYTES, push_fmt,
    push_json,
};
use super::{Queries, Record, time};

pub(super) fn format(line: &mut Vec<u8>, queries: Queries, record: &Record) {
    push_fmt(line, format_args!(r#"{{"time":"{}""#, time::Rfc3339(record.time)));
    push_fmt(line, format_args!(r#","direction":"{}""#, record.direction.label()));
    push_fmt(line, format_args!(r#","client":"{}""#, record.client));
    if let Some(id) = record.client_id {
        push_fmt(line, format_args!(r#","client_id":"{id}""#));
    }
    if let Some(server) = record.server {
        push_fmt(line, format_args!(r#","server":"{server}""#));
    }
    if let Some(id) = record.server_id {
        push_fmt(line, format_args!(r#","server_id":"{id}""#));
    }
    if let Some(tls) = record.tls {
        push_fmt(line, format_args!(r#","tls":"{tls}""#));
    }
    push_fmt(line, format_args!(r#","protocol":"{}""#, record.protocol.name()));
    push_text(line, "method", record.method, METHOD_MAX_BYTES);
    push_text(line, "authority", record.authority, AUTHORITY_MAX_BYTES);
    push_text(line, "path", record.shown_path(queries), PATH_MAX_BYTES);
    if let Some((route, rule)) = record.route {
        // Names of Kubernetes objects need no escaping.
        push_fmt(line, format_args!(r#","route":"{route}""#));
        if let Some(rule) = rule {
            push_fmt(line, format_args!(r#","rule":"{rule}""#));
        }
    }
    if let Some(status) = record.status {
        push_fmt(line, format_args!(r#","status":{status}"#));
    }
    if let Some(status) = record.grpc_status {
        push_fmt(line, format_args!(r#","grpc_status":{status}"#));
    }
    let (request_bytes, response_bytes) = (record.request_bytes, record.response_bytes);
    push_fmt(line, format_args!(r#","request_bytes":{request_bytes},"response_bytes":{response_bytes}"#));
    push_fmt(line, format_args!(r#","duration_ms":{}"#, time::Milliseconds(record.duration)));
    if record.retries > 0 {
        push_fmt(line, format_args!(r#","retries":{}"#, record.retries));
    }
    if record.hedges > 0 {
        push_fmt(line, format_args!(r#","hedges":{}"#, record.hedges));
    }
    if !record.audited.is_empty() {
        let names: Vec<_> = record.audited.names().collect();
        push_fmt(line, format_args!(r#","audited":"{}""#, names.join(",")));
    }
    push_text(line, "request_id", record.request_id, REQUEST_ID_MAX_BYTES);
    if let Some(id) = record.trace_id {
        push_fmt(line, format_args!(r#","trace_id":"{id}""#));
    }
    push_text(line, "user_agent", record.user_agent, USER_AGENT_MAX_BYTES);
    if let Some(why) = record.proxy_error {
        push_fmt(line, format_args!(r#","proxy_error":"{why}""#));
    }
    line.extend(b"}\n");
}

/// Appends a field with bytes from a peer.
fn push_text(line: &mut Vec<u8>, name: &str, bytes: &[u8], max_bytes: usize) {
    if bytes.is_empty() {
        return;
    }
    push_fmt(line, format_args!(r#","{name}":""#));
    push_json(line, bytes, max_bytes);
    line.push(b'"');
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
