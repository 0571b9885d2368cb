//! The part of Envoy's configuration that all Envoy targets share: one listener, one route, and one cluster with static
//! endpoints.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::super::hop::{Hop, Side, Tls, Wire};
use super::filters::{named, type_url};
use super::settings::Settings;

pub(super) const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// Creates Envoy's configuration, without an access log of its own. `settings` adds fields; a field that neither sets
/// has Envoy's default.
pub(super) fn config(hop: &Hop<'_>, admin: SocketAddr, settings: Settings) -> Value {
    let Settings { bootstrap, listener, mut network_filters, .. } = settings;
    let http = Http {
        manager: settings.manager,
        filters: settings.http_filters,
        route: settings.route,
        action: settings.action,
        http2: settings.http2.clone(),
    };
    network_filters.push(last_filter(hop.downstream, http));
    let mut chain = json!({"filters": network_filters});
    if let Some(tls) = hop.downstream.tls {
        chain["transport_socket"] = downstream_tls(hop.downstream.wire, tls);
    }
    let listener = with(json!({"address": socket_address(hop.listener), "filter_chains": [chain]}), listener);
    let cluster = with(cluster(hop, settings.upstream_http, settings.http2), settings.cluster);
    let config = json!({
        "admin": {"address": socket_address(admin)},
        "static_resources": {"listeners": [listener], "clusters": [cluster]},
    });
    with(config, bootstrap)
}

/// The fields of [`Settings`] that apply only to HTTP calls, not to opaque connections.
struct Http {
    manager: Value,
    filters: Vec<Value>,
    route: Value,
    action: Value,
    http2: Value,
}

fn last_filter(downstream: Side<'_>, http: Http) -> Value {
    let codec = match downstream.wire {
        Wire::Http1 => "HTTP1",
        Wire::Http2 => "HTTP2",
        Wire::Opaque => {
            let fields = json!({"stat_prefix": "bytes", "cluster": "backends"});
            return named(
                "envoy.filters.network.tcp_proxy",
                "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                fields,
            );
        }
    };
    let action = with(json!({"cluster": "backends"}), http.action);
    let route = with(json!({"match": {"prefix": "/"}, "route": action}), http.route);
    let mut filters = http.filters;
    filters.push(named("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router", Value::Null));
    let manager = json!({
        "stat_prefix": "calls",
        "codec_type": codec,
        "http2_protocol_options": with(json!({}), http.http2),
        "route_config": {"virtual_hosts": [{"name": "calls", "domains": ["*"], "routes": [route]}]},
        "http_filters": filters,
    });
    named(
        "envoy.filters.network.http_connection_manager",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        with(manager, http.manager),
    )
}

fn cluster(hop: &Hop<'_>, upstream_http: Value, http2: Value) -> Value {
    let endpoint = |&address: &SocketAddr| json!({"endpoint": {"address": socket_address(address)}});
    let endpoints: Vec<Value> = hop.upstreams.iter().map(endpoint).collect();
    let mut cluster = json!({
        "name": "backends",
        "type": "STATIC",
        "load_assignment": {"cluster_name": "backends", "endpoints": [{"lb_endpoints": endpoints}]},
    });
    let http = match hop.upstream.wire {
        Wire::Http1 => Some(json!({"http_protocol_options": {}})),
        Wire::Http2 => Some(json!({"http2_protocol_options": with(json!({}), http2)})),
        Wire::Opaque => None,
    };
    if let Some(http) = http {
        let options = json!({"@type": type_url(HTTP_OPTIONS), "explicit_http_config": http});
        cluster["typed_extension_protocol_options"] = json!({HTTP_OPTIONS: with(options, upstream_http)});
    }
    if let Some(tls) = hop.upstream.tls {
        cluster["transport_socket"] = upstream_tls(hop.upstream.wire, tls);
    }
    cluster
}

pub(super) fn downstream_tls(wire: Wire, tls: Tls<'_>) -> Value {
    transport_socket(&json!({
        "@type": type_url("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"),
        "require_client_certificate": true,
        "disable_stateless_session_resumption": true,
        "disable_stateful_session_resumption": true,
        "common_tls_context": common_tls(wire, tls),
    }))
}

pub(super) fn upstream_tls(wire: Wire, tls: Tls<'_>) -> Value {
    transport_socket(&json!({
        "@type": type_url("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"),
        "common_tls_context": common_tls(wire, tls),
    }))
}

/// The TLS options of one side. The cipher suite is not set, because Envoy has no option for TLS 1.3 suites. On CPUs
/// with AES instructions, its TLS library chooses TLS_AES_128_GCM_SHA256.
fn common_tls(wire: Wire, tls: Tls<'_>) -> Value {
    let credentials = tls.credentials;
    json!({
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        "alpn_protocols": wire.alpn().into_iter().collect::<Vec<_>>(),
        "tls_certificates": [{
            "certificate_chain": {"filename": credentials.certificate},
            "private_key": {"filename": credentials.key},
        }],
        "validation_context": {
            "trusted_ca": {"filename": credentials.authority},
            "match_typed_subject_alt_names": [{"san_type": "URI", "matcher": {"exact": tls.peer}}],
        },
    })
}

fn transport_socket(context: &Value) -> Value {
    json!({"name": "envoy.transport_sockets.tls", "typed_config": context})
}

/// Adds the fields of `more` to `object`. If both have a field of the same name, the value in `more` wins.
fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut object, more) {
        fields.extend(more);
    }
    object
}

pub(super) fn socket_address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
