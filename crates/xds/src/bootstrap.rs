//! The bootstrap of an xDS client as JSON: how the client finds the control plane.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::facts::{self, MUTUAL_TLS, NAMESPACE};
use crate::name::RouteName;
use crate::tls;

/// The kinds of clients that need a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Envoy, in front of an application.
    Envoy,
    /// gRPC without a proxy.
    Grpc,
}

#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// The address at which the control plane serves xDS: a name or an IP address, and a port.
    pub control: String,
    /// The id of the client's node.
    pub node: String,
    pub namespace: String,
    /// The address at which Envoy accepts its application's connections.
    pub outbound: SocketAddr,
    /// The address of Envoy's own admin endpoint.
    pub admin: SocketAddr,
    /// The client's certificate, key and trust bundle. Without them, the client's connections to the control plane and
    /// to all endpoints are not encrypted.
    pub certificates: Option<Certificates>,
}

/// PEM files of an SVID, as written by `leno ca issue`.
#[derive(Clone, Debug)]
pub struct Certificates {
    pub chain: PathBuf,
    pub key: PathBuf,
    pub bundle: PathBuf,
}

/// The text is not the name of a [`Client`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a client that needs a bootstrap; use envoy or grpc")]
pub struct UnknownClient;

impl FromStr for Client {
    type Err = UnknownClient;

    fn from_str(text: &str) -> Result<Self, UnknownClient> {
        match text {
            "envoy" => Ok(Self::Envoy),
            "grpc" => Ok(Self::Grpc),
            _ => Err(UnknownClient),
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Envoy => "envoy",
            Self::Grpc => "grpc",
        })
    }
}

/// Returns the content of a client's bootstrap file.
pub fn bootstrap(client: Client, options: &Bootstrap) -> Value {
    match client {
        Client::Envoy => envoy(options),
        Client::Grpc => grpc(options),
    }
}

fn node(options: &Bootstrap) -> Value {
    let own = json!({ MUTUAL_TLS: options.certificates.is_some(), NAMESPACE: options.namespace });
    json!({ "id": options.node, "cluster": options.namespace, "metadata": { facts::KEY: own } })
}

/// Returns the content of gRPC's bootstrap file, which GRPC_XDS_BOOTSTRAP names. A program with certificates must also
/// set GRPC_EXPERIMENTAL_XDS_SNI=true: proxies recognize connections of the mesh by their server name.
///
/// gRPC compares the control plane's name with the DNS names in the control plane's certificate. A loopback address is
/// not a DNS name, so gRPC connects to a loopback address without TLS.
fn grpc(options: &Bootstrap) -> Value {
    let credentials = match &options.certificates {
        Some(files) if !is_loopback(&options.control) => json!({ "type": "tls", "config": grpc_files(files) }),
        _ => json!({ "type": "insecure" }),
    };
    let mut bootstrap = json!({
        "xds_servers": [{
            "server_uri": options.control,
            "channel_creds": [credentials],
            "server_features": ["xds_v3"],
        }],
        "node": node(options),
    });
    if let Some(files) = &options.certificates {
        let provider = json!({ "plugin_name": "file_watcher", "config": grpc_files(files) });
        bootstrap["certificate_providers"] = json!({ tls::PROVIDER: provider });
    }
    bootstrap
}

/// Returns whether the host of `control` is a loopback address. Returns `false` for a name such as `localhost`, because
/// a certificate can contain such a name.
fn is_loopback(control: &str) -> bool {
    host_and_port(control).0.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Splits `host:port`, and removes the brackets of an IPv6 address.
fn host_and_port(control: &str) -> (&str, u16) {
    let (host, port) = control.rsplit_once(':').unwrap_or((control, ""));
    (host.trim_start_matches('[').trim_end_matches(']'), port.parse().unwrap_or_default())
}

fn grpc_files(files: &Certificates) -> Value {
    json!({
        "certificate_file": files.chain,
        "private_key_file": files.key,
        "ca_certificate_file": files.bundle,
        "refresh_interval": "10s",
    })
}

/// Returns the content of Envoy's bootstrap file. Envoy accepts all connections of one application:
/// - If a Listener exists for the original destination of a redirected connection, this Listener handles the
///   connection.
/// - If the application sends an HTTP request to Envoy's own address, Envoy routes the request by its `:authority`.
/// - Envoy forwards any other connection to its original destination.
fn envoy(options: &Bootstrap) -> Value {
    let mut static_resources = json!({
        "clusters": [control_cluster(options), passthrough_cluster()],
        "listeners": [outbound_listener(options.outbound)],
    });
    if let Some(files) = &options.certificates {
        let file = |path: &PathBuf| json!({ "filename": path });
        static_resources["secrets"] = json!([
            { "name": tls::CERTIFICATE,
              "tls_certificate": { "certificate_chain": file(&files.chain), "private_key": file(&files.key) } },
            { "name": tls::TRUST, "validation_context": { "trusted_ca": file(&files.bundle) } },
        ]);
    }
    json!({
        "node": node(options),
        "admin": { "address": socket(options.admin) },
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "grpc_services": [{ "envoy_grpc": { "cluster_name": CONTROL } }],
            },
            "cds_config": ads(),
            "lds_config": ads(),
        },
        "static_resources": static_resources,
        "layered_runtime": {
            "layers": [{ "name": "leno", "static_layer": { "re2.max_program_size.error_level": MAX_RE2_INSTRUCTIONS } }],
        },
    })
}

