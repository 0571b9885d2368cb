//! The rules in iptables' notation: two chains of our own in the table nat, two in the table security, and a jump to each
//! chain.
//!
//! Reads existing rules from iptables-save, and writes input for iptables-restore --noflush, which applies the input
//! table by table, and each table either wholly or not at all.

use std::fmt::Write as _;
use std::iter;

use leno_intercept::{LINK_LOCAL, PortRange, Redirection};

const INBOUND: &str = "LENO_INBOUND";
const INBOUND_GUARD: &str = "LENO_INBOUND_GUARD";
const OUTBOUND: &str = "LENO_OUTBOUND";
const OUTBOUND_GUARD: &str = "LENO_OUTBOUND_GUARD";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// A table of iptables with our chains in it.
struct Table {
    name: &'static str,
    chains: &'static [Chain],
}

/// One of our chains.
struct Chain {
    name: &'static str,
    /// The chain of iptables that jumps to ours, and the packets that it sends there.
    from: &'static str,
}

const NAT: Table = Table {
    name: "nat",
    chains: &[Chain { name: INBOUND, from: "PREROUTING -p tcp" }, Chain { name: OUTBOUND, from: "OUTPUT -p tcp" }],
};

/// The guards are in security, which runs after nat in OUTPUT, and after filter. A firewall that flushes filter, or
/// inserts a rule there that accepts a packet, does not change what the guards drop.
const SECURITY: Table = Table {
    name: "security",
    chains: &[
        Chain { name: INBOUND_GUARD, from: "INPUT -p tcp --tcp-flags SYN,ACK SYN" },
        Chain { name: OUTBOUND_GUARD, from: "OUTPUT -p tcp --tcp-flags SYN,ACK SYN" },
    ],
};

/// Returns the input for iptables-restore that loads the rules and replaces our earlier rules, which are in `saved`.
///
/// The guards are loaded last, and [`down`] removes them first: without the redirection, they would drop all connections.
pub(super) fn up(options: &Redirection, family: Family, saved: &str) -> String {
    let redirection = [(INBOUND, inbound(options)), (OUTBOUND, outbound(options, family))];
    let guards = [(INBOUND_GUARD, inbound_guard(options)), (OUTBOUND_GUARD, outbound_guard(options, family))];
    NAT.loading(saved, &redirection) + &SECURITY.loading(saved, &guards)
}

/// Returns the input for iptables-restore that removes our rules, which are in `saved`; `None` if `saved` has none.
pub(super) fn down(saved: &str) -> Option<String> {
    let removal = [SECURITY, NAT].map(|table| table.removal(saved)).concat();
    Some(removal).filter(|removal| !removal.is_empty())
}

/// Our rules in `saved`, each with the name of its table.
pub(super) fn rules(saved: &str) -> impl Iterator<Item = (&'static str, &str)> {
    [NAT, SECURITY].into_iter().flat_map(move |table| table.rules(saved).map(move |rule| (table.name, rule)))
}

impl Table {
    fn loading(&self, saved: &str, rules: &[(&str, Vec<String>)]) -> String {
        let mut text = format!("*{}\n", self.name);
        for chain in self.chains {
            line(&mut text, &format!(":{} - [0:0]", chain.name));
        }
        for jump in self.jumps(saved) {
            line(&mut text, &format!("-D {jump}"));
        }
        for (chain, rules) in rules {
            for rule in rules {
                line(&mut text, &format!("-A {chain} {rule}"));
            }
        }
        // Insert our jumps at the start of iptables' chains: before other rules can change the address that the
        // application called (nat), or accept the packet (security).
        for chain in self.chains {
            line(&mut text, &format!("-I {} -j {}", chain.from, chain.name));
        }
        text.push_str("COMMIT\n");
        text
    }

    /// Returns empty text if the table has no chain of ours.
    fn removal(&self, saved: &str) -> String {
        let is_loaded = |chain: &&Chain| self.lines(saved).any(|line| line.starts_with(&format!(":{} ", chain.name)));
        let chains: Vec<&Chain> = self.chains.iter().filter(is_loaded).collect();
        if chains.is_empty() {
            return String::new();
        }
        let mut text = format!("*{}\n", self.name);
        for jump in self.jumps(saved) {
            line(&mut text, &format!("-D {jump}"));
        }
        for Chain { name, .. } in chains {
            line(&mut text, &format!("-F {name}\n-X {name}"));
        }
        text.push_str("COMMIT\n");
        text
    }

