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
    let backends = setting.backends.iter().enumerate();
    let started = backends.map(|(index, &backend)| start_server(index, backend, setting, &issuer));
    // Start all proxies before waiting for the first, so that they start concurrently.
    let started: Vec<Server> = started.collect::<Result<_>>()?;
    let endpoints: Vec<Endpoint> = started.iter().map(Server::endpoint).collect();
    let mut servers = Vec::new();
    for server in started {
        let (secure, name) = (server.secure(setting.protocol.wire()), server_name(server.backend));
        servers.push(server.started.wait()?);
        ensure_mutual_tls(secure, &name, &client, Wire::Http2.alpn())?;
    }
    let outbound = free_address()?;
    let options =
        [format!("--identity={CLIENT}"), format!("--issuer={}", issuer.display()), format!("--outbound={outbound}")];
    // Opaque bytes name no destination: the proxy learns the original destination only if connections are intercepted.
    let is_opaque = setting.protocol.wire() == Wire::Opaque;
    let address = if is_opaque { l4::SERVICE } else { outbound };
    let client_side = start_proxy("client-proxy", setting, outbound, address, &endpoints, options)?.wait()?;
    let target = Target::mesh(TargetKind::LenoMesh, address, client_side, servers);
    let redirection = l4::Redirection { from: address, to: outbound };
    Ok(if is_opaque { target.with_rules(l4::redirect(address, &[redirection])?) } else { target })
}

/// Starts only the proxy in front of `backend`.
pub(super) fn start_server_side(setting: &Setting<'_>, backend: SocketAddr) -> Result<ServerSide> {
    let (issuer, client) = credentials(setting)?;
    let server = start_server(0, backend, setting, &issuer)?;
    let (secure, server_name) = (server.secure(Wire::Http2), server_name(backend));
    let target = Target::proxy(TargetKind::LenoMesh, secure, server.started.wait()?);
    let alpn = Wire::Http2.alpn();
    ensure_mutual_tls(secure, &server_name, &client, alpn)?;
    Ok(ServerSide { target, server_name, client, alpn })
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

/// A server-side proxy that may not be ready yet.
struct Server {
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
}

fn start_server(index: usize, backend: SocketAddr, setting: &Setting<'_>, issuer: &Path) -> Result<Server> {
    let (inbound, tunnel) = (free_address()?, free_address()?);
    let options = [
        format!("--identity={SERVER}"),
        format!("--issuer={}", issuer.display()),
        format!("--inbound={inbound}"),
        format!("--tunnel={tunnel}"),
        // As in the other meshes, whose proxies require a certificate.
        "--default-inbound-policy=all-authenticated".to_owned(),
    ];
    let here = [Endpoint { address: backend, proxy: None }];
    // Only the caller's proxy sends a call again.
    let setting = &Setting { policy: CallPolicy::Once, ..*setting };
    let started = start_proxy(&server_proxy(index), setting, inbound, inbound, &here, options)?;
    Ok(Server { backend, inbound, tunnel, started })
}

/// Creates an authority for the run. Returns its directory, and the client's credentials from it.
fn credentials(setting: &Setting<'_>) -> Result<(PathBuf, Credentials)> {
    let issuer = setting.dir.join("ca");
    make_authority(&issuer)?;
    let client = Authority::open(&issuer)?.issue(CLIENT)?;
    Ok((issuer, client))
}

/// Starts a proxy with a configuration directory that has one Service, which clients call by the address `service`.
fn start_proxy<const N: usize>(
    name: &str,
    setting: &Setting<'_>,
    listener: SocketAddr,
    service: SocketAddr,
    endpoints: &[Endpoint],
    options: [String; N],
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
