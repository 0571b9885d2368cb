//! The source address of a connection. If the peer has not proved an identity, its connections are counted by this
//! address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A peer, identified by its IPv4 address or by the /64 network of its IPv6 address. One host may use every address of
/// a /64 network (RFC 4291 section 2.5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(IpAddr);

impl Source {
    /// Returns the account of an address. An IPv4-mapped IPv6 address is treated as the IPv4 address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(v4.into()),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                Self(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(v4) => v4.fmt(f),
            IpAddr::V6(v6) => write!(f, "{v6}/64"),
        }
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
