//! Netfilter rules as kube-proxy writes them. For each new connection to the ClusterIP, the kernel chooses a backend at
//! random, with equal probabilities. All packets of the connection then go to this backend.
//!
//! The whole experiment runs in a separate network namespace, so the rules never affect the rest of the machine. They
//! are in force only while this target is measured, because connection tracking would slow down the other targets too.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{Setting, Target, version_line};
use crate::child::{find_program, free_address, last_line};
use crate::error::{Error, Result, io as io_error};
use crate::experiment::record::TargetKind;

/// The command that installs the required programs on Debian and Ubuntu.
pub(super) const INSTALL: &str = "apt-get install nftables iproute2 util-linux";
/// Environment variable that the lab sets when it restarts itself inside the namespace. Its value identifies the
/// namespace in which the lab was started.
const OUTSIDE: &str = "LENO_LAB_OUTSIDE_NAMESPACE";
const OWN_NAMESPACE: &str = "/proc/self/ns/net";
/// The ClusterIP of a Service, from Kubernetes' usual range for Services.
const CLUSTER_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 50);
const PORT: u16 = 50051;
/// The address of the Service. No program listens on it: the rules redirect its connections to a backend.
pub(super) const SERVICE: SocketAddr = SocketAddr::new(IpAddr::V4(CLUSTER_IP), PORT);
/// The address of the first Pod; the addresses of the other Pods follow. Used for proxies that do not connect to
/// loopback addresses.
const FIRST_POD: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// Length, in bits, of the prefix that the addresses of all Pods share, as in Kubernetes' usual range for Pods.
const POD_PREFIX: u8 = 16;
/// The name of the test in [`version`], for its error message. The test fails if the kernel lacks nf_tables. It also
/// fails if the user is not root and the kernel forbids user namespaces.
const TRIAL: &str = "netfilter rules in a network namespace (they need root, or user namespaces, and nf_tables)";

/// Rules that stay in force until this value is dropped.
pub(super) struct Rules {
    nft: PathBuf,
    table: String,
}

/// A redirection of connections from the destination `from` to `to`, an address on this machine. The program that
/// listens on `to` can query the original destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Redirection {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
}

impl Drop for Rules {
    fn drop(&mut self) {
        // Ignore an error: the rules also end with the namespace.
        let _ = nft(&self.nft, &format!("delete table ip {}\n", self.table));
    }
}

/// Installs the rules that balance connections to [`SERVICE`] over the backends.
///
/// # Errors
/// If the experiment is not in its own namespace.
pub(super) fn start(kind: TargetKind, setting: &Setting<'_>) -> Result<Target> {
    let rules = Rules::install(SERVICE, &balance(setting.backends))?;
    Ok(Target { addresses: vec![SERVICE], ..Target::of(kind) }.with_rules(rules))
}

/// Redirects connections to other addresses, until the returned value is dropped. The port of `service` names the
/// table, so the other tables in force must have other ports.
///
/// # Errors
/// If the experiment is not in its own namespace.
pub(super) fn redirect(service: SocketAddr, redirections: &[Redirection]) -> Result<Rules> {
    Rules::install(service, &redirections.iter().map(Redirection::rule).collect::<String>())
}

/// Returns the address of the Pod with this number, from 0. It is a local address of the namespace.
pub(super) fn pod_ip(number: usize) -> IpAddr {
    Ipv4Addr::from(u32::from(FIRST_POD) + number as u32).into()
}

/// Returns the ClusterIP with a port that no other target uses.
pub(super) fn service_address() -> Result<SocketAddr> {
    Ok(SocketAddr::from((CLUSTER_IP, free_address()?.port())))
}

impl Rules {
    /// Installs `rules` in a table whose name contains the port of `service`.
    fn install(service: SocketAddr, rules: &str) -> Result<Self> {
        let name = format!("leno-lab-{}", service.port());
        let table = table(&name, rules);
        Self::load(name, &table)
    }

    /// Installs a table. `name` must be its name, with which it is deleted later.
    ///
    /// # Errors
    /// If the experiment is not in its own namespace, or the kernel rejects the table.
    pub(super) fn load(name: String, table: &str) -> Result<Self> {
        ensure_inside()?;
        let nft_program = program("nft")?;
        nft(&nft_program, table)?;
        Ok(Self { nft: nft_program, table: name })
    }
}

impl Redirection {
    fn rule(&self) -> String {
        rule(self.from, &format!("dnat to {}", self.to))
    }
}

/// The versions of nft and of the kernel, which executes the rules.
///
/// # Errors
/// If a program is missing, or if a test in a temporary namespace fails: the kernel forbids namespaces or rejects the
/// rules.
pub(super) fn version() -> Result<String> {
    let (ip, nft) = (program("ip")?, program("nft")?);
    let namespace = namespace()?;
    let script = "\"$0\" link set lo up && \"$1\" -f -";
    let mut command = Command::new(&namespace.program);
    command.args(namespace.args).args(["sh", "-ec", script]).args([&ip, &nft]);
    let any_backend = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    run(TRIAL, command, &table("leno-lab", &balance(&[any_backend])))?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(io_error("reading the kernel's release"))?;
    Ok(format!("{}, Linux {}", version_line("nft", &nft, &["--version"])?, kernel.trim()))
}

