//! Properties of every proxy that several programs must agree on: its ports, its user, and the ranges of its options.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Default port on which the proxy accepts connections that its application opens.
pub const OUTBOUND_PORT: u16 = 4140;
/// Default port on which the proxy accepts connections from other workloads.
pub const INBOUND_PORT: u16 = 4143;
/// Default port of the admin endpoint.
pub const ADMIN_PORT: u16 = 4191;
/// Default port of the tap server, with which other workloads can watch the proxy's calls. Callers need an identity,
/// and an AuthorizationPolicy must name the port and the caller.
pub const TAP_PORT: u16 = 4190;
/// The port for opaque connections from other proxies, the same port as in HBONE. Only the manifests of endpoints
/// outside a cluster can name another port.
pub const TUNNEL_PORT: u16 = 15_008;
/// The ID of the user that runs a proxy. The redirection recognizes the proxy's own connections by this user. No entry
/// in /etc/passwd is needed.
pub const UID: u32 = 2102;

/// Maximum number of worker threads. Measurements showed no gain from more threads.
pub const WORKERS_MAX: u16 = 64;
/// Longest grace period: the time in which calls in flight may finish.
pub const GRACE_MAX: Duration = Duration::from_secs(3_600);
/// Default of the cluster networks: the networks that clusters use for the addresses of Pods and Services. The proxy
/// treats no address in these networks as an address outside of the mesh before the control plane has answered about it.
pub const CLUSTER_NETWORKS: &str = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8";
/// Allowed range of the time limit for establishing a connection.
pub const CONNECT_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// Parses a grace period: a whole number and a unit, for example `500ms`, `30s` or `2m`. `None` if the text is
/// malformed or the period is longer than [`GRACE_MAX`].
pub fn parse_grace(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(unit_ms).map(Duration::from_millis).filter(|grace| *grace <= GRACE_MAX)
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
