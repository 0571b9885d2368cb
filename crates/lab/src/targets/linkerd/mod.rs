//! Linkerd: a linkerd2-proxy runs beside the client and in front of each backend, with mutual TLS between them. The lab
//! has a small control plane of its own for these proxies ([`control`]).
//!
//! linkerd2-proxy finds the Service of a connection by the connection's original destination, and never connects to
//! loopback addresses. Therefore netfilter rules redirect connections at both ends of a call's path, here marked `=>`:
//!
//! ```text
//! client -> Service => outbound proxy -> Pod's inbound port, inbound proxy -> Pod's port of the application => backend
//! ```

mod check;
mod control;
mod environment;
mod names;
mod program;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::hop::{Started, Wire};
use super::l4::{self, Redirection};
use super::mesh::{ServerSide, server_proxy};
use super::{Setting, Target};
use crate::child::{Child, Launch, free_address};
use crate::error::{Result, io};
use crate::experiment::record::TargetKind;
use crate::tls::{Authority, CLIENT, Credentials, Request, SERVER, ensure_mutual_tls};
use check::Running;
use control::{ControlPlane, Plan, Pod};
use environment::Sidecar;
pub(super) use program::{INSTALL, version};

/// The number of the client's Pod. This Pod has an IP address of its own, because a proxy does not use TLS for an
/// endpoint with the proxy's own IP address.
const CLIENT_POD: usize = 0;
/// The ALPN name of connections to an inbound proxy's own port. The connection begins with a transport header, which
/// contains the port of the application.
const TRANSPORT_HEADER: &str = "transport.l5d.io/v1";

/// Starts the control plane and all proxies. Before any call, checks that every inbound proxy rejects clients without a
/// certificate of the authority. [`Running`] checks the outbound proxy after the calls.
///
/// # Errors
/// If linkerd2-proxy is missing, or if the experiment is not in its own namespace.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let (service, outbound) = (l4::service_address()?, free_address()?);
    let pods = setting.backends.iter().enumerate().map(|(index, &backend)| new_pod(index, backend));
    let pods: Vec<Pod> = pods.collect::<Result<_>>()?;
    let mut redirections = vec![Redirection { from: service, to: outbound }];
    let behind = pods.iter().zip(setting.backends);
    redirections.extend(behind.map(|(pod, &backend)| Redirection { from: pod.address, to: backend }));
    let rules = l4::redirect(service, &redirections)?;
    let mesh = Mesh::start(setting, service, pods.clone())?;
    // Start all proxies before waiting for any of them, so that they start concurrently.
    let client_side = mesh.start_outbound(outbound)?;
    let started = pods.iter().enumerate().map(|(index, pod)| mesh.start_inbound(index, pod));
    let started: Vec<Started> = started.collect::<Result<_>>()?;
    let server_sides: Vec<Child> = started.into_iter().map(Started::wait).collect::<Result<_>>()?;
    for pod in &pods {
        ensure_mutual_tls(pod.inbound, &names::identity(SERVER), &mesh.client, Some(TRANSPORT_HEADER))?;
    }
    let running = Running { outbound_admin: client_side.admin, _control: mesh.control };
    let target = Target::mesh(TargetKind::Linkerd, service, client_side.wait()?, server_sides);
    Ok(target.with_rules(rules).with_control_plane(running))
}

/// Starts only the proxy in front of `backend`. Clients connect to the application's port at the Pod's address, which a
/// rule redirects to the proxy. They cannot use the proxy's own port, because they do not send the transport header.
pub(super) fn start_server_side(setting: &Setting<'_>, backend: SocketAddr) -> Result<ServerSide> {
    let pod = new_pod(0, backend)?;
    let rules = l4::redirect(pod.address, &[Redirection { from: pod.address, to: pod.inbound }])?;
    let mesh = Mesh::start(setting, pod.address, vec![pod])?;
    let proxy = mesh.start_inbound(0, &pod)?.wait()?;
    let (server_name, client) = (names::identity(SERVER), mesh.client);
    ensure_mutual_tls(pod.address, &server_name, &client, None)?;
    let running = Running { outbound_admin: None, _control: mesh.control };
    let target = Target::proxy(TargetKind::Linkerd, pod.address, proxy).with_rules(rules).with_control_plane(running);
    Ok(ServerSide { target, server_name, client, alpn: None })
}

