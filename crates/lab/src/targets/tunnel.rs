//! The target `tunnel`: the lab's own bare TLS tunnel on rustls. It shows the cost of TLS without a proxy.

use std::net::SocketAddr;

use super::hop::Started;
use super::mesh::{ServerSide, credentials, server_name};
use super::{Setting, Target};
use crate::child::{Child, Launch, free_address};
use crate::error::{Result, io};
use crate::experiment::record::TargetKind;
use crate::tls::Credentials;

/// The tunnel's version text. The tunnel has no version of its own, because it is part of this program.
pub(super) const VERSION: &str = "rustls, of this program";
/// The value of `--side` for the end that encrypts.
pub(super) const CLIENT_SIDE: &str = "client";
/// The value of `--side` for the end that decrypts.
pub(super) const SERVER_SIDE: &str = "server";

/// Starts both ends of the tunnel, in front of the first backend.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let (client, server) = credentials(setting)?;
    let far_end = start_end(setting, SERVER_SIDE, SERVER_SIDE, &server, setting.backends.first().copied())?;
    let near_end = start_end(setting, CLIENT_SIDE, CLIENT_SIDE, &client, Some(far_end.listener))?;
    let address = near_end.listener;
    Ok(Target::mesh(TargetKind::Tunnel, address, near_end.wait()?, vec![far_end.wait()?]))
}

/// Starts only the server's end of the tunnel, which echoes the bytes because it has no backend.
pub(super) fn start_server_side(setting: &Setting<'_>) -> Result<ServerSide> {
    let (client, server) = credentials(setting)?;
    let end = start_end(setting, SERVER_SIDE, SERVER_SIDE, &server, None)?;
    let address = end.listener;
    let target = Target::proxy(TargetKind::Tunnel, address, end.wait()?);
    Ok(ServerSide { target, server_name: server_name(address), client, alpn: None })
}

/// Starts one end of a tunnel. `name` names its log, and must be unique in the run.
pub(super) fn start_end(
    setting: &Setting<'_>,
    name: &str,
    side: &str,
    credentials: &Credentials,
    connect: Option<SocketAddr>,
) -> Result<Started> {
    let leno = std::env::current_exe().map_err(io("finding leno's own executable"))?;
    let listener = free_address()?;
    let file = |flag: &str, path: &std::path::Path| format!("--{flag}={}", path.display());
    let mut args =
        vec!["lab".to_owned(), "tunnel".to_owned(), format!("--side={side}"), format!("--listen={listener}")];
    args.push(file("authority", &credentials.authority));
    args.push(file("certificate", &credentials.certificate));
    args.push(file("key", &credentials.key));
    args.extend(connect.map(|address| format!("--connect={address}")));
    let launch = Launch::new(format!("tunnel-{name}"), leno, args).on_cpus(setting.cpus);
    Ok(Started { child: Child::start(&launch, setting.dir)?, listener, admin: None })
}
