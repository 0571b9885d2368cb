//! The demo's processes: five echo servers and one leno-proxy.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::Options;
use super::way::Way;
use crate::child::{Child, Launch, free_address};
use crate::error::{Result, io};
use crate::load::Client;
use crate::manifest::{Endpoint, Service};

const SERVERS: usize = 5;
/// Minimum service time of a healthy server, and the maximum of the random time that is added to it, in ms.
const WORK_MS: u32 = 1;
const SPREAD_MS: u32 = 1;
/// The Services' port. No program listens on it: clients call the Services by name.
const SERVICE_PORT: u16 = 50051;
/// Name and balancer of each of the two Services. Both Services have the same endpoints.
const ROUND_ROBIN: (&str, &str) = ("echo-round-robin", "round-robin");
const LATENCY: (&str, &str) = ("echo", "latency");

/// The running processes. Dropping this value ends them.
pub(super) struct Stage {
    servers: Vec<SocketAddr>,
    outbound: SocketAddr,
    children: Vec<Child>,
    _dir: tempfile::TempDir,
}

impl Stage {
    /// Starts the servers, the last of which is slow, and the proxy in front of them.
    pub(super) fn set_up(options: &Options) -> Result<Self> {
        let dir = tempfile::tempdir().map_err(io("making a temporary directory"))?;
        let leno = std::env::current_exe().map_err(io("finding leno's own executable"))?;
        let mut servers = Vec::new();
        let mut children = Vec::new();
        for number in 1..=SERVERS {
            let slow_ms = if number == SERVERS { options.slow_ms } else { 0 };
            let address = free_address()?;
            children.push(start_server(&leno, number, address, slow_ms, dir.path())?);
            servers.push(address);
        }
        for (child, &address) in children.iter_mut().zip(&servers) {
            child.wait_for_listener(address)?;
        }
        let outbound = free_address()?;
        children.push(start_proxy(&leno, outbound, &servers, dir.path())?);
        Ok(Self { servers, outbound, children, _dir: dir })
    }

    /// The names that the servers put into their answers.
    pub(super) fn server_names(&self) -> Vec<String> {
        (1..=self.servers.len()).map(server_name).collect()
    }

    /// The client connections of a mode.
    pub(super) fn clients(&self, way: Way) -> Vec<Client> {
        let through_proxy =
            |(name, _)| Client { address: self.outbound, authority: format!("{name}.default:{SERVICE_PORT}") };
        match way {
            Way::Pinned => self.servers.iter().map(directly).collect(),
            Way::RoundRobin => vec![through_proxy(ROUND_ROBIN)],
            Way::Leno => vec![through_proxy(LATENCY)],
        }
    }

    /// Returns an error if a process has ended.
    pub(super) fn ensure_running(&mut self) -> Result<()> {
        self.children.iter_mut().try_for_each(Child::ensure_running)
    }
}

fn directly(&address: &SocketAddr) -> Client {
    Client { address, authority: address.to_string() }
}

fn server_name(number: usize) -> String {
    format!("s{number}")
}

fn start_server(leno: &Path, number: usize, address: SocketAddr, slow_ms: u32, dir: &Path) -> Result<Child> {
    let name = server_name(number);
    let delay_ms = WORK_MS + slow_ms;
    let args = [
        "echo".to_owned(),
        format!("--listen={address}"),
        format!("--name={name}"),
        format!("--delay-ms={delay_ms}"),
        format!("--spread-ms={SPREAD_MS}"),
    ];
    Child::start(&Launch::new(format!("echo server {name}"), leno, args), dir)
}

fn start_proxy(leno: &Path, outbound: SocketAddr, servers: &[SocketAddr], dir: &Path) -> Result<Child> {
    let config = write_config(servers, dir)?;
    let admin = free_address()?;
    let args = [
        "proxy".to_owned(),
        format!("--config={}", config.display()),
        format!("--outbound={outbound}"),
        format!("--admin={admin}"),
    ];
    let mut proxy = Child::start(&Launch::new("leno-proxy", leno, args), dir)?;
    proxy.wait_for_http_ok(admin, "/ready")?;
    Ok(proxy)
}

fn write_config(servers: &[SocketAddr], dir: &Path) -> Result<PathBuf> {
    let config = dir.join("config");
    let cannot_write = || io("writing the proxy's configuration");
    fs::create_dir(&config).map_err(cannot_write())?;
    let endpoints: Vec<Endpoint> = servers.iter().copied().map(Endpoint::from).collect();
    for (name, balancer) in [ROUND_ROBIN, LATENCY] {
        let service = Service {
            name,
            cluster_ip: None,
            port: SERVICE_PORT,
            app_protocol: Some("kubernetes.io/h2c"),
            balancer,
            endpoints: &endpoints,
        };
        let path = config.join(format!("{name}.yaml"));
        fs::write(path, service.to_yaml()).map_err(cannot_write())?;
    }
    Ok(config)
}
