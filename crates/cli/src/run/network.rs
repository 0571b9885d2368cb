//! The network of the runs: one bridge and, for each run, a network namespace with a virtual Ethernet device on the
//! bridge.
//!
//! Run 3 on the bridge leno0 uses the name `leno0-3` for its namespace and for the end of its device that is attached
//! to the bridge. The end within the namespace is `eth0`. If the kernel passes bridged packets to iptables
//! (br_netfilter, which Docker enables), the machine's FORWARD rules must accept them.
//!
//! These names contain the bridge and the run's number, but not the directory of the mesh (--state), in which the numbers
//! are unique. So a bridge belongs to one directory. The bridge's alias names this directory, and exists for as long as
//! the bridge does.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::Deserialize;

use super::digest::digest;
use super::error::{Error, Result, io as io_error};
use super::options::Subnet;
use crate::program;

/// Number of the first run. A run's number is also its host number in the subnet, in which the bridge is host 1.
pub(super) const FIRST_RUN: u16 = 2;
const BRIDGE_HOST: u16 = 1;
/// Maximum length of a device's alias, in bytes: the kernel's IFALIASZ without the final zero.
const ALIAS_MAX_BYTES: usize = 255;
/// The beginning of the alias of every bridge that `leno run` makes.
const ALIAS_START: &str = "leno run ";

#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) bridge: String,
    /// The directory of the mesh, to which the bridge belongs.
    pub(super) state: PathBuf,
    /// The subnet of the runs' addresses.
    pub(super) subnet: Subnet,
}

impl Network {
    /// The network of a run whose namespace has this name: the same mesh, but possibly another bridge. `None` if the
    /// namespace is not of this run.
    pub(super) fn of_namespace(&self, name: &str, run: u16) -> Option<Self> {
        let bridge = name.strip_suffix(&format!("-{run}"))?.to_owned();
        Some(Self { bridge, ..self.clone() })
    }

    /// The name of a run's namespace and device.
    pub(super) fn name(&self, run: u16) -> String {
        format!("{}-{run}", self.bridge)
    }

    pub(super) fn address(&self, run: u16) -> Ipv4Addr {
        self.subnet.host(run)
    }

    /// Fails if the bridge exists and belongs to another mesh, or to no mesh.
    ///
    /// # Errors
    /// [`Error::BridgeOfOthers`] or [`Error::BridgeForeign`].
    pub(super) fn ensure_ours(&self) -> Result<()> {
        self.has_bridge().map(drop)
    }

    /// Creates the namespace of a run, and the bridge if necessary. After an error, the run has no namespace. A
    /// namespace with its name then belongs to another run or program.
    ///
    /// # Errors
    /// If the bridge or the namespace is not this mesh's, or `ip` fails.
    pub(super) fn add_namespace(&self, run: u16) -> Result<()> {
        let name = self.name(run);
        let has_bridge = self.has_bridge()?;
        if namespace(&name).exists() {
            return Err(Error::NamespaceTaken { name, state: self.state.clone() });
        }
        if !has_bridge {
            self.add_bridge()?;
        }
        ip(&["netns", "add", &name], "").map(drop)
    }

    /// Connects the namespace of a run to the bridge.
    ///
    /// # Errors
    /// If `ip` fails.
    pub(super) fn connect(&self, run: u16) -> Result<()> {
        ip(&["-batch", "-"], &self.outside_commands(run))?;
        ip(&["-netns", &self.name(run), "-batch", "-"], &self.inside_commands(run)).map(drop)
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
        // The kernel deletes the devices in a namespace together with the namespace. Delete here a device that was
        // never moved into the namespace.
        let _ = ip(&["link", "delete", "dev", &name], "");
        ip(&["netns", "delete", &name], "").map(drop)
    }

    /// Removes the bridge, if it exists and belongs to this mesh.
    ///
    /// # Errors
    /// If `ip` fails.
    pub(super) fn remove_bridge(&self) -> Result<()> {
        if matches!(self.has_bridge(), Ok(true)) {
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

    /// Returns whether the bridge exists.
    ///
    /// # Errors
    /// If it exists and belongs to another mesh, or to no mesh.
    fn has_bridge(&self) -> Result<bool> {
        // `ip` fails if there is no such device.
        ip(&["-json", "link", "show", "dev", &self.bridge], "")
            .map_or(Ok(false), |json| self.check(&json).map(|()| true))
    }

    /// Checks the description of the bridge, as `ip` prints it.
    fn check(&self, json: &str) -> Result<()> {
        let alias = alias(json).unwrap_or_default();
        if alias.starts_with(&self.mark()) {
            return Ok(());
        }
        let bridge = self.bridge.clone();
        let others = alias.strip_prefix(ALIAS_START).and_then(|alias| alias.split_once(' '));
        Err(match others {
            Some((_, theirs)) => Error::BridgeOfOthers { bridge, theirs: theirs.to_owned(), ours: self.state.clone() },
            None => Error::BridgeForeign { bridge },
        })
    }

    /// The part of the alias by which a mesh recognizes its bridge. A path may be longer than an alias, so this part
    /// contains a digest of the path.
    fn mark(&self) -> String {
        format!("{ALIAS_START}{:016x} ", digest(self.state.as_os_str().as_encoded_bytes()))
    }

    /// The alias of the bridge: the mark, and then the path, for error messages.
    fn alias(&self) -> String {
        let mut alias = format!("{}{}", self.mark(), self.state.display());
        alias.truncate(alias.floor_char_boundary(ALIAS_MAX_BYTES));
        alias
    }

    fn add_bridge(&self) -> Result<()> {
        ip(&["link", "add", "name", &self.bridge, "type", "bridge"], "")?;
        let set_up = || {
            ip(&["link", "set", "dev", &self.bridge, "alias", &self.alias()], "")?;
            ip(&["-batch", "-"], &self.bridge_commands())
        };
        // Without its alias, no later run would recognize the bridge as its own.
        set_up().map(drop).inspect_err(|_| {
            let _ = ip(&["link", "delete", "dev", &self.bridge], "");
        })
    }

    fn bridge_commands(&self) -> String {
        let Self { bridge, subnet, .. } = self;
        let (address, bits) = (subnet.host(BRIDGE_HOST), subnet.prefix_bits());
        format!(
            "\
address add {address}/{bits} dev {bridge}
link set {bridge} up
"
        )
    }

    fn outside_commands(&self, run: u16) -> String {
        let (bridge, name, [a, b, c, d]) = (&self.bridge, self.name(run), self.address(run).octets());
        // The Ethernet address follows from the IP address, so that neighbors with a cached entry reach the next run
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

/// A network device in the JSON of `ip`.
#[derive(Deserialize)]
struct Link {
    ifalias: Option<String>,
}

/// Returns the alias of the device that `ip` describes.
fn alias(json: &str) -> Option<String> {
    let links: Vec<Link> = serde_json::from_str(json).ok()?;
    links.into_iter().find_map(|link| link.ifalias)
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
