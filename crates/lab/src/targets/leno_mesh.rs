//! A mesh of Leno: its proxy beside the client and in front of each backend.

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

/// Options that a leno-proxy lacks if its version does not support meshes.
const FLAGS: [&str; 4] = ["--identity", "--issuer", "--inbound", "--tunnel"];

/// Starts all proxies. Before any call, checks that every server-side proxy requires a certificate of the authority.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let (issuer, client) = credentials(setting)?;
    let (endpoints, servers) = start_servers(setting, &issuer, &client)?;
    let outbound = free_address()?;
    // Opaque bytes name no destination: the proxy finds the original destination only if connections are intercepted.
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

/// Returns leno-proxy's version line.
///
/// # Errors
/// If the program is missing, or supports only one side of a mesh.
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

/// A proxy with an inbound side. It may still be starting: see [`Server::wait`].
pub(super) struct Server {
    backend: SocketAddr,
    inbound: SocketAddr,
    tunnel: SocketAddr,
    started: Started,
}

impl Server {
    /// The endpoint that clients call through this proxy.
    fn endpoint(&self) -> Endpoint {
        let (inbound_port, tunnel_port) = (self.inbound.port(), self.tunnel.port());
        Endpoint { address: self.backend, proxy: Some(Proxy { identity: SERVER, inbound_port, tunnel_port }) }
    }

    /// The address on which the proxy terminates TLS for the protocol `wire`.
    fn secure(&self, wire: Wire) -> SocketAddr {
        if wire == Wire::Opaque { self.tunnel } else { self.inbound }
    }

    /// Waits until the proxy serves, and checks that it requires a certificate of the client's authority. Returns the
    /// endpoint that clients call through it.
    pub(super) fn wait(self, wire: Wire, client: &Credentials) -> Result<(Endpoint, Child)> {
        let (secure, name, endpoint) = (self.secure(wire), server_name(self.backend), self.endpoint());
        let process = self.started.wait()?;
        ensure_mutual_tls(secure, &name, client, Wire::Http2.alpn())?;
        Ok((endpoint, process))
    }
}

/// Starts a proxy in front of each backend. Returns the endpoints that clients call through these proxies.
pub(super) fn start_servers(
    setting: &Setting<'_>,
    issuer: &Path,
    client: &Credentials,
) -> Result<(Vec<Endpoint>, Vec<Child>)> {
    let backends = setting.backends.iter().enumerate();
    let started = backends.map(|(index, &backend)| start_server(index, backend, setting, issuer));
    // Start all proxies before waiting for the first, so that they start concurrently.
    let started: Vec<Server> = started.collect::<Result<_>>()?;
    started.into_iter().map(|server| server.wait(setting.protocol.wire(), client)).collect()
}

fn start_server(index: usize, backend: SocketAddr, setting: &Setting<'_>, issuer: &Path) -> Result<Server> {
    // Only the caller's proxy retries or hedges calls.
    let setting = &Setting { policy: CallPolicy::Once, ..*setting };
    start_inbound(&server_proxy(index), backend, setting, issuer, (None, &[Endpoint::from(backend)]))
}

/// Starts a proxy with an inbound side in front of `backend`. Its configuration has a Service with the endpoints
/// `called`. If `outbound` is given, the proxy also listens there for the backend's own calls of this Service.
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
        // The proxies of the other meshes require a certificate too.
        "--default-inbound-policy=all-authenticated".to_owned(),
    ];
    let options = options.into_iter().chain(outbound.map(|outbound| format!("--outbound={outbound}")));
    let started = start_proxy(name, setting, inbound, outbound.unwrap_or(inbound), called, options)?;
    Ok(Server { backend, inbound, tunnel, started })
}

/// Starts the proxy beside the client, which listens on `outbound`. Clients call the Service by the address `service`.
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

/// Creates an authority for the run. Returns its directory, and the client's credentials from it.
pub(super) fn credentials(setting: &Setting<'_>) -> Result<(PathBuf, Credentials)> {
    let issuer = setting.dir.join("ca");
    make_authority(&issuer)?;
    let client = Authority::open(&issuer)?.issue(CLIENT)?;
    Ok((issuer, client))
}

/// Starts a proxy with a configuration directory that has one Service, which clients call by the address `service`.
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

/// Creates a new authority for every run, with `leno ca init`.
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
