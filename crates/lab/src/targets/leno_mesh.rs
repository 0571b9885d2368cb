//! A mesh of Leno: leno-proxy runs beside the client and in front of each backend.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::hop::{Started, Wire};
use super::leno::{self, Program};
use super::mesh::{ServerSide, server_name, server_proxy};
use super::{Setting, Target, l4};
use crate::child::{Child, Launch, free_address, last_line};
use crate::error::{Error, Result, io};
use crate::experiment::record::{CallPolicy, TargetKind};
use crate::manifest::{Endpoint, Proxy, Service};
use crate::tls::{Authority, CLIENT, Credentials, SERVER, TRUST_DOMAIN, ensure_mutual_tls};

/// Options that leno-proxy needs in a mesh. A leno-proxy without mesh support lacks some of them.
const FLAGS: [&str; 4] = ["--identity", "--issuer", "--inbound", "--tunnel"];

/// Starts all proxies. Before any call, checks that every server-side proxy rejects clients without a certificate of
/// the authority.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let (issuer, client) = credentials(setting)?;
    let (endpoints, servers) = start_servers(setting, &issuer, &client)?;
    let outbound = free_address()?;
    // Opaque bytes name no destination, so the proxy must look up the original destination of each connection. Only a
    // redirected connection has one, so redirect the connections for `l4::SERVICE` to the proxy.
    let is_opaque = setting.protocol.wire() == Wire::Opaque;
    let address = if is_opaque { l4::SERVICE } else { outbound };
    let client_side = start_client_side(setting, &issuer, (outbound, address), &endpoints)?;
    let target = Target::mesh(TargetKind::LenoMesh, address, client_side, servers);
    let redirection = l4::Redirection { from: address, to: outbound };
    Ok(if is_opaque { target.with_rules(l4::redirect(address, &[redirection])?) } else { target })
}

/// Starts only the proxy in front of `backend`.
pub(super) fn start_server_side(setting: &Setting<'_>, backend: SocketAddr) -> Result<ServerSide> {
    let (issuer, client) = credentials(setting)?;
    let server = start_server(0, backend, setting, &issuer)?;
    let secure = server.secure(Wire::Http2);
    let (_, process) = server.wait(Wire::Http2, &client)?;
    let target = Target::proxy(TargetKind::LenoMesh, secure, process);
    Ok(ServerSide { target, server_name: server_name(backend), client, alpn: Wire::Http2.alpn() })
}

/// Returns the line that contains leno-proxy's version.
///
/// # Errors
/// If the program is missing, or if it lacks one of [`FLAGS`].
pub(super) fn version(given: Option<&Path>) -> Result<String> {
    let Program { path, mut args } = leno::program(given)?;
    args.push("--help".into());
    let help = String::from_utf8_lossy(&output("leno-proxy", &path, &args)?.stdout).into_owned();
    if let Some(flag) = FLAGS.into_iter().find(|flag| !help.contains(flag)) {
        let path = path.display();
        let what = format!("{path} has no {flag}: it is of a version without meshes; build it with: {}", leno::BUILD);
        return Err(Error::Usage(what));
    }
    leno::version(given)
}

/// A proxy in front of a backend, which terminates TLS. It may still be starting: see [`Server::wait`].
pub(super) struct Server {
    backend: SocketAddr,
    inbound: SocketAddr,
    tunnel: SocketAddr,
    started: Started,
}

impl Server {
    /// The backend as an endpoint of the Service, which clients call through this proxy.
    fn endpoint(&self) -> Endpoint {
        let (inbound_port, tunnel_port) = (self.inbound.port(), self.tunnel.port());
        Endpoint { address: self.backend, proxy: Some(Proxy { identity: SERVER, inbound_port, tunnel_port }) }
    }

    /// The address on which the proxy terminates TLS for clients that use the protocol `wire`.
    fn secure(&self, wire: Wire) -> SocketAddr {
        if wire == Wire::Opaque { self.tunnel } else { self.inbound }
    }

    /// Waits until the proxy is ready, and checks that it rejects clients without a certificate of the authority.
    /// Returns the endpoint that clients call through the proxy, and the process.
    pub(super) fn wait(self, wire: Wire, client: &Credentials) -> Result<(Endpoint, Child)> {
        let (secure, name, endpoint) = (self.secure(wire), server_name(self.backend), self.endpoint());
        let process = self.started.wait()?;
        ensure_mutual_tls(secure, &name, client, Wire::Http2.alpn())?;
        Ok((endpoint, process))
    }
}

