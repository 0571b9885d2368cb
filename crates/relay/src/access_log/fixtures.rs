//! Records that tests use.

use std::time::{Duration, SystemTime};

use leno_model::spiffe::SpiffeId;

use super::{Protocol, Record};
use crate::audit::{AuditedPart, AuditedParts};
use crate::metrics::Direction;
use crate::trace::TraceId;

/// Returns the SPIFFE id of the service account `name` in the namespace `shop`.
pub(crate) fn workload(name: &str) -> SpiffeId {
    format!("spiffe://example.org/ns/shop/sa/{name}").parse().expect("it is a SPIFFE id")
}

/// Returns the record of an inbound gRPC call that was answered.
pub(crate) fn call<'a>(client_id: &'a SpiffeId, server_id: &'a SpiffeId) -> Record<'a> {
    Record {
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_709_251_198_007),
        direction: Direction::Inbound,
        client: "10.0.0.1:40000".parse().expect("it is an address"),
        client_id: Some(client_id),
        server: Some("10.0.0.2:8080".parse().expect("it is an address")),
        server_id: Some(server_id),
        tls: Some("true"),
        protocol: Protocol::Http2,
        method: b"POST",
        authority: b"carts.shop:80",
        path: b"/shop.Carts/Get?token=secret",
        route: None,
        status: Some(200),
        grpc_status: Some(0),
        request_bytes: 12,
        response_bytes: 345,
        duration: Duration::from_micros(6_789),
        retries: 2,
        hedges: 1,
        audited: [AuditedPart::StreamIdle, AuditedPart::Retry].into_iter().collect(),
        request_id: b"7c1f",
        trace_id: TraceId::of(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736),
        user_agent: b"grpc-go/1.60",
        proxy_error: None,
    }
}

/// Returns the record with the fewest values: an opaque connection that was not sent to a server.
pub(crate) fn connection() -> Record<'static> {
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
        proxy_error: Some("connect-failed"),
    }
}