/// Largest regular expression that Envoy accepts, in instructions of RE2. Envoy's default is 100: with one longer
/// expression in a route, Envoy would refuse the routes of all Services. The control plane limits expressions itself.
const MAX_RE2_INSTRUCTIONS: u32 = 100_000;
/// The name of Envoy's cluster for the control plane.
const CONTROL: &str = "leno-control";
/// The name of Envoy's cluster for a connection's original destination.
const PASSTHROUGH: &str = "leno-passthrough";

fn ads() -> Value {
    json!({ "resource_api_version": "V3", "ads": {} })
}

fn socket(address: SocketAddr) -> Value {
    json!({ "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } })
}

fn control_cluster(options: &Bootstrap) -> Value {
    let (host, port) = host_and_port(&options.control);
    let address = json!({ "socket_address": { "address": host, "port_value": port } });
    let endpoint = json!({ "endpoint": { "address": address } });
    let kind = if host.parse::<IpAddr>().is_ok() { "STATIC" } else { "STRICT_DNS" };
    let http2 = json!({ "connection_keepalive": { "interval": "30s", "timeout": "5s" } });
    let mut cluster = json!({
        "name": CONTROL,
        "type": kind,
        "connect_timeout": "1s",
        "load_assignment": { "cluster_name": CONTROL, "endpoints": [{ "lb_endpoints": [endpoint] }] },
        "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": { "http2_protocol_options": http2 },
        } },
    });
    if options.certificates.is_some() {
        cluster["transport_socket"] = json!({
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                "common_tls_context": {
                    "tls_params": { "tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3" },
                    "alpn_protocols": ["h2"],
                    "tls_certificate_sds_secret_configs": [{ "name": tls::CERTIFICATE }],
                    "validation_context_sds_secret_config": { "name": tls::TRUST },
                },
            },
        });
    }
    cluster
}

fn passthrough_cluster() -> Value {
    // Without these values, Envoy would limit the application to 1,024 connections.
    let unlimited = json!({ "max_connections": i32::MAX, "max_pending_requests": i32::MAX });
    json!({
        "name": PASSTHROUGH,
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "1s",
        "circuit_breakers": { "thresholds": [unlimited] },
    })
}

fn outbound_listener(address: SocketAddr) -> Value {
    let manager = json!({
        "@type":
            "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "leno-outbound",
        "rds": { "route_config_name": RouteName::Mesh.to_string(), "config_source": ads() },
        "strip_trailing_host_dot": true,
        "stream_idle_timeout": "0s",
        "upgrade_configs": [{ "upgrade_type": "websocket" }],
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" },
        }],
    });
    let relay = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": PASSTHROUGH,
        "cluster": PASSTHROUGH,
    });
    let listener_filter = |name: &str, kind: &str| {
        let url = format!("type.googleapis.com/envoy.extensions.filters.listener.{kind}");
        json!({ "name": name, "typed_config": { "@type": url } })
    };
    json!({
        "name": "leno-outbound",
        "address": socket(address),
        "use_original_dst": true,
        "traffic_direction": "OUTBOUND",
        "listener_filters": [
            listener_filter("envoy.filters.listener.original_dst", "original_dst.v3.OriginalDst"),
            listener_filter("envoy.filters.listener.http_inspector", "http_inspector.v3.HttpInspector"),
        ],
        "filter_chains": [{
            "filter_chain_match": { "application_protocols": ["http/1.0", "http/1.1", "h2c"] },
            "filters": [{ "name": "envoy.filters.network.http_connection_manager", "typed_config": manager }],
        }],
        "default_filter_chain": {
            "filters": [{ "name": "envoy.filters.network.tcp_proxy", "typed_config": relay }],
        },
    })
}

#[cfg(test)]
#[path = "bootstrap_tests.rs"]
mod tests;