/// Starts a proxy in front of each backend. Returns the endpoints that clients call through these proxies, and the
/// processes.
pub(super) fn start_servers(
    setting: &Setting<'_>,
    issuer: &Path,
    client: &Credentials,
) -> Result<(Vec<Endpoint>, Vec<Child>)> {
    let backends = setting.backends.iter().enumerate();
    let started = backends.map(|(index, &backend)| start_server(index, backend, setting, issuer));
    // Start all proxies before waiting for any of them, so that they start concurrently.
    let started: Vec<Server> = started.collect::<Result<_>>()?;
    started.into_iter().map(|server| server.wait(setting.protocol.wire(), client)).collect()
}

fn start_server(index: usize, backend: SocketAddr, setting: &Setting<'_>, issuer: &Path) -> Result<Server> {
    // Do not retry or hedge calls here: the proxy beside the client does.
    let setting = &Setting { policy: CallPolicy::Once, ..*setting };
    start_inbound(&server_proxy(index), backend, setting, issuer, (None, &[Endpoint::from(backend)]))
}

/// Starts a proxy in front of `backend`. Its configuration has a Service with the endpoints `called`. If `outbound` is
/// given, the backend calls this Service through the proxy, which listens on `outbound` for these calls.
pub(super) fn start_inbound(
    name: &str,
    backend: SocketAddr,
    setting: &Setting<'_>,
    issuer: &Path,
    (outbound, called): (Option<SocketAddr>, &[Endpoint]),
) -> Result<Server> {
    let (inbound, tunnel) = (free_address()?, free_address()?);
    let options = [
        format!("--identity={SERVER}"),
        format!("--issuer={}", issuer.display()),
        format!("--inbound={inbound}"),
        format!("--tunnel={tunnel}"),
        // Reject clients without a certificate, as the other meshes do.
        "--default-inbound-policy=all-authenticated".to_owned(),
    ];
    let options = options.into_iter().chain(outbound.map(|outbound| format!("--outbound={outbound}")));
    let started = start_proxy(name, setting, inbound, outbound.unwrap_or(inbound), called, options)?;
    Ok(Server { backend, inbound, tunnel, started })
}

/// Starts the proxy beside the client. It listens on `outbound`; `service` is the address of the Service that clients
/// call.
pub(super) fn start_client_side(
    setting: &Setting<'_>,
    issuer: &Path,
    (outbound, service): (SocketAddr, SocketAddr),
    endpoints: &[Endpoint],
) -> Result<Child> {
    let options =
        [format!("--identity={CLIENT}"), format!("--issuer={}", issuer.display()), format!("--outbound={outbound}")];
    start_proxy("client-proxy", setting, outbound, service, endpoints, options)?.wait()
}

/// Creates an authority for the run. Returns the authority's directory, and credentials of the client.
pub(super) fn credentials(setting: &Setting<'_>) -> Result<(PathBuf, Credentials)> {
    let issuer = setting.dir.join("ca");
    make_authority(&issuer)?;
    let client = Authority::open(&issuer)?.issue(CLIENT)?;
    Ok((issuer, client))
}

/// Starts a proxy whose configuration directory contains one Service, with the address `service`.
fn start_proxy(
    name: &str,
    setting: &Setting<'_>,
    listener: SocketAddr,
    service: SocketAddr,
    endpoints: &[Endpoint],
    options: impl IntoIterator<Item = String>,
) -> Result<Started> {
    let Program { path, args: mut words } = leno::program(setting.programs.leno_proxy.as_deref())?;
    let admin = free_address()?;
    let config = setting.dir.join(format!("{name}-config"));
    let service = Service { endpoints, ..leno::service(service, setting.protocol) };
    leno::write_config(&config, &service, setting.policy)?;
    let common = [format!("--config={}", config.display()), format!("--admin={admin}"), "--workers=1".to_owned()];
    words.extend(common.into_iter().chain(options).map(OsString::from));
    let launch = Launch::new(name, path, words).on_cpus(setting.cpus);
    Ok(Started { child: Child::start(&launch, setting.dir)?, listener, admin: Some(admin) })
}

/// Creates a new authority in `dir` with `leno ca init`. Removes the authority of an earlier run.
fn make_authority(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(io(format!("removing {}", dir.display())))?;
    }
    let leno = std::env::current_exe().map_err(io("finding leno's own executable"))?;
    let domain = format!("--trust-domain={TRUST_DOMAIN}");
    let args = ["ca".into(), "init".into(), domain.into(), "--out".into(), dir.as_os_str().to_owned()];
    let output = output("leno ca init", &leno, &args)?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::ChildEnded {
        name: "leno ca init".to_owned(),
        status: output.status.to_string(),
        last_line: last_line(&output.stderr),
    })
}

fn output(name: &str, program: &Path, args: &[OsString]) -> Result<Output> {
    Command::new(program).args(args).stdin(Stdio::null()).output().map_err(io(format!("running {name}")))
}
