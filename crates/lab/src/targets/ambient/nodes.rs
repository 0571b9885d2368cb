//! The two nodes of a mesh with ztunnels. Each node is a network namespace that a link connects to the experiment's
//! namespace.
//!
//! ztunnel listens on fixed ports, so each ztunnel needs a namespace of its own. The load, the waypoint and the servers
//! stay in the experiment's namespace. Connections take this path; at `=>`, netfilter rules redirect them:
//!
//! ```text
//! load -> Service => client's ztunnel -> waypoint -> Pod's HBONE port, servers' ztunnel -> Pod => backend
//! ```

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::super::Setting;
use super::super::l4::{self, Rules};
use super::network::{LINK_PREFIX, Network, Node, OUTBOUND_PORT};
use crate::child::{Child, Launch};
use crate::error::{Result, io};

/// The hooks of the netfilter chains. The priorities are those that netfilter defines for NAT.
const PREROUTING: &str = "prerouting priority -100";
const OUTPUT: &str = "output priority -100";
const POSTROUTING: &str = "postrouting priority 100";
/// The file in which the kernel lists the links of the experiment's namespace.
const LINKS: &str = "/proc/self/net/dev";

/// Returns the command that creates a node's namespace, sets it up, and then executes `program` in it. One process
/// performs all three steps, so its id stays the same. The namespace ends with the process.
///
/// # Errors
/// If a program is missing, or if the rules cannot be written to a file.
pub(super) fn launch(
    network: Network,
    node: Node,
    (name, program): (&str, &Path),
    setting: &Setting<'_>,
) -> Result<Launch> {
    let [unshare, ip, nft] = ["unshare", "ip", "nft"].map(l4::program);
    let (unshare, ip, nft) = (unshare?, ip?, nft?);
    let rules = setting.dir.join(format!("{name}.nft"));
    let text = node_rules(network, node, setting.backends);
    fs::write(&rules, text).map_err(io(format!("writing {}", rules.display())))?;
    let script = script(network, node, setting.backends, std::process::id());
    let words = ["--net", "--", "sh", "-ec", &script].map(Into::into);
    let files = [&ip, &nft, &rules, program].map(|path: &Path| path.as_os_str().to_owned());
    Ok(Launch::new(name, unshare, words.into_iter().chain(files)).on_cpus(setting.cpus))
}

/// Waits until each node has created its link, and then sets up the experiment's end of the link. Then installs the
/// experiment's rules.
///
/// # Errors
/// If a node has ended, or if the kernel rejects the addresses or the rules.
pub(super) fn connect(network: Network, nodes: [(Node, &mut Child); 2], backends: &[SocketAddr]) -> Result<Rules> {
    for (node, child) in nodes {
        child.wait_until(network.readiness(node), || has_link(&network.link(node)))?;
        // If the node has ended, its link is gone, and the setup fails. In this case, return the node's own error
        // instead.
        set_up_link(network, node).or_else(|error| child.ensure_running().and(Err(error)))?;
    }
    let (service, node) = (network.service().ip().to_string(), network.node(Node::Client).to_string());
    l4::ip(&["route", "add", &service, "via", &node])?;
    Rules::load(network.table(), &experiment_rules(network, backends))
}

fn set_up_link(network: Network, node: Node) -> Result<()> {
    let link = network.link(node);
    let waypoint = (node == Node::Client).then_some(network.waypoint().ip());
    // Add the experiment's own address before the waypoint's: the kernel uses the link's first address as the source
    // address of the load's connections.
    for own in [network.experiment(node)].into_iter().chain(waypoint) {
        l4::ip(&["address", "add", &with_prefix(own), "dev", &link])?;
    }
    // Let the link carry loopback addresses: the servers listen on them, and the clients of a large load connect from
    // them.
    let path = format!("/proc/sys/net/ipv4/conf/{link}/route_localnet");
    fs::write(&path, "1").map_err(io(format!("writing {path}")))?;
    l4::ip(&["link", "set", &link, "up"])
}

fn has_link(name: &str) -> bool {
    let links = fs::read_to_string(LINKS).unwrap_or_default();
    links.lines().any(|line| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
}

/// The shell commands with which a node's process sets up its namespace. They create the link, and move its other end
/// into the namespace of the process with the id `experiment`.
fn script(network: Network, node: Node, backends: &[SocketAddr], experiment: u32) -> String {
    let pods = match node {
        Node::Client => Vec::new(),
        Node::Servers => network.pods(backends),
    };
    let own = std::iter::once(network.node(node)).chain(pods.iter().map(SocketAddr::ip));
    let addresses: String = own.map(|own| format!("\"$0\" address add {} dev eth0\n", with_prefix(own))).collect();
    let link = network.link(node);
    format!(
        "\"$0\" link set lo up\n\
         \"$0\" link add eth0 type veth peer name {link} netns {experiment}\n\
         {addresses}\
         \"$0\" link set eth0 up\n\
         \"$1\" -f \"$2\"\n\
         exec \"$3\"\n"
    )
}

fn with_prefix(address: IpAddr) -> String {
    format!("{address}/{LINK_PREFIX}")
}

/// The netfilter rules of a node.
fn node_rules(network: Network, node: Node, backends: &[SocketAddr]) -> String {
    let chain = match node {
        Node::Client => {
            let service = network.service();
            let verdict = format!("redirect to :{OUTBOUND_PORT}");
            (PREROUTING, l4::rule(service, &verdict))
        }
        Node::Servers => {
            let verdict = format!("dnat to {}", network.experiment(node));
            (OUTPUT, network.pods(backends).into_iter().map(|pod| l4::rule(pod, &verdict)).collect())
        }
    };
    table(&network.table(), &[chain])
}

/// The netfilter rules of the experiment's namespace.
fn experiment_rules(network: Network, backends: &[SocketAddr]) -> String {
    let at_experiment = |backend: &SocketAddr| SocketAddr::new(network.experiment(Node::Servers), backend.port());
    let to_backends = backends.iter().map(|backend| l4::rule(at_experiment(backend), &format!("dnat to {backend}")));
    let from_loopback = format!("        oifname \"{}\" ip saddr 127.0.0.0/8 masquerade\n", network.link(Node::Client));
    table(&network.table(), &[(PREROUTING, to_backends.collect()), (POSTROUTING, from_loopback)])
}

fn table(name: &str, chains: &[(&str, String)]) -> String {
    let chain = |(number, (hook, rules)): (usize, &(&str, String))| {
        format!("    chain nat-{number} {{\n        type nat hook {hook}; policy accept;\n{rules}    }}\n")
    };
    let chains: String = chains.iter().enumerate().map(chain).collect();
    format!("table ip {name} {{\n{chains}}}\n")
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
