//! The network of the runs: one bridge, and for each run a network namespace with a virtual Ethernet device on it.
//!
//! Whatever belongs to run 3 of the bridge leno0 is called `leno0-3`: its namespace and its end of the bridge. Within
//! the namespace the device is `eth0`. Where the kernel hands bridged packets to iptables (br_netfilter, as Docker
//! asks for), the machine's FORWARD rules must let them pass.

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

/// The number of the first run; the bridge is host 1.
pub(super) const FIRST_RUN: u16 = 2;
const BRIDGE_HOST: u16 = 1;

/// The bridge and the addresses on it.
#[derive(Clone, Debug)]
pub(super) struct Network {
    /// The bridge's name.
    pub(super) bridge: String,
    /// The network of its addresses.
    pub(super) subnet: Subnet,
}

impl Network {
    /// What everything of a run is called.
    pub(super) fn name(&self, run: u16) -> String {
        format!("{}-{run}", self.bridge)
    }

    /// A run's address.
    pub(super) fn address(&self, run: u16) -> Ipv4Addr {
        self.subnet.host(run)
    }

    /// Makes the namespace of a run, and the bridge if there is none.
    ///
    /// # Errors
    /// When `ip` fails.
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

    /// Removes the namespace of a run with all that still runs in it; does nothing where there is none.
    ///
    /// # Errors
    /// When `ip` fails.
    pub(super) fn remove(&self, run: u16) -> Result<()> {
        let name = self.name(run);
        if !namespace(&name).exists() {
            return Ok(());
        }
        let pids = ip(&["netns", "pids", &name], "")?;
        for pid in pids.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        // The devices of a namespace end with it; one that was never moved into it would not.
        let _ = ip(&["link", "delete", "dev", &name], "");
        ip(&["netns", "delete", &name], "").map(drop)
    }

    /// Removes the bridge, if there is one.
    ///
    /// # Errors
    /// When `ip` fails.
    pub(super) fn remove_bridge(&self) -> Result<()> {
        if self.has_bridge() {
            ip(&["link", "delete", "dev", &self.bridge], "")?;
        }
        Ok(())
    }

    /// Does something in the network namespace of a run, on a thread that is there and nowhere else.
    ///
    /// # Errors
    /// When there is no such namespace.
    pub(super) fn inside<T: Send>(&self, run: u16, action: impl FnOnce() -> T + Send) -> Result<T> {
        let name = self.name(run);
        let path = namespace(&name);
        let act = || -> io::Result<T> {
            enter(&path)?;
            Ok(action())
        };
        let result = thread::scope(|scope| scope.spawn(act).join());
        // A panic goes on where it would have gone without the thread.
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
        // The next run with this address is reached by those who remember the Ethernet address of this one. The first
        // byte says that it is nobody's serial number.
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

/// Where `ip netns` keeps a namespace.
pub(super) fn namespace(name: &str) -> PathBuf {
    PathBuf::from("/var/run/netns").join(name)
}

/// Moves the calling thread into a network namespace.
///
/// # Errors
/// When it does not exist, or the caller is not root.
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
