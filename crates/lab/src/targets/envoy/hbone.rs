//! Istio's waypoint with HBONE on both sides: it accepts tunnels, and opens tunnels to the endpoints' ztunnels.
//!
//! Envoy has three listeners. Only Envoy itself connects to the last two:
//!
//! | listener | work |
//! |---|---|
//! | `connect_terminate` | mutual TLS, HTTP/2, and a CONNECT stream for each connection of a client |
//! | `main_internal` | the calls within such a stream, and the balancer |
//! | `connect_originate` | a CONNECT stream to the ztunnel of the chosen endpoint, in HTTP/2 with mutual TLS |
//!
//! Sources, at commit 86c9f01 of istio/istio: `listener_waypoint.go` and `cluster_waypoint.go` in
//! `pilot/pkg/networking/core`, `pilot/pkg/networking/util/internal_upstream.go`, and
//! `pilot/pkg/xds/filters/filters.go`.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::super::hop::{Hop, Side, Wire};
use super::config::{self, HTTP_OPTIONS, socket_address};
use super::filters::{named, type_url};
use super::settings::Settings;

const TERMINATE: &str = "connect_terminate";
const MAIN: &str = "main_internal";
const ORIGINATE: &str = "connect_originate";
/// The listener filter that restores the original destination of a connection between two of Envoy's own listeners. The
/// same text is also the key of this destination in an endpoint's metadata.
const ORIGINAL_DST: &str = "envoy.filters.listener.original_dst";
/// The port on which ztunnels and the waypoint accept HBONE. It is fixed, because ztunnel has no option for its ports.
pub(in super::super) const PORT: u16 = 15_008;

/// Creates Envoy's configuration. `settings` contains the circuit breakers of the calls' cluster; `thresholds` are
/// those of the HBONE clusters.
pub(super) fn config(hop: &Hop<'_>, admin: SocketAddr, settings: Settings, thresholds: &Value) -> Value {
    let inner =
        Hop { downstream: Side::in_clear(hop.downstream.wire), upstream: Side::in_clear(hop.upstream.wire), ..*hop };
    let mut config = config::config(&inner, admin, settings);
    config["bootstrap_extensions"] = json!([named(
        "envoy.bootstrap.internal_listener",
        "envoy.extensions.bootstrap.internal_listener.v3.InternalListener",
        // The value of Istio's bootstrap (running_golden.json). Envoy's default is 1024.
        json!({"buffer_size_kb": 64}),
    )]);
    let resources = &mut config["static_resources"];
    move_inside(&mut resources["listeners"][0], MAIN);
    tunnel_to_endpoints(&mut resources["clusters"][0], hop.upstreams);
    if let Value::Array(listeners) = &mut resources["listeners"] {
        listeners.extend([terminate_listener(hop), originate_listener()]);
    }
    if let Value::Array(clusters) = &mut resources["clusters"] {
        clusters.extend([main_cluster(thresholds), originate_cluster(hop, thresholds)]);
    }
    config
}

/// Turns a listener into an internal listener, to which only Envoy itself can connect.
fn move_inside(listener: &mut Value, name: &str) {
    if let Value::Object(fields) = listener {
        fields.remove("address");
    }
    listener["name"] = name.into();
    listener["internal_listener"] = json!({});
    listener["listener_filters"] = json!([original_dst()]);
}

/// Sends the connections to each endpoint of a cluster through a tunnel to this endpoint.
fn tunnel_to_endpoints(cluster: &mut Value, endpoints: &[SocketAddr]) {
    let endpoint = |address: &SocketAddr| {
        let address = address.to_string();
        let internal = json!({"server_listener_name": ORIGINATE, "endpoint_id": address});
        json!({
            "endpoint": {"address": {"envoy_internal_address": internal}},
            "metadata": {"filter_metadata": {ORIGINAL_DST: {"local": address}}},
        })
    };
    let endpoints: Vec<Value> = endpoints.iter().map(endpoint).collect();
    cluster["load_assignment"]["endpoints"] = json!([{"lb_endpoints": endpoints}]);
    cluster["transport_socket"] = internal_upstream(&json!([{"kind": {"host": {}}, "name": ORIGINAL_DST}]));
}

