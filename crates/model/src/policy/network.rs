//! Sets of addresses, as written in a policy.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A range of addresses with a common prefix, for example `10.0.0.0/8` or `fd00::/8`. A single address is a network
/// too.
///
/// Invariant: the bits after the prefix are zero, and IPv4 is not mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix_bits: u8,
}

/// Error: a text is not a network. The message says what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNetwork {
    /// The text is not an address with an optional prefix length.
    #[error("write an address and the bits of its prefix, for example 10.0.0.0/8 or fd00::/8")]
    Form,
    /// The address has non-zero bits after the prefix: either the address or the prefix length may be the mistake.
    #[error("write {0} for the network, or the address without a prefix for itself")]
    Beyond(Network),
    /// The address is IPv4 mapped into IPv6, a form that callers' addresses never have.
    #[error("write it as IPv4")]
    Mapped,
}

impl Network {
    /// Returns the first address: all bits after the prefix are zero.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The prefix length.
    pub fn prefix_bits(&self) -> u8 {
        self.prefix_bits
    }

    /// Returns whether the network contains `address`; a mapped IPv4 address is treated as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        masked(address.to_canonical(), self.prefix_bits) == Some(self.first)
    }
}

/// Returns the address with the bits after the prefix cleared; `None` if the prefix is longer than the address.
fn masked(address: IpAddr, prefix_bits: u8) -> Option<IpAddr> {
    let prefix_bits = u32::from(prefix_bits);
    match address {
        IpAddr::V4(v4) => {
            let beyond_bits = u32::BITS.checked_sub(prefix_bits)?;
            let mask = u32::MAX.checked_shl(beyond_bits).unwrap_or(0);
            Some(IpAddr::V4((v4.to_bits() & mask).into()))
        }
        IpAddr::V6(v6) => {
            let beyond_bits = u128::BITS.checked_sub(prefix_bits)?;
            let mask = u128::MAX.checked_shl(beyond_bits).unwrap_or(0);
            Some(IpAddr::V6((v6.to_bits() & mask).into()))
        }
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| BadNetwork::Form)?;
        if address != address.to_canonical() {
            return Err(BadNetwork::Mapped);
        }
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            None => whole,
            // Reject a plus sign, which `parse` would accept.
            Some(digits) if digits.starts_with('+') => return Err(BadNetwork::Form),
            Some(digits) => digits.parse().ok().filter(|bits| *bits <= whole).ok_or(BadNetwork::Form)?,
        };
        let network = Self { first: masked(address, prefix_bits).ok_or(BadNetwork::Form)?, prefix_bits };
        if network.first == address { Ok(network) } else { Err(BadNetwork::Beyond(network)) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
