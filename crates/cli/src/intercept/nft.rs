//! The rules for nftables: one table of our own, for both families.

use std::fmt::Write as _;

use leno_intercept::{PortRange, Redirection, Subnet};

/// The table's family and name, as arguments of nft.
pub(super) const TABLE: [&str; 2] = ["inet", "leno"];

/// Removes the table, which must exist.
pub(super) const DOWN: &str = "delete table inet leno\n";

/// One transaction that loads the rules, and replaces our earlier rules if there are any.
///
/// Our chains have a priority just before netfilter's usual one for destination NAT (-100), so that our rules see the
/// address that the application called.
pub(super) fn up(options: &Redirection) -> String {
    let mut inbound = String::new();
    for port in options.proxy_ports() {
        line(&mut inbound, &format!("tcp dport {port} return"));
    }
    options.skip_inbound_ports.iter().for_each(|range| line(&mut inbound, &skip_ports(range)));
    let mut outbound = String::new();
    options.skip_outbound_ports.iter().for_each(|range| line(&mut outbound, &skip_ports(range)));
    options.skip_subnets.iter().for_each(|subnet| line(&mut outbound, &skip_subnet(subnet)));
    let Redirection { proxy_uid, inbound_port, outbound_port, .. } = options;
    format!(
        "\
add table inet leno
delete table inet leno
table inet leno {{
  chain inbound {{
    type nat hook prerouting priority -101; policy accept;
    iifname \"lo\" return
    fib daddr type != local return
{inbound}    meta l4proto tcp redirect to :{inbound_port}
  }}
  chain outbound {{
    type nat hook output priority -101; policy accept;
    meta skuid {proxy_uid} return
    oifname \"lo\" return
{outbound}    meta l4proto tcp redirect to :{outbound_port}
  }}
}}
"
    )
}

fn line(chain: &mut String, rule: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(chain, "    {rule}");
}

fn skip_ports(range: &PortRange) -> String {
    match (range.first, range.last) {
        (first, last) if first == last => format!("tcp dport {first} return"),
        (first, last) => format!("tcp dport {first}-{last} return"),
    }
}

fn skip_subnet(subnet: &Subnet) -> String {
    let family = if subnet.address.is_ipv4() { "ip" } else { "ip6" };
    format!("{family} daddr {subnet} return")
}

#[cfg(test)]
#[path = "nft_tests.rs"]
mod tests;
