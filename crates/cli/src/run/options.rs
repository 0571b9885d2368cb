use std::ffi::OsString;
use std::fmt;
use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

use leno_model::spiffe::{TrustDomain, Workload};

/// Maximum length of a bridge name, in bytes. A run's device has this name, a dash and at most five digits, and the
/// kernel limits the names of devices to 15 bytes.
const BRIDGE_NAME_MAX_BYTES: usize = 9;

/// Options of `leno run`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Service that the program belongs to
    #[arg(long, value_name = "NAME", value_parser = parse_name, required_unless_present = "clean")]
    pub(super) service: Option<String>,
    /// Namespace of the service
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = parse_name)]
    pub(super) namespace: String,
    /// Service account of the program's identity [default: the service's name]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(super) service_account: Option<String>,
    /// A port on which the program serves; may be repeated
    #[arg(long = "port", value_name = "PORT")]
    pub(super) ports: Vec<NonZeroU16>,
    /// Directory of more manifests for the whole mesh, such as AuthorizationPolicies or Services elsewhere; *.yaml,
    /// *.yml, *.json; watched
    #[arg(long, value_name = "DIR")]
    pub(super) config: Option<PathBuf>,
    /// Certificate authority, as leno ca init makes it [default: one that the runs share; the first run makes it]
    #[arg(long, value_name = "DIR")]
    pub(super) issuer: Option<PathBuf>,
    /// Trust domain of the certificate authority that the first run makes
    #[arg(long, value_name = "NAME", default_value = "cluster.local")]
    pub(super) trust_domain: TrustDomain,
    /// Directory that the runs of one mesh share
    #[arg(long, value_name = "DIR", default_value = "/run/leno")]
    pub(super) state: PathBuf,
    /// Bridge that connects the runs; each --state needs a bridge of its own
    #[arg(long, value_name = "NAME", default_value = "leno0", value_parser = parse_bridge)]
    pub(super) bridge: String,
    /// Network of the runs' addresses; the bridge has the first address
    #[arg(long, value_name = "CIDR", default_value = "10.244.77.0/24")]
    pub(super) subnet: Subnet,
    /// Network of the services' addresses; no machine may have an address in it
    #[arg(long, value_name = "CIDR", default_value = "10.244.78.0/24")]
    pub(super) service_subnet: Subnet,
    /// File for the proxy's log [default: a file that is removed with the run]
    #[arg(long, value_name = "FILE")]
    pub(super) proxy_log: Option<PathBuf>,
    /// One more argument for the proxy, as --proxy-arg=--access-log=json; may be repeated
    #[arg(long = "proxy-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub(super) proxy_args: Vec<OsString>,
    /// Only remove what killed runs left behind
    #[arg(long, conflicts_with = "service")]
    pub(super) clean: bool,
    /// The program, and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "clean",
        value_name = "PROGRAM"
    )]
    pub(super) program: Vec<OsString>,
}

impl Options {
    /// The identity of the program's proxy. Without --service-account, it is named after `service`.
    pub(super) fn workload(&self, service: &str) -> Workload {
        let service_account = self.service_account.as_deref().unwrap_or(service);
        Workload { namespace: self.namespace.as_str().into(), service_account: service_account.into() }
    }
}

/// An IPv4 network of 14 to 65534 hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subnet {
    /// The network address: all host bits are zero.
    address: Ipv4Addr,
    /// Prefix length: 16 to 28 bits.
    prefix_bits: u8,
}

impl Subnet {
    /// Number of hosts; they are numbered from 1.
    pub(super) fn hosts(self) -> u16 {
        // 16 to 28 bits leave 4 to 16 host bits: 14 to 65534 hosts.
        u16::try_from((1_u32 << (32 - u32::from(self.prefix_bits))) - 2).unwrap_or(u16::MAX - 1)
    }

    pub(super) fn host(self, number: u16) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | u32::from(number))
    }

    /// The prefix length.
    pub(super) fn prefix_bits(self) -> u8 {
        self.prefix_bits
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write an IPv4 network with a prefix of 16 to 28 bits, such as 10.244.77.0/24";
        let (address, prefix_bits) = text.split_once('/').ok_or(FORM)?;
        let address: Ipv4Addr = address.parse().map_err(|_| FORM)?;
        let prefix_bits: u8 = prefix_bits.parse().ok().filter(|bits| (16..=28).contains(bits)).ok_or(FORM)?;
        let host_bits: u32 = u32::MAX >> prefix_bits;
        if address.to_bits() & host_bits != 0 {
            let network = Ipv4Addr::from_bits(address.to_bits() & !host_bits);
            return Err(format!("{address} is a host in that network; write {network}/{prefix_bits}"));
        }
        Ok(Self { address, prefix_bits })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

/// Parses a DNS label, as Kubernetes defines it.
fn parse_name(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_name = (1..=63).contains(&text.len()) && text.bytes().all(allowed);
    if is_name && !text.starts_with('-') && !text.ends_with('-') {
        return Ok(text.to_owned());
    }
    Err("use at most 63 lower-case letters, digits and dashes, with no dash first or last".to_owned())
}

fn parse_bridge(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if (1..=BRIDGE_NAME_MAX_BYTES).contains(&text.len()) && text.bytes().all(allowed) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err(format!("use at most {BRIDGE_NAME_MAX_BYTES} letters, digits, dashes and underscores"))
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
