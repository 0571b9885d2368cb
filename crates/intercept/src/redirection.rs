//! The options of the redirection: which connections to redirect, and to which ports.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::str::FromStr;

/// Default port on which the proxy accepts connections from other workloads.
const INBOUND_PORT: NonZeroU16 = NonZeroU16::new(4143).expect("not zero");
/// Default port on which the proxy accepts connections of the application.
const OUTBOUND_PORT: NonZeroU16 = NonZeroU16::new(4140).expect("not zero");
/// Default port of the proxy's admin endpoint.
const ADMIN_PORT: NonZeroU16 = NonZeroU16::new(4191).expect("not zero");
/// The port on which the proxy accepts HBONE tunnels.
const TUNNEL_PORT: u16 = 15008;

/// Command line options of the redirection.
#[derive(clap::Args, Clone, Debug)]
pub struct Redirection {
    /// The user id that the proxy runs as; its connections are not redirected
    #[arg(long, value_name = "UID")]
    pub proxy_uid: u32,
    /// The proxy's port for connections from other workloads
    #[arg(long, value_name = "PORT", default_value_t = INBOUND_PORT)]
    pub inbound_port: NonZeroU16,
    /// The proxy's port for connections of the application
    #[arg(long, value_name = "PORT", default_value_t = OUTBOUND_PORT)]
    pub outbound_port: NonZeroU16,
    /// The proxy's admin port, for probes and Prometheus
    #[arg(long, value_name = "PORT", default_value_t = ADMIN_PORT)]
    pub admin_port: NonZeroU16,
    /// Ports of this namespace that clients reach without the proxy: 22,1000-2000
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pub skip_inbound_ports: Vec<PortRange>,
    /// Ports that the application calls without the proxy: 25,1000-2000
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pub skip_outbound_ports: Vec<PortRange>,
    /// Networks that the application calls without the proxy: 192.168.0.0/16,fd00::/8
    #[arg(long, value_name = "CIDRS", value_delimiter = ',')]
    pub skip_subnets: Vec<Subnet>,
}

/// The inbound and the outbound port are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--inbound-port and --outbound-port are both {0}; give the proxy's two sides different ports")]
pub struct SamePort(u16);

/// A range of TCP ports that includes both ends; `first` <= `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: NonZeroU16,
    pub last: NonZeroU16,
}

/// An IP network. `prefix_bits` is at most 32 for IPv4 and 128 for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// An address in the network; the bits after the prefix are ignored.
    pub address: IpAddr,
    pub prefix_bits: u8,
}

impl Redirection {
    /// Returns a redirection to the default ports that skips no ports and no networks.
    pub fn new(proxy_uid: u32) -> Self {
        Self {
            proxy_uid,
            inbound_port: INBOUND_PORT,
            outbound_port: OUTBOUND_PORT,
            admin_port: ADMIN_PORT,
            skip_inbound_ports: Vec::new(),
            skip_outbound_ports: Vec::new(),
            skip_subnets: Vec::new(),
        }
    }

    /// Checks that the options fit together.
    ///
    /// # Errors
    /// If the inbound and the outbound port are the same.
    pub fn check(&self) -> Result<(), SamePort> {
        if self.inbound_port == self.outbound_port { Err(SamePort(self.inbound_port.get())) } else { Ok(()) }
    }

    /// Returns the proxy's own ports, which are not redirected: otherwise the proxy would connect to itself.
    pub fn proxy_ports(&self) -> [u16; 4] {
        [self.inbound_port.get(), self.outbound_port.get(), TUNNEL_PORT, self.admin_port.get()]
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => Err("write ports of 1 to 65535, for example 22 or 1000-2000".to_owned()),
        }
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write a network such as 192.168.0.0/16 or fd00::/8";
        let (address, prefix_bits) = text.split_once('/').ok_or(FORM)?;
        let address: IpAddr = address.parse().map_err(|_| FORM)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = prefix_bits.parse().ok().filter(|bits| *bits <= most).ok_or(FORM)?;
        Ok(Self { address, prefix_bits })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
#[path = "redirection_tests.rs"]
mod tests;
