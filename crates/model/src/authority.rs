//! Parses `:authority` (RFC 9113 section 8.3.1) to find the Service of a call.
//!
//! The bytes come from a peer, so the parser must be fast and safe. A successful parse allocates no memory. An error
//! repeats only host names and numbers from the peer's bytes, so it is safe in a `grpc-message`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The usual DNS domain of a cluster. Proxies do not support other cluster domains.
pub const CLUSTER_DOMAIN: &str = "cluster.local";
/// Maximum length, in bytes, of an authority that [`parse`] accepts. No DNS name is longer.
pub(crate) const AUTHORITY_MAX_BYTES: usize = 255;
/// The port of a call whose authority contains no port (RFC 9110 section 4.2.1).
pub const DEFAULT_PORT: u16 = 80;

/// The reason why a call's `:authority` leads to no cluster. The error text goes to the caller: it is ASCII, and
/// shorter than 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unroutable {
    /// The authority is not `host` or `host:port`.
    #[error("the :authority is not a host name or address with an optional port")]
    NotAnAuthority,
    /// The host does not have the form of a Service's name.
    #[error("{host} is not the name of a Service: use service.namespace or service.namespace.svc.cluster.local")]
    NotAService {
        /// The host, as received.
        host: Box<str>,
    },
    /// No Service has this name.
    #[error("there is no Service {service} in namespace {namespace}: check the :authority, or define it")]
    UnknownService {
        /// The Service's name.
        service: Box<str>,
        /// The Service's namespace.
        namespace: Box<str>,
    },
    /// The control plane has no Service with this name and port. Its answer does not reveal whether the Service exists
    /// with other ports.
    #[error(
        "there is no Service {service} in namespace {namespace} with port {port}: check the :authority, or define it"
    )]
    UnknownServicePort {
        service: Box<str>,
        namespace: Box<str>,
        /// The requested port.
        port: u16,
    },
    /// The Service exists, but does not have this port.
    #[error("Service {service} in namespace {namespace} has no port {port}: write {service}.{namespace}:{known}")]
    UnknownPort {
        service: Box<str>,
        namespace: Box<str>,
        /// The requested port.
        port: u16,
        /// The Service's ports.
        known: KnownPorts,
    },
    /// No Service has this cluster IP and port.
    #[error("no Service has the clusterIP {ip} with port {port}: use a Service's name or clusterIP")]
    UnknownAddress {
        /// The address.
        ip: IpAddr,
        /// The port.
        port: u16,
    },
}

/// The ports of a Service in an error message: a list of the lowest ports, and the number of all ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPorts {
    /// The lowest ports, at most [`KnownPorts::SHOWN_MAX`] of them.
    pub shown: Box<[u16]>,
    /// Number of all ports of the Service.
    pub count: usize,
}

impl KnownPorts {
    /// Maximum number of ports that an error message lists.
    pub const SHOWN_MAX: usize = 8;
}

impl fmt::Display for KnownPorts {
    /// Writes one port (`50051`), several ports (`80 or 443`), or an abbreviated list (`1 or 2 or ... (20 ports)`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, port) in self.shown.iter().enumerate() {
            let or = if index > 0 { " or " } else { "" };
            write!(f, "{or}{port}")?;
        }
        if self.count > self.shown.len() {
            write!(f, " or ... ({} ports)", self.count)?;
        }
        Ok(())
    }
}

/// A parsed authority.
#[derive(Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    pub host: Host<'a>,
    /// The authority's port; [`DEFAULT_PORT`] if the authority names no port.
    pub port: u16,
}

/// The host of an authority. A Service's name keeps the upper and lower case in which it was received.
#[derive(Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// An address.
    Address(IpAddr),
    /// The name of a Service, and its namespace if the authority contains one.
    Service {
        /// The Service's name.
        name: &'a str,
        /// The Service's namespace.
        namespace: Option<&'a str>,
    },
}

/// Parses an authority in a cluster with the DNS domain [`CLUSTER_DOMAIN`].
///
/// # Errors
/// [`Unroutable::NotAnAuthority`] and [`Unroutable::NotAService`].
pub fn parse(authority: &[u8]) -> Result<Authority<'_>, Unroutable> {
    parse_in(authority, CLUSTER_DOMAIN)
}

/// Parses an authority in a cluster with this DNS domain.
///
/// # Errors
/// [`Unroutable::NotAnAuthority`] and [`Unroutable::NotAService`].
pub fn parse_in<'a>(authority: &'a [u8], cluster_domain: &str) -> Result<Authority<'a>, Unroutable> {
    if authority.is_empty() || authority.len() > AUTHORITY_MAX_BYTES {
        return Err(Unroutable::NotAnAuthority);
    }
    let text = std::str::from_utf8(authority).map_err(|_| Unroutable::NotAnAuthority)?;
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, rest) = bracketed.split_once(']').ok_or(Unroutable::NotAnAuthority)?;
        let address: Ipv6Addr = address.parse().map_err(|_| Unroutable::NotAnAuthority)?;
        let port = port(rest)?;
        return Ok(Authority { host: Host::Address(address.into()), port });
    }
    let (host, rest) = text.split_at_checked(text.find(':').unwrap_or(text.len())).unwrap_or((text, ""));
    Ok(Authority { host: parse_host(host, cluster_domain)?, port: port(rest)? })
}

/// Parses the text after the host. It is empty, or a colon and digits; RFC 3986 section 3.2.3 allows a colon without
/// digits.
fn port(text: &str) -> Result<u16, Unroutable> {
    let digits = match text.strip_prefix(':') {
        Some("") => return Ok(DEFAULT_PORT),
        None if text.is_empty() => return Ok(DEFAULT_PORT),
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits,
        _ => return Err(Unroutable::NotAnAuthority),
    };
    match digits.parse() {
        Ok(0) | Err(_) => Err(Unroutable::NotAnAuthority),
        Ok(port) => Ok(port),
    }
}

fn parse_host<'a>(host: &'a str, cluster_domain: &str) -> Result<Host<'a>, Unroutable> {
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    if !host.split('.').all(is_label) {
        return Err(Unroutable::NotAnAuthority);
    }
    let (name, rest) = host.split_once('.').unwrap_or((host, ""));
    let (namespace, rest) = rest.split_once('.').unwrap_or((rest, ""));
    let (svc, domain) = rest.split_once('.').unwrap_or((rest, ""));
    let is_service = rest.is_empty()
        || svc.eq_ignore_ascii_case("svc") && (domain.is_empty() || domain.eq_ignore_ascii_case(cluster_domain));
    if !is_service {
        return Err(Unroutable::NotAService { host: host.into() });
    }
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    Ok(Host::Service { name, namespace })
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
