//! Servers and clients of a mesh on loopback, each with a proxy, and the authority that issues the proxies'
//! certificates.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use leno_tests::backend::{Backend, Settings};
use leno_tests::manifests::Service;
use leno_tests::programs;
use leno_tests::proxy::{Proxy, Signal};

pub(crate) const TRUST_DOMAIN: &str = "test.example";
/// A server's port on its own address.
const PORT: u16 = 50051;
const INBOUND_PORT: u16 = 4143;
const TUNNEL_PORT: u16 = 15008;
/// Longest time for a run of `leno ca`.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a loopback address that no other test uses, so that a restarted proxy finds its ports free.
pub(crate) fn own_ip() -> IpAddr {
    static LAST: AtomicU8 = AtomicU8::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high.saturating_add(1), low, number).into()
}

/// A certificate authority in a directory. Dropping this value deletes the directory.
#[derive(Debug)]
pub(crate) struct Authority(tempfile::TempDir);

impl Authority {
    pub(crate) fn new() -> Self {
        Self::of(TRUST_DOMAIN)
    }

    pub(crate) fn of(trust_domain: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let this = Self(directory);
        programs::run_well("leno", &["ca", "init", "--trust-domain", trust_domain, "--out", this.text()], PATIENCE);
        this
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path as text, for command lines.
    pub(crate) fn text(&self) -> &str {
        self.0.path().to_str().expect("temporary directories have plain names")
    }

    /// Issues a certificate for a program that is not a proxy, with more arguments for `leno ca issue`. Returns the
    /// directory of its files.
    pub(crate) fn issue(&self, workload: &str, arguments: &[&str]) -> PathBuf {
        let out = self.path().join(format!("issued {}", arguments.join(" "))).join(workload);
        let out_text = out.to_str().expect("it is text");
        let command = [&["ca", "issue", self.text(), workload, "--out", out_text], arguments].concat();
        programs::run_well("leno", &command, PATIENCE);
        out
    }
}

/// A server, and the proxy in front of it. Both have the same loopback address.
#[derive(Debug)]
pub(crate) struct ServerSide {
    pub(crate) backend: Backend,
    /// The proxy. `None` while it does not run. Dropping the value kills the proxy.
    pub(crate) proxy: Option<Proxy>,
    ip: IpAddr,
    workload: String,
    arguments: Vec<String>,
}

impl ServerSide {
    /// Starts a server and its proxy, with more arguments for the proxy.
    pub(crate) async fn start(authority: &Authority, name: &str, settings: Settings, arguments: &[&str]) -> Self {
        let ip = own_ip();
        let backend = Backend::start_on(SocketAddr::new(ip, PORT), settings).await;
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        let workload = format!("ns/default/sa/{name}");
        let identity = ["--identity", &workload, "--issuer", authority.text()].map(str::to_owned);
        let arguments = identity.into_iter().chain(arguments).collect();
        let mut this = Self { backend, proxy: None, ip, workload, arguments };
        this.start_proxy();
        this
    }

    /// Starts the proxy, or starts it again after it was dropped.
    pub(crate) fn start_proxy(&mut self) {
        let (inbound, tunnel) = (self.inbound().to_string(), self.tunnel().to_string());
        let mut arguments = vec!["--inbound", &inbound, "--tunnel", &tunnel];
        arguments.extend(self.arguments.iter().map(String::as_str));
        self.proxy = Some(Proxy::start_with(SocketAddr::new(self.ip, 4140), &[], &arguments));
    }

    /// Sends SIGTERM to the proxy, and waits until the proxy has finished its calls and ended.
    pub(crate) async fn drain_proxy(&mut self, timeout: Duration) {
        let mut proxy = self.proxy.take().expect("it runs");
        proxy.signal(Signal::TERM);
        let ended = tokio::task::spawn_blocking(move || proxy.wait(timeout));
        let status = ended.await.expect("no panic").expect("it ends within its grace period");
        assert!(status.success(), "{status}");
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("it runs")
    }

    /// Returns the server's address, which is the endpoint's address.
    pub(crate) fn endpoint(&self) -> SocketAddr {
        self.backend.address()
    }

    pub(crate) fn inbound(&self) -> SocketAddr {
        SocketAddr::new(self.ip, INBOUND_PORT)
    }

    pub(crate) fn tunnel(&self) -> SocketAddr {
        SocketAddr::new(self.ip, TUNNEL_PORT)
    }
}

/// Returns the Service `echo` of these servers.
pub(crate) fn echo(servers: &[ServerSide]) -> Service {
    let endpoints: Vec<SocketAddr> = servers.iter().map(ServerSide::endpoint).collect();
    let add = |service, server: &ServerSide| behind_proxy(service, server.endpoint(), &server.workload);
    servers.iter().fold(Service::echo(&endpoints), add)
}

/// Adds the annotations of an endpoint whose proxy has the identity of `workload`.
pub(crate) fn behind_proxy(service: Service, endpoint: SocketAddr, workload: &str) -> Service {
    service.endpoint_annotated(endpoint, "leno.dev/identity", workload).endpoint_annotated(
        endpoint,
        "leno.dev/inbound-port",
        &INBOUND_PORT.to_string(),
    )
}

/// Starts the proxy of a client, on its own address.
pub(crate) fn client_side(authority: &Authority, services: &[Service], arguments: &[&str]) -> Proxy {
    client_side_at(SocketAddr::new(own_ip(), 4140), authority, services, arguments)
}

/// Starts the proxy of a client, on the address `outbound`.
pub(crate) fn client_side_at(
    outbound: SocketAddr,
    authority: &Authority,
    services: &[Service],
    arguments: &[&str],
) -> Proxy {
    let identity = ["--identity", "ns/default/sa/web", "--issuer", authority.text()];
    Proxy::start_with(outbound, services, &[&identity, arguments].concat())
}
