//! Finds the ports on which a network namespace listens, without connecting to them.

use std::fs;

/// The state of a listening socket in proc_pid_net(5): TCP_LISTEN.
const LISTEN: &str = "0A";

/// Returns the TCP ports in `ports` on which no process listens in the network namespace of `pid`.
pub(super) fn unserved(pid: u32, ports: &[u16]) -> Vec<u16> {
    // Ignore a missing file: a kernel without IPv6 has only the table for IPv4.
    let tables =
        ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    let is_served = |port: &u16| tables.iter().any(|table| has_listener(table, *port));
    ports.iter().copied().filter(|port| !is_served(port)).collect()
}

fn has_listener(table: &str, port: u16) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, _remote, state) = (fields.next(), fields.next(), fields.next());
        let local = local.and_then(|address| address.rsplit_once(':'));
        let local_port = local.and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        state == Some(LISTEN) && local_port == Some(port)
    })
}

#[cfg(test)]
#[path = "listening_tests.rs"]
mod tests;