    /// The rules of our chains, and the jumps to our chains.
    fn rules<'a>(&self, saved: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let chains = self.chains;
        let is_ours =
            move |chain: &Chain, rule: &str| rule.starts_with(&format!("-A {} ", chain.name)) || chain.is_target(rule);
        self.lines(saved).filter(move |line| line.starts_with("-A ") && chains.iter().any(|chain| is_ours(chain, line)))
    }

    /// The jumps to our chains, each as `<chain> <match> -j <our chain>`.
    fn jumps<'a>(&self, saved: &'a str) -> impl Iterator<Item = &'a str> {
        let chains = self.chains;
        let is_jump = move |rule: &&str| chains.iter().any(|chain| chain.is_target(rule));
        self.lines(saved).filter_map(|line| line.strip_prefix("-A ")).filter(is_jump)
    }

    /// The lines of the table in the output of iptables-save.
    fn lines<'a>(&self, saved: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let name = self.name;
        let is_before = move |line: &&str| line.strip_prefix('*') != Some(name);
        saved.lines().skip_while(is_before).take_while(|line| *line != "COMMIT")
    }
}

impl Chain {
    /// Whether the rule jumps to the chain.
    fn is_target(&self, rule: &str) -> bool {
        rule.ends_with(&format!(" -j {}", self.name))
    }
}

fn inbound(options: &Redirection) -> Vec<String> {
    let mut rules = vec!["-i lo -j RETURN".to_owned(), "-m addrtype ! --dst-type LOCAL -j RETURN".to_owned()];
    rules.extend(open_ports(options));
    rules.push(format!("-p tcp --syn -j REDIRECT --to-ports {}", options.inbound_port));
    rules
}

/// Drops each first packet of a connection from outside that has not been redirected, as the chain `inbound_guard` of
/// [`leno_intercept`] does.
fn inbound_guard(options: &Redirection) -> Vec<String> {
    let mut rules = vec!["-i lo -j RETURN".to_owned()];
    rules.extend(open_ports(options));
    rules.push("-j DROP".to_owned());
    rules
}

/// Returns from the chain for the ports that clients reach without a redirection.
fn open_ports(options: &Redirection) -> impl Iterator<Item = String> {
    let own = options.proxy_ports().into_iter().map(|port| format!("-p tcp --dport {port} -j RETURN"));
    own.chain(options.skip_inbound_ports.iter().map(skip_ports))
}

fn skip_ports(range: &PortRange) -> String {
    format!("-p tcp --dport {}:{} -j RETURN", range.first, range.last)
}

fn outbound(options: &Redirection, family: Family) -> Vec<String> {
    let mut rules = direct_calls(options, family);
    rules.push(format!("-p tcp --syn -j REDIRECT --to-ports {}", options.outbound_port));
    rules
}

/// Drops each first packet of an outbound connection that has not been redirected, as the chain `outbound_guard` of
/// [`leno_intercept`] does.
fn outbound_guard(options: &Redirection, family: Family) -> Vec<String> {
    let mut rules = direct_calls(options, family);
    rules.push("-m addrtype ! --dst-type LOCAL -j DROP".to_owned());
    rules
}

/// Returns from the chain for the connections that leave this namespace without the proxy, and for loopback.
fn direct_calls(options: &Redirection, family: Family) -> Vec<String> {
    let mut rules = vec![format!("-m owner --uid-owner {} -j RETURN", options.proxy_uid), "-o lo -j RETURN".to_owned()];
    rules.extend(options.skip_outbound_ports.iter().map(skip_ports));
    let subnets = iter::once(&LINK_LOCAL).chain(&options.skip_subnets);
    let subnets = subnets.filter(|subnet| subnet.address.is_ipv4() == (family == Family::V4));
    rules.extend(subnets.map(|subnet| format!("-d {subnet} -j RETURN")));
    rules
}

fn line(text: &mut String, rule: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{rule}");
}

#[cfg(test)]
#[path = "iptables_tests.rs"]
mod tests;
