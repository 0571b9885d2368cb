//! What `leno run` is asked for.

use std::ffi::OsString;
use std::fmt;
use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

use leno_model::spiffe::{TrustDomain, Workload};

/// The longest name that a bridge may have, in bytes: a number of at most five digits is appended for each run, and
/// the kernel takes 15 in all.
const BRIDGE_NAME_MAX_BYTES: usize = 9;

/// Options of `leno run`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// The service that the program belongs to
    #[arg(long, value_name = "NAME", value_parser = parse_name, required_unless_present = "clean")]
    pub(super) service: Option<String>,
    /// The service's namespace
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = parse_name)]
    pub(super) namespace: String,
    /// The service account of the program's identity [default: the service's name]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(super) service_account: Option<String>,
    /// A port that the program serves; may be repeated
    #[arg(long = "port", value_name = "PORT")]
    pub(super) ports: Vec<NonZeroU16>,
    /// More manifests for the whole mesh: AuthorizationPolicy, Services elsewhere; *.yaml, *.yml, *.json; watched
    #[arg(long, value_name = "DIR")]
    pub(super) config: Option<PathBuf>,
    /// The certificate authority, as leno ca init makes it [default: one that the runs share, made by the first]
    #[arg(long, value_name = "DIR")]
    pub(super) issuer: Option<PathBuf>,
    /// The trust domain of the certificate authority that the first run makes
    #[arg(long, value_name = "NAME", default_value = "cluster.local")]
    pub(super) trust_domain: TrustDomain,
    /// What the runs of one mesh share
    #[arg(long, value_name = "DIR", default_value = "/run/leno")]
    pub(super) state: PathBuf,
    /// The bridge that joins them; one for each --state
    #[arg(long, value_name = "NAME", default_value = "leno0", value_parser = parse_bridge)]
    pub(super) bridge: String,
    /// The network of their addresses; the bridge has the first
    #[arg(long, value_name = "CIDR", default_value = "10.244.77.0/24")]
    pub(super) subnet: Subnet,
    /// The network of the services' addresses, which lead to no machine
    #[arg(long, value_name = "CIDR", default_value = "10.244.78.0/24")]
    pub(super) service_subnet: Subnet,
    /// Where the proxy's log goes [default: a file that ends with the run]
    #[arg(long, value_name = "FILE")]
    pub(super) proxy_log: Option<PathBuf>,
    /// One more argument for the proxy, as --proxy-arg=--access-log=json; may be repeated
    #[arg(long = "proxy-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub(super) proxy_args: Vec<OsString>,
    /// Only remove what runs left behind that were killed
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
    /// The identity that the program's proxy shows for `service`.
    pub(super) fn workload(&self, service: &str) -> Workload {
        let service_account = self.service_account.as_deref().unwrap_or(service);
        Workload { namespace: self.namespace.as_str().into(), service_account: service_account.into() }
    }
}

/// An IPv4 network of 14 to 65534 hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subnet {
    /// Its address, all host bits zero.
    address: Ipv4Addr,
    /// How many leading bits its addresses share: 16 to 28.
    prefix_bits: u8,
}

impl Subnet {
    /// How many hosts it has; they are numbered from 1.
    pub(super) fn hosts(self) -> u16 {
        // 16 to 28 bits leave 4 to 16: at least 14 hosts and at most 65534.
        u16::try_from((1_u32 << (32 - u32::from(self.prefix_bits))) - 2).unwrap_or(u16::MAX - 1)
    }

    /// The address of host `number`.
    pub(super) fn host(self, number: u16) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | u32::from(number))
    }

    /// How many leading bits its addresses share.
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

/// A DNS label, as Kubernetes has it.
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