/// Creates the Pod of the backend with this index. The Pod's application has the same port as `backend`.
fn new_pod(index: usize, backend: SocketAddr) -> Result<Pod> {
    let at_pod = |port| SocketAddr::new(l4::pod_ip(CLIENT_POD + 1 + index), port);
    Ok(Pod { address: at_pod(backend.port()), inbound: at_pod(free_address()?.port()) })
}

/// The control plane, and the parameters that are common to all proxies of a mesh.
struct Mesh<'a> {
    setting: &'a Setting<'a>,
    program: PathBuf,
    control: ControlPlane,
    /// Certificate of the authority, in PEM.
    trust_anchors: String,
    token: String,
    /// Credentials of the client, with which the lab checks the inbound proxies.
    client: Credentials,
}

impl<'a> Mesh<'a> {
    fn start(setting: &'a Setting<'a>, service: SocketAddr, pods: Vec<Pod>) -> Result<Self> {
        let program = program::find(setting.programs.linkerd2_proxy.as_deref())?;
        let authority = Authority::create(&setting.dir.join("certificates"))?;
        let client = authority.issue(CLIENT)?;
        let path = &client.authority;
        let trust_anchors = fs::read_to_string(path).map_err(io(format!("reading {}", path.display())))?;
        let token = format!("{:032x}", fastrand::u128(..));
        let is_opaque = setting.protocol.wire() == Wire::Opaque;
        let control = ControlPlane::start(Plan { service, pods, is_opaque }, authority, token.clone())?;
        Ok(Self { setting, program, control, trust_anchors, token, client })
    }

    /// Starts the proxy beside the client. It listens on `outbound` for the client's calls.
    fn start_outbound(&self, outbound: SocketAddr) -> Result<Started> {
        // The client accepts no calls, but every linkerd2-proxy listens for inbound connections.
        let inbound = SocketAddr::new(l4::pod_ip(CLIENT_POD), free_address()?.port());
        let (child, admin) = self.start_proxy("client-proxy", CLIENT, &[], inbound, outbound)?;
        Ok(Started { child, listener: outbound, admin: Some(admin) })
    }

    /// Starts the proxy in front of a Pod's application.
    fn start_inbound(&self, index: usize, pod: &Pod) -> Result<Started> {
        let (name, ports, outbound) = (server_proxy(index), [pod.address.port()], free_address()?);
        let (child, admin) = self.start_proxy(&name, SERVER, &ports, pod.inbound, outbound)?;
        Ok(Started { child, listener: pod.inbound, admin: Some(admin) })
    }

    /// Starts a proxy for an application that listens on `ports`. Returns the process and the address of its admin
    /// endpoint.
    fn start_proxy(
        &self,
        name: &str,
        workload: &str,
        ports: &[u16],
        inbound: SocketAddr,
        outbound: SocketAddr,
    ) -> Result<(Child, SocketAddr)> {
        let dir = self.setting.dir.join(format!("{name}-identity"));
        let identity = names::identity(workload);
        self.write_end_entity(&dir, &Request::new(&identity, workload)?)?;
        let admin = free_address()?;
        let sidecar = Sidecar {
            pod: name,
            identity: &identity,
            end_entity: &dir,
            token: &dir.join("token"),
            trust_anchors: &self.trust_anchors,
            control: self.control.address(),
            ports,
            inbound,
            outbound,
            admin,
        };
        let launch = Launch::new(name, &self.program, [""; 0]).on_cpus(self.setting.cpus);
        let launch =
            sidecar.environment().into_iter().fold(launch, |launch, (name, value)| launch.with_env(name, value));
        Ok((Child::start(&launch, self.setting.dir)?, admin))
    }

    /// Writes the files that a proxy needs to get a certificate: its key, its certificate signing request, and the
    /// token.
    fn write_end_entity(&self, dir: &Path, request: &Request) -> Result<()> {
        fs::create_dir_all(dir)
            .and_then(|()| fs::write(dir.join("key.p8"), &request.key))
            .and_then(|()| fs::write(dir.join("csr.der"), &request.csr))
            .and_then(|()| fs::write(dir.join("token"), &self.token))
            .map_err(io(format!("writing {}", dir.display())))
    }
}

#[cfg(test)]
#[path = "linkerd_tests.rs"]
mod tests;
