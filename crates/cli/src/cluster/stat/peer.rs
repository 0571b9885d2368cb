//! Selects the calls that `leno stat` shows: calls to workloads, optionally from one client only; or calls that
//! workloads make, optionally to one Service only.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::cluster::printable::service_account;
use crate::cluster::scrape::{Sample, Scrape};

/// Text on the command line that stands for all clients without an identity.
const ANONYMOUS: &str = "-";

/// The calls to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Calls to the workloads, optionally from one client only.
    Inbound(Option<Caller>),
    /// Calls that the workloads make, optionally to one Service only.
    Outbound(Option<Destination>),
}

/// A client that the user names. A service account without a namespace belongs to the namespace of the called workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    ServiceAccount { namespace: Option<String>, name: String },
    Anonymous,
}

/// The destination of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Destination {
    /// A Service. `namespace: None` means the client's namespace, and `port: None` means all ports.
    Service { namespace: Option<String>, name: String, port: Option<String> },
    /// All addresses that belong to no Service, as one destination.
    OtherAddresses,
}

impl View {
    pub(crate) fn is_outbound(&self) -> bool {
        matches!(self, Self::Outbound(_))
    }

    /// Whether a series counts calls in the direction of this view. Excludes the probes of kubelets. Series of denials
    /// have no label `direction`. They belong to the inbound view, because policies deny only calls to the workload.
    pub(crate) fn has(&self, sample: &Sample) -> bool {
        let is_outbound = sample.label("direction") == "outbound";
        is_outbound == self.is_outbound() && sample.label("no_tls_reason") != "probe"
    }

    /// The caption below the table.
    pub(crate) fn caption(&self) -> String {
        match self {
            Self::Inbound(None) => "calls to these workloads, counted by their proxies".to_owned(),
            Self::Inbound(Some(caller)) => {
                format!("calls of {caller} to these workloads, counted by the workloads' proxies")
            }
            Self::Outbound(_) => "calls from these workloads, counted by their own proxies".to_owned(),
        }
    }
}

impl Caller {
    /// Whether a series counts calls that this client made.
    pub(crate) fn made(&self, sample: &Sample, server_namespace: &str) -> bool {
        let id = sample.label("client_id");
        match self {
            Self::Anonymous => id.is_empty(),
            Self::ServiceAccount { namespace, name } => {
                let namespace = namespace.as_deref().unwrap_or(server_namespace);
                id.starts_with("spiffe://") && id.ends_with(&format!("/ns/{namespace}/sa/{name}"))
            }
        }
    }
}

impl FromStr for Caller {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let of = |namespace: Option<&str>, name: &str| {
            let has_letters = !name.is_empty() && namespace.is_none_or(|namespace| !namespace.is_empty());
            let found = Self::ServiceAccount { namespace: namespace.map(str::to_owned), name: name.to_owned() };
            has_letters
                .then_some(found)
                .ok_or_else(|| "write a service account, for example web, shop/web or ns/shop/sa/web".to_owned())
        };
        match text.split('/').collect::<Vec<_>>().as_slice() {
            [ANONYMOUS] => Ok(Self::Anonymous),
            [name] => of(None, name),
            [namespace, name] | ["ns", namespace, "sa", name] => of(Some(namespace), name),
            _ => of(None, ""),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("clients without an identity"),
            Self::ServiceAccount { namespace: Some(namespace), name } => {
                write!(f, "service account {namespace}/{name}")
            }
            Self::ServiceAccount { namespace: None, name } => write!(f, "service account {name}"),
        }
    }
}

impl Destination {
    /// Reads the destination from an outbound series.
    pub(crate) fn of(sample: &Sample) -> Self {
        match sample.label("dst_service") {
            "" => Self::OtherAddresses,
            name => Self::Service {
                namespace: Some(sample.label("dst_namespace").to_owned()),
                name: name.to_owned(),
                port: Some(sample.label("dst_port").to_owned()),
            },
        }
    }

    /// Whether this destination includes `other`, which has a namespace and a port. A destination without a namespace
    /// is in `client_namespace`, and a destination without a port includes all ports.
    pub(crate) fn covers(&self, other: &Self, client_namespace: &str) -> bool {
        match (self, other) {
            (Self::OtherAddresses, Self::OtherAddresses) => true,
            (
                Self::Service { namespace, name, port },
                Self::Service { namespace: Some(other_namespace), name: other_name, port: other_port },
            ) => {
                let namespace = namespace.as_deref().unwrap_or(client_namespace);
                name == other_name && namespace == other_namespace && (port.is_none() || port == other_port)
            }
            _ => false,
        }
    }
}

impl FromStr for Destination {
    type Err = String;

    /// Parses the name that clients use for a Service: `echo`, `echo.shop` or `echo.shop.svc.cluster.local`, each
    /// optionally with a port.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = ["svc/", "service/"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let is_label = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        let mut labels = host.split('.');
        let name = labels.next().unwrap_or_default();
        let namespace = labels.next();
        let is_wrong = !is_label(name)
            || namespace.is_some_and(|namespace| !is_label(namespace))
            || labels.next().is_some_and(|label| label != "svc")
            || port.is_some_and(|port| port.parse::<u16>().is_err());
        if is_wrong {
            return Err("write a Service, as echo, echo.shop or echo.shop:50051".to_owned());
        }
        Ok(Self::Service {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            port: port.map(str::to_owned),
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Service { namespace, name, port } = self else { return f.write_str("other addresses") };
        f.write_str(name)?;
        if let Some(namespace) = namespace.as_ref().filter(|namespace| !namespace.is_empty()) {
            write!(f, ".{namespace}")?;
        }
        if let Some(port) = port.as_ref().filter(|port| !port.is_empty()) {
            write!(f, ":{port}")?;
        }
        Ok(())
    }
}

/// Names the client of an inbound series: `namespace/service account`, or the reason why the client has no identity. An
/// identity that contains no service account is returned unchanged.
pub(crate) fn caller_name(sample: &Sample) -> String {
    let id = sample.label("client_id");
    match service_account(id) {
        Some(account) => account,
        None if !id.is_empty() => id.to_owned(),
        None if sample.label("no_tls_reason") == "loopback" => "same Pod".to_owned(),
        None => "no identity".to_owned(),
    }
}

/// Whether a series counts calls over mutual TLS. The label `tls="true"` alone does not show this: a call over TLS from
/// a client without a certificate has it too, with an empty `client_id`. Outbound calls over TLS always use mutual TLS.
pub(crate) fn is_mutual_tls(sample: &Sample) -> bool {
    let has_identity = sample.label("direction") == "outbound" || !sample.label("client_id").is_empty();
    sample.label("tls") == "true" && has_identity
}

/// Whether a series counts calls that the proxy never sent, so that they were neither encrypted nor in plaintext. In an
/// inbound series, the proxy rejected them without a look at their destination, such as a CONNECT.
pub(crate) fn is_unsent(sample: &Sample) -> bool {
    sample.label("tls") == "unknown"
}

/// Every destination that the proxies have sent calls to, sorted.
pub(crate) fn destinations<'a>(pages: impl Iterator<Item = &'a Scrape>) -> BTreeSet<Destination> {
    let view = View::Outbound(None);
    let mut found = BTreeSet::new();
    for page in pages {
        found.extend(page.all("request_total", &[]).filter(|sample| view.has(sample)).map(Destination::of));
    }
    found
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
