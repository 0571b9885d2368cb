//! The network of the runs: one bridge and, for each run, a network namespace with a virtual Ethernet device on the
//! bridge.
//!
//! For run 3 on the bridge leno0, both the namespace and the outer end of the device, which is attached to the bridge,
//! are called `leno0-3`. The inner end of the device, within the namespace, is called `eth0`. If the kernel passes
//! bridged packets to iptables (br_netfilter, which Docker enables), the machine's FORWARD rules must accept these
//! packets.
//!
//! Run numbers are unique only within the directory of a mesh (--state), and these names do not contain the directory.
//! So two meshes must not share a bridge. The bridge's alias names the directory to which the bridge belongs.

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

/// Number of the first run. A run's number is also its host number in the subnet; host number 1 belongs to the bridge.
pub(super) const FIRST_RUN: u16 = 2;
const BRIDGE_HOST: u16 = 1;
/// Maximum length of a device's alias, in bytes: the kernel's IFALIASZ without the final zero.
const ALIAS_MAX_BYTES: usize = 255;
/// The beginning of the alias of every bridge that `leno run` creates.
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
    /// Returns the network of run number `run` of this mesh, whose namespace is called `name`. The bridge that this
    /// name contains may differ from the bridge of `self`. `None` if the name does not end with the run's number.
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

    /// Returns an error if the bridge exists and does not belong to this mesh.
    ///
    /// # Errors
    /// [`Error::BridgeOfOthers`] or [`Error::BridgeForeign`].
    pub(super) fn ensure_ours(&self) -> Result<()> {
        self.has_bridge().map(drop)
    }

    /// Creates the namespace of a run, and the bridge if necessary. After an error, the run has no namespace. A
    /// namespace with the run's name may still exist, but belongs to another run or program.
    ///
    /// # Errors
    /// If the bridge does not belong to this mesh, if a namespace with the run's name exists, or if `ip` fails.
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
            // Ignore an error: the process may have ended in the meantime.
            let _ = kill_process(pid, Signal::KILL);
        }
        // Delete the device explicitly. The kernel deletes it with the namespace only if its inner end is in the
        // namespace.
        let _ = ip(&["link", "delete", "dev", &name], "");
        ip(&["netns", "delete", &name], "").map(drop)
    }

    /// Removes the bridge, if it exists and belongs to this mesh.
    ///
    /// # Errors
    /// If `ip` fails.
    pub(super) fn remove_bridge(&self) -> Result<()> {
        match self.has_bridge() {
            Ok(true) => ip(&["link", "delete", "dev", &self.bridge], "").map(drop),
            Ok(false) => Ok(()),
            Err(error) if error.is_foreign_bridge() => Ok(()),
            Err(error) => Err(error),
        }
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
        // If `action` panicked, continue the panic on the calling thread.
        let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.map_err(io_error(format!("entering the network namespace {name}")))
    }

    /// Returns whether the bridge exists, and checks that it belongs to this mesh.
    ///
    /// # Errors
    /// If the bridge exists, but belongs to another mesh or to no mesh. Also if `ip` fails.
    fn has_bridge(&self) -> Result<bool> {
        // List all devices. If we named the bridge, `ip` would fail without it, and other failures would look the same.
        self.is_among(&ip(&["-json", "link", "show"], "")?)
    }

    /// Returns whether the bridge is among the devices in the JSON output of `ip`, and checks that it belongs to this
    /// mesh.
    fn is_among(&self, json: &str) -> Result<bool> {
        let links: Vec<Link> = serde_json::from_str(json)
            .map_err(|error| io_error("reading the output of ip -json link show")(error.into()))?;
        let Some(bridge) = links.into_iter().find(|link| link.ifname.as_ref() == Some(&self.bridge)) else {
            return Ok(false);
        };
        let alias = bridge.ifalias.unwrap_or_default();
        if alias.starts_with(&self.mark()) {
            return Ok(true);
        }
        let bridge = self.bridge.clone();
        let others = alias.strip_prefix(ALIAS_START).and_then(|alias| alias.split_once(' '));
        Err(match others {
            Some((_, theirs)) => Error::BridgeOfOthers { bridge, theirs: theirs.to_owned(), ours: self.state.clone() },
            None => Error::BridgeForeign { bridge },
        })
    }

    /// The beginning of the alias, by which a mesh recognizes its bridge. It contains a digest of the directory's path,
    /// because the path itself may be too long for an alias.
    fn mark(&self) -> String {
        format!("{ALIAS_START}{:016x} ", digest(self.state.as_os_str().as_encoded_bytes()))
    }

    /// The alias of the bridge: [`Self::mark`], followed by the path of the mesh's directory, which error messages
    /// show.
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
        // Delete the bridge after an error: without its alias, no later run would recognize it as its own.
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
        // Derive the Ethernet address from the IP address. If a later run gets the same IP address, neighbors that have
        // cached the Ethernet address then still reach it. The first byte, 02, marks a locally administered address.
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

/// A network device in the JSON output of `ip`.
#[derive(Deserialize)]
struct Link {
    ifname: Option<String>,
    ifalias: Option<String>,
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