/// Whether this process runs in the namespace that [`enter`] created.
pub(crate) fn is_inside() -> bool {
    let outside = std::env::var_os(OUTSIDE);
    outside.is_some_and(|outside| own_namespace().is_ok_and(|own| own.as_os_str() != outside))
}

/// Fails if this process is not in the namespace that [`enter`] created. Otherwise, the lab would change the rules,
/// links and addresses of the machine itself.
pub(super) fn ensure_inside() -> Result<()> {
    if is_inside() {
        return Ok(());
    }
    let what = "netfilter rules need a network namespace of their own; use leno lab run";
    Err(Error::Usage(what.to_owned()))
}

/// Restarts this program, with the same arguments, in its own network namespace.
///
/// The process keeps its id and its terminal: Ctrl-C works as before.
pub(crate) fn enter() -> Error {
    let become_it = || -> Result<io::Error> {
        let namespace = namespace()?;
        let leno = std::env::current_exe().map_err(io_error("finding leno's own executable"))?;
        let outside = own_namespace().map_err(io_error(OWN_NAMESPACE))?;
        let mut command = Command::new(&namespace.program);
        command.args(namespace.args).arg(leno).args(std::env::args_os().skip(1)).env(OUTSIDE, outside);
        Ok(command.exec())
    };
    become_it().map_or_else(|error| error, io_error("starting unshare"))
}

/// Makes loopback, the ClusterIP and the Pods' addresses reachable in the namespace. Has no effect if a previous
/// experiment of the same process has already done this.
pub(crate) fn set_up_namespace() -> Result<()> {
    // If an address is added to a loopback device, all addresses with the same prefix become local.
    let (cluster_ip, pods) = (format!("{CLUSTER_IP}/32"), format!("{FIRST_POD}/{POD_PREFIX}"));
    let link_up: [&str; 4] = ["link", "set", "lo", "up"];
    let address = |address| ["address", "replace", address, "dev", "lo"];
    [&link_up[..], &address(&cluster_ip)[..], &address(&pods)[..]].into_iter().try_for_each(ip)
}

/// Runs `ip` with these arguments in the experiment's namespace.
pub(super) fn ip(args: &[&str]) -> Result<()> {
    let mut command = Command::new(program("ip")?);
    command.args(args);
    run(&format!("ip {}, in the network namespace of the experiment", args.join(" ")), command, "")
}

/// The program `unshare` and its arguments, which include a new user namespace unless the user is root.
struct Namespace {
    program: PathBuf,
    args: &'static [&'static str],
}

fn namespace() -> Result<Namespace> {
    let is_root = rustix::process::geteuid().is_root();
    let args: &[&str] = if is_root { &["--net", "--"] } else { &["--user", "--map-root-user", "--net", "--"] };
    Ok(Namespace { program: program("unshare")?, args })
}

fn own_namespace() -> io::Result<PathBuf> {
    fs::read_link(OWN_NAMESPACE)
}

/// Returns the path of a program that sets up namespaces, links or rules.
pub(super) fn program(name: &'static str) -> Result<PathBuf> {
    find_program(name).ok_or(Error::MissingProgram { program: name, install: INSTALL })
}

/// Returns the rule that chooses a backend for each connection to [`SERVICE`].
fn balance(backends: &[SocketAddr]) -> String {
    let choices: Vec<String> = backends
        .iter()
        .enumerate()
        .map(|(number, backend)| format!("{number} : {} . {}", backend.ip(), backend.port()))
        .collect();
    let (count, choices) = (choices.len(), choices.join(", "));
    rule(SERVICE, &format!("dnat to numgen random mod {count} map {{ {choices} }}"))
}

/// Returns a rule that applies `verdict` to connections to `destination`.
pub(super) fn rule(destination: SocketAddr, verdict: &str) -> String {
    format!("        ip daddr {} tcp dport {} {verdict}\n", destination.ip(), destination.port())
}

/// Returns a table with `rules`. As in kube-proxy, the rules are in the chain for connections that local processes
/// open, because the clients run on this machine.
fn table(name: &str, rules: &str) -> String {
    format!(
        "\
table ip {name} {{
    chain output {{
        type nat hook output priority -100;
{rules}    }}
}}
"
    )
}

fn nft(program: &Path, rules: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.args([OsStr::new("-f"), OsStr::new("-")]);
    run("nft", command, rules)
}

/// Runs a command that must succeed, with `input` on its standard input.
fn run(what: &str, mut command: Command, input: &str) -> Result<()> {
    let mut run = || -> io::Result<Output> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // Ignore an error: it means that the command ended early. The command's output contains the reason.
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait_with_output()
    };
    let output = run().map_err(io_error(what))?;
    if output.status.success() {
        return Ok(());
    }
    let said = last_line(&[output.stdout, output.stderr].concat());
    Err(io_error(what)(io::Error::other(said)))
}

#[cfg(test)]
#[path = "l4_tests.rs"]
mod tests;
