//! The rules in iptables' notation: two chains of our own in the nat table, and one jump to each.
//!
//! Reads existing rules from iptables-save, and writes input for iptables-restore --noflush, which applies either the
//! whole input or nothing.

use std::fmt::Write as _;

use leno_intercept::Redirection;

const INBOUND: &str = "LENO_INBOUND";
const OUTBOUND: &str = "LENO_OUTBOUND";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// Returns the input for iptables-restore that loads the rules and replaces our earlier rules, which are in `saved`.
pub(super) fn up(options: &Redirection, family: Family, saved: &str) -> String {
    let mut text = format!("*nat\n:{INBOUND} - [0:0]\n:{OUTBOUND} - [0:0]\n");
    for jump in jumps(saved) {
        line(&mut text, &format!("-D {jump}"));
    }
    for rule in inbound(options) {
        line(&mut text, &format!("-A {INBOUND} {rule}"));
    }
    for rule in outbound(options, family) {
        line(&mut text, &format!("-A {OUTBOUND} {rule}"));
    }
    // Insert our jumps at the start of PREROUTING and OUTPUT, before other rules can change the address that the
    // application called.
    line(&mut text, &format!("-I PREROUTING -p tcp -j {INBOUND}"));
    line(&mut text, &format!("-I OUTPUT -p tcp -j {OUTBOUND}"));
    text.push_str("COMMIT\n");
    text
}

/// Returns the input for iptables-restore that removes our rules, which are in `saved`; `None` if `saved` has none.
pub(super) fn down(saved: &str) -> Option<String> {
    let chains = [INBOUND, OUTBOUND].map(|chain| format!(":{chain} "));
    let chains: Vec<&str> = nat(saved).filter(|line| chains.iter().any(|chain| line.starts_with(chain))).collect();
    if chains.is_empty() {
        return None;
    }
    let mut text = String::from("*nat\n");
    for jump in jumps(saved) {
        line(&mut text, &format!("-D {jump}"));
    }
    for chain in chains {
        let name = chain.trim_start_matches(':').split(' ').next().unwrap_or_default();
        line(&mut text, &format!("-F {name}\n-X {name}"));
    }
    text.push_str("COMMIT\n");
    Some(text)
}

/// Our rules in `saved`.
pub(super) fn rules(saved: &str) -> impl Iterator<Item = &str> {
    nat(saved).filter(|line| line.starts_with("-A ") && line.contains("LENO_"))
}

fn inbound(options: &Redirection) -> Vec<String> {
    let mut rules = vec!["-i lo -j RETURN".to_owned(), "-m addrtype ! --dst-type LOCAL -j RETURN".to_owned()];
    rules.extend(options.proxy_ports().map(|port| format!("-p tcp --dport {port} -j RETURN")));
    let skipped = options.skip_inbound_ports.iter();
    rules.extend(skipped.map(|range| format!("-p tcp --dport {}:{} -j RETURN", range.first, range.last)));
    rules.push(format!("-p tcp --syn -j REDIRECT --to-ports {}", options.inbound_port));
    rules
}

fn outbound(options: &Redirection, family: Family) -> Vec<String> {
    let mut rules = vec![format!("-m owner --uid-owner {} -j RETURN", options.proxy_uid), "-o lo -j RETURN".to_owned()];
    let ports = options.skip_outbound_ports.iter();
    rules.extend(ports.map(|range| format!("-p tcp --dport {}:{} -j RETURN", range.first, range.last)));
    let subnets = options.skip_subnets.iter().filter(|s| s.address.is_ipv4() == (family == Family::V4));
    rules.extend(subnets.map(|subnet| format!("-d {subnet} -j RETURN")));
    rules.push(format!("-p tcp --syn -j REDIRECT --to-ports {}", options.outbound_port));
    rules
}

/// The jumps to our chains, each as `<chain> <match> -j <our chain>`.
fn jumps(saved: &str) -> impl Iterator<Item = &str> {
    let is_jump = |rule: &&str| rule.ends_with(" -j LENO_INBOUND") || rule.ends_with(" -j LENO_OUTBOUND");
    nat(saved).filter_map(|line| line.strip_prefix("-A ")).filter(is_jump)
}

/// The lines of the nat table in the output of iptables-save.
fn nat(saved: &str) -> impl Iterator<Item = &str> {
    saved.lines().skip_while(|line| *line != "*nat").take_while(|line| *line != "COMMIT")
}

fn line(text: &mut String, rule: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{rule}");
}

#[cfg(test)]
#[path = "iptables_tests.rs"]
mod tests;
