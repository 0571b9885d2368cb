//! A record that tests use.

use std::time::{Duration, SystemTime};

use leno_relay::access_log::{Protocol, Record};
use leno_relay::audit::AuditedParts;
use leno_relay::metrics::Direction;

/// The record with the fewest values: an opaque connection that was not sent to a server.
pub(super) fn connection() -> Record<'static> {
    Record {
        time: SystemTime::UNIX_EPOCH,
        direction: Direction::Outbound,
        client: "[::1]:40000".parse().expect("it is an address"),
        client_id: None,
        server: None,
        server_id: None,
        tls: Some("no_identity"),
        protocol: Protocol::Opaque,
        method: b"",
        authority: b"",
        path: b"",
        route: None,
        status: None,
        grpc_status: None,
        request_bytes: 0,
        response_bytes: 0,
        duration: Duration::ZERO,
        retries: 0,
        hedges: 0,
        audited: AuditedParts::default(),
        request_id: b"",
        trace_id: None,
        user_agent: b"",
        proxy_error: None,
    }
}