fn terminate_listener(hop: &Hop<'_>) -> Value {
    let route = json!({
        "match": {"connect_matcher": {}},
        "route": {"cluster": MAIN, "upgrade_configs": [{"upgrade_type": "CONNECT", "connect_config": {}}]},
    });
    let manager = json!({
        "stat_prefix": TERMINATE,
        "server_name": "istio-envoy",
        "use_remote_address": false,
        "stream_idle_timeout": "0s",
        "forward_client_cert_details": "APPEND_FORWARD",
        "set_current_client_cert_details": {"subject": true, "dns": true, "uri": true},
        "upgrade_configs": [{"upgrade_type": "CONNECT"}],
        "http2_protocol_options": {
            "allow_connect": true,
            "max_concurrent_streams": 100,
            "connection_keepalive": {"interval": "10s", "timeout": "20s"},
        },
        "route_config": {"name": "default", "virtual_hosts": [{"name": "default", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            connect_authority(),
            named("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router", Value::Null),
        ],
    });
    let mut chain = json!({"filters": [named(
        "envoy.filters.network.http_connection_manager",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        manager,
    )]});
    if let Some(tls) = hop.downstream.tls {
        chain["transport_socket"] = config::downstream_tls(Wire::Http2, tls);
    }
    json!({
        "name": TERMINATE,
        "address": socket_address(hop.listener),
        "filter_chains": [chain],
        "connection_balance_config": {"exact_balance": {}},
    })
}

/// The filter that passes on facts about the tunnel to the connection to `main_internal`: its destination, the client's
/// address, and the identities of both peers.
fn connect_authority() -> Value {
    // For the last two values, Istio's own build of Envoy uses the type istio.hashable_string. Stock Envoy lacks it.
    let values = [
        ("envoy.filters.listener.original_dst.local_ip", "%REQ(:AUTHORITY)%", None),
        ("io.istio.connect_authority", "%REQ(:AUTHORITY)%", Some("envoy.string")),
        ("envoy.filters.listener.original_dst.remote_ip", "%DOWNSTREAM_REMOTE_ADDRESS%", None),
        ("io.istio.peer_principal", "%DOWNSTREAM_PEER_URI_SAN%", Some("envoy.string")),
        ("io.istio.local_principal", "%DOWNSTREAM_LOCAL_URI_SAN%", Some("envoy.string")),
    ];
    let value = |(key, format, factory): (&str, &str, Option<&str>)| {
        let mut value = json!({
            "object_key": key,
            "format_string": {"text_format_source": {"inline_string": format}},
            "shared_with_upstream": "ONCE",
        });
        if let Some(factory) = factory {
            value["factory_key"] = factory.into();
        }
        value
    };
    let values: Vec<Value> = values.into_iter().map(value).collect();
    let message = "envoy.extensions.filters.http.set_filter_state.v3.Config";
    named("envoy.filters.http.set_filter_state", message, json!({"on_request_headers": values}))
}

fn main_cluster(thresholds: &Value) -> Value {
    let address = json!({"envoy_internal_address": {"server_listener_name": MAIN}});
    json!({
        "name": MAIN,
        "type": "STATIC",
        "circuit_breakers": {"thresholds": [thresholds]},
        "load_assignment": {
            "cluster_name": MAIN,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
        "transport_socket": internal_upstream(&json!([])),
    })
}

fn originate_listener() -> Value {
    let tcp_proxy = named(
        "envoy.filters.network.tcp_proxy",
        "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        json!({
            "stat_prefix": ORIGINATE,
            "cluster": ORIGINATE,
            "tunneling_config": {"hostname": "%DOWNSTREAM_LOCAL_ADDRESS%"},
        }),
    );
    let mut listener = json!({"use_original_dst": false, "filter_chains": [{"filters": [tcp_proxy]}]});
    move_inside(&mut listener, ORIGINATE);
    listener
}

/// The cluster that reaches the ztunnels of all endpoints. Each connection goes to its original destination's address,
/// at the HBONE port.
fn originate_cluster(hop: &Hop<'_>, thresholds: &Value) -> Value {
    let options = json!({
        "@type": type_url(HTTP_OPTIONS),
        "common_http_protocol_options": {"idle_timeout": "3600s"},
        "explicit_http_config": {"http2_protocol_options": {"allow_connect": true}},
    });
    let mut cluster = json!({
        "name": ORIGINATE,
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "10s",
        "cleanup_interval": "60s",
        "circuit_breakers": {"thresholds": [thresholds]},
        "original_dst_lb_config": {"upstream_port_override": PORT},
        "typed_extension_protocol_options": {HTTP_OPTIONS: options},
    });
    if let Some(tls) = hop.upstream.tls {
        cluster["transport_socket"] = config::upstream_tls(Wire::Http2, tls);
    }
    cluster
}

/// The transport socket for connections between Envoy's own listeners. `metadata` names the entries of an endpoint's
/// metadata that it passes on.
fn internal_upstream(metadata: &Value) -> Value {
    let raw = named(
        "envoy.transport_sockets.raw_buffer",
        "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
        Value::Null,
    );
    named(
        "envoy.transport_sockets.internal_upstream",
        "envoy.extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
        json!({"passthrough_metadata": metadata, "transport_socket": raw}),
    )
}

fn original_dst() -> Value {
    named(ORIGINAL_DST, "envoy.extensions.filters.listener.original_dst.v3.OriginalDst", Value::Null)
}

#[cfg(test)]
#[path = "hbone_tests.rs"]
mod tests;
