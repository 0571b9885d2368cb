//! The network of the runs: one bridge and, for each run, a network namespace with a virtual Ethernet device on the
//! bridge.
//!
//! Run 3 on the bridge leno0 uses the name `leno0-3` for its namespace and for the end of its device that is attached
//! to the bridge. The end within the namespace is `eth0`. If the kernel passes bridged packets to iptables
//! (br_netfilter, which Docker enables), the machine's FORWARD rules must accept them.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::error::{Result, io as io_error};
use super::options::Subnet;
use crate::program;

/// Number of the first run. A run's number is also its host number in the subnet, in which the bridge is host 1.
pub(super) const FIRST_RUN: u16 = 2;
const BRIDGE_HOST: u16 = 1;

#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) bridge: String,
    /// The subnet of the runs' addresses.
    pub(super) subnet: Subnet,
}

impl Network {
    /// The name of a run's namespace and device.
    pub(super) fn name(&self, run: u16) -> String {
        format!("{}-{run}", self.bridge)
    }

    pub(super) fn address(&self, run: u16) -> Ipv4Addr {
        self.subnet.host(run)
    }

    /// Creates the namespace of a run, and the bridge if necessary.
    ///
    /// # Errors
    /// If `ip` fails.
    pub(super) fn add(&self, run: u16) -> Result<()> {
        if !self.has_bridge() {
            ip(&["-batch", "-"], &self.bridge_commands())?;
        }
        let name = self.name(run);
        ip(&["netns", "add", &name], "")?;
        ip(&["-batch", "-"], &self.outside_commands(run))?;
        ip(&["-netns", &name, "-batch", "-"], &self.inside_commands(run))?;
        Ok(())
    }

    /// Removes the namespace of a run, and kills all processes in it. Does nothing if the namespace does not exist.
    ///
    /// # Errors
    /// If `ip` fails.
    pub(super) fn remove(&self, run: u16) -> Result<()> {
        let name = self.name(run);
        if !namespace(&name).exists() {
            return Ok(());
        }
        let pids = ip(&["netns", "pids", &name], "")?;
        for pid in pids.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            // The process may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        // The devices in a namespace end with the namespace. A device that was never moved into the namespace must be
        // deleted here.
        let _ = ip(&["link", "delete", "dev", &name], "");
        ip(&["netns", "delete", &name], "").map(drop)
    }

    /// Removes the bridge, if it exists.
    ///
    /// # Errors
    /// If `ip` fails.
    pub(super) fn remove_bridge(&self) -> Result<()> {
        if self.has_bridge() {
            ip(&["link", "delete", "dev", &self.bridge], "")?;
        }
        Ok(())
    }

    /// Runs `action` on a separate thread within the network namespace of a run.
    ///
    /// # Errors
    /// If the namespace does not exist.
    pub(super) fn inside<T: Send>(&self, run: u16, action: impl FnOnce() -> T + Send) -> Result<T> {
        let name = self.name(run);
        let path = namespace(&name);
        let act = || -> io::Result<T> {
            enter(&path)?;
            Ok(action())
        };
        let result = thread::scope(|scope| scope.spawn(act).join());
        // Continue a panic on the calling thread.
        let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.map_err(io_error(format!("entering the network namespace {name}")))
    }

    fn has_bridge(&self) -> bool {
        ip(&["link", "show", "dev", &self.bridge], "").is_ok()
    }

    fn bridge_commands(&self) -> String {
        let Self { bridge, subnet } = self;
        let (address, bits) = (subnet.host(BRIDGE_HOST), subnet.prefix_bits());
        format!(
            "\
link add {bridge} type bridge
address add {address}/{bits} dev {bridge}
link set {bridge} up
"
        )
    }

    fn outside_commands(&self, run: u16) -> String {
        let (bridge, name, [a, b, c, d]) = (&self.bridge, self.name(run), self.address(run).octets());
        // The Ethernet address follows from the IP address, so that neighbours with a cached entry reach the next run
        // with this IP address. The first byte, 02, marks a locally administered address.
        let ethernet = format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
        format!(
            "\
link add {name} type veth peer name eth0 address {ethernet} netns {name}
link set {name} master {bridge} up
"
        )
    }

    fn inside_commands(&self, run: u16) -> String {
        let (address, bits, gateway) = (self.address(run), self.subnet.prefix_bits(), self.subnet.host(BRIDGE_HOST));
        format!(
            "\
link set lo up
address add {address}/{bits} dev eth0
link set eth0 up
route add default via {gateway}
"
        )
    }
}

/// The file in which `ip netns` keeps a namespace.
pub(super) fn namespace(name: &str) -> PathBuf {
    PathBuf::from("/var/run/netns").join(name)
}

/// Moves the calling thread into a network namespace.
///
/// # Errors
/// If the namespace does not exist, or the caller is not root.
pub(super) fn enter(namespace: &Path) -> io::Result<()> {
    let namespace = File::open(namespace)?;
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

fn ip(args: &[&str], commands: &str) -> Result<String> {
    Ok(program::run("ip", args, commands)?)
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
