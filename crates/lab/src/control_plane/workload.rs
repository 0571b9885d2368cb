//! A real leno-proxy whose workload calls two Services, and the server that answers.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::control::{self, Control};
use super::identity::{self, Credentials};
use super::plan::{CALLED, cluster};
use crate::backends::start_server;
use crate::child::{Child, Launch, free_address};
use crate::error::{Error, Result, io};
use crate::load::{Client, Exchange, Load, Pattern, Plan as Calls, Traffic};
use crate::procfs::{self, Memory};
use crate::targets::leno::{self, Program};

/// The server's name in its answers.
const NAME: &str = "called";
const IN_FLIGHT: u32 = 20;
const CALLS: Duration = Duration::from_secs(3);

/// The server behind both Services. Dropping this value ends its process.
pub(super) struct Called {
    _server: Child,
    pub(super) address: SocketAddrV4,
}

impl Called {
    /// Starts the server on an address of this machine other than loopback: the API server accepts no endpoints with
    /// loopback addresses.
    ///
    /// # Errors
    /// If this machine has only loopback addresses.
    pub(super) fn start(logs: &Path) -> Result<Self> {
        let ip = own_address()?;
        let address = SocketAddrV4::new(ip, free_address()?.port());
        let mut server = start_server(NAME, address.into(), &[format!("--name={NAME}")], logs, &[])?;
        server.wait_for_listener(address.into())?;
        Ok(Self { _server: server, address })
    }
}

/// Returns the address from which this machine sends packets to other machines. Sends no packet.
fn own_address() -> Result<Ipv4Addr> {
    const DOCUMENTATION: (&str, u16) = ("198.51.100.1", 9);
    let found = UdpSocket::bind("0.0.0.0:0")
        .and_then(|socket| socket.connect(DOCUMENTATION).and_then(|()| socket.local_addr()))
        .map(|address| address.ip());
    match found {
        Ok(IpAddr::V4(ip)) if !ip.is_loopback() => Ok(ip),
        _ => {
            let why = "endpoints cannot be on loopback; give it one, or leave proxy-memory out".to_owned();
            Err(Error::Cluster { what: "this machine has no IPv4 address but loopback".to_owned(), why })
        }
    }
}

/// A running leno-proxy. Dropping it kills the process.
pub(super) struct Proxy {
    child: Child,
    outbound: SocketAddr,
}

impl Proxy {
    /// Starts a proxy that uses this control plane, with a certificate of its own.
    ///
    /// # Errors
    /// If the program is not built, or not ready in time.
    pub(super) fn start(
        program: Option<&Path>,
        control: &Control,
        credentials: &Credentials,
        name: &str,
        logs: &Path,
    ) -> Result<Self> {
        let Program { path, mut args } = leno::program(program)?;
        let write = |file: &str, text: &str| {
            let path = logs.join(format!("{name}.{file}"));
            fs::write(&path, text).map_err(io(format!("writing {}", path.display())))?;
            Ok(path.display().to_string())
        };
        let (token, trust_bundle) = (write("token", &credentials.token)?, write("ca.crt", &credentials.trust_bundle)?);
        let (outbound, admin) = (free_address()?, free_address()?);
        let options = [
            format!("--control={}", control.xds.address),
            format!("--control-identity={}", control::workload()),
            format!("--identity={}", identity::workload()),
            format!("--issuer={}", control.identity.address),
            format!("--token={token}"),
            format!("--trust-bundle={trust_bundle}"),
            format!("--outbound={outbound}"),
            "--inbound=127.0.0.1:0".to_owned(),
            "--tunnel=127.0.0.1:0".to_owned(),
            format!("--admin={admin}"),
            "--workers=1".to_owned(),
        ];
        args.extend(options.map(Into::into));
        let mut child = Child::start(&Launch::new(name, path, args), logs)?;
        child.wait_for_http_ok(admin, "/ready")?;
        Ok(Self { child, outbound })
    }

    /// Calls both Services for some seconds.
    ///
    /// # Errors
    /// If any call fails. In that case the proxy may lack resources, and its memory would not be comparable.
    pub(super) fn call(&mut self) -> Result<()> {
        let client = |service| Client { address: self.outbound, authority: cluster(service) };
        let load = Load::start(Calls {
            clients: CALLED.map(client).into(),
            servers: vec![NAME.to_owned()],
            exchange: Exchange::Grpc,
            traffic: Traffic::default(),
            pattern: Pattern::Closed { in_flight: IN_FLIGHT },
            warm_up: Duration::ZERO,
            measured: CALLS,
            cpus: Vec::new(),
            seed: 0,
        });
        let numbers = load.finish()?;
        self.child.ensure_running()?;
        let (calls, failed) = (numbers.total.calls + numbers.failed, numbers.failed);
        if failed == 0 && calls > 0 {
            return Ok(());
        }
        let why = numbers.first_failure.unwrap_or_else(|| "none was answered".to_owned());
        Err(Error::CallsFailed { target: "leno-proxy".to_owned(), failed, calls, why })
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        procfs::memory(self.child.pid())
    }
}
