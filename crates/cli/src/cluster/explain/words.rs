//! Parses command-line arguments of `leno explain`: a method, a header field, a caller.

use std::str::FromStr;

use crate::cluster::printable::service_account;

/// The method of a call, as the user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CalledMethod {
    /// `shop.v1.Cart/Get`.
    Grpc(String),
    /// An HTTP method and a path.
    Http(String, String),
}

/// A header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: String,
}

/// A caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// A caller without a certificate.
    NoIdentity,
    /// A SPIFFE id.
    Id(String),
    /// A namespace and a service account; [`Self::identity`] adds a trust domain.
    Account(String, String),
}

impl CalledMethod {
    /// Returns the call's HTTP method, its path, and whether the call is gRPC.
    pub(super) fn head(&self) -> (String, String, bool) {
        match self {
            Self::Grpc(method) => ("POST".to_owned(), format!("/{method}"), true),
            Self::Http(method, path) => (method.clone(), path.clone(), false),
        }
    }
}

impl FromStr for CalledMethod {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write a gRPC method, as shop.v1.Cart/Get, or a method and a path of HTTP, as 'GET /items'";
        if let Some((method, path)) = text.trim().split_once(' ') {
            let path = path.trim_start();
            return if path.starts_with('/') { Ok(Self::Http(method.to_owned(), path.to_owned())) } else { Err(FORM) };
        }
        let (service, method) = text.strip_prefix('/').unwrap_or(text).split_once('/').ok_or(FORM)?;
        let is_name = |name: &str| !name.is_empty() && !name.contains('/');
        if is_name(service) && is_name(method) { Ok(Self::Grpc(format!("{service}/{method}"))) } else { Err(FORM) }
    }
}

impl FromStr for Field {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once(':').ok_or("write a name and a value, as x-canary:yes")?;
        Ok(Self { name: name.trim().to_ascii_lowercase(), value: value.trim().to_owned() })
    }
}

impl FromStr for From {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write a service account, for example shop/web, or an identity, for example spiffe://cluster.local/ns/shop/sa/web, \
                            or none";
        let short = |rest: &str, between: &str| {
            let (namespace, account) = rest.split_once(between).ok_or(FORM)?;
            let is_name = |name: &str| !name.is_empty() && !name.contains('/');
            let is_short = is_name(namespace) && is_name(account);
            if is_short { Ok(Self::Account(namespace.to_owned(), account.to_owned())) } else { Err(FORM) }
        };
        match text {
            "none" => Ok(Self::NoIdentity),
            id if id.starts_with("spiffe://") => Ok(Self::Id(id.to_owned())),
            other => match other.strip_prefix("ns/") {
                Some(rest) if rest.contains("/sa/") => short(rest, "/sa/"),
                _ => short(other, "/"),
            },
        }
    }
}

impl From {
    /// Returns the caller's service account, for example `shop/web`; `None` if the caller has none.
    pub(super) fn account(&self) -> Option<String> {
        match self {
            Self::NoIdentity => None,
            Self::Id(id) => service_account(id),
            Self::Account(namespace, name) => Some(format!("{namespace}/{name}")),
        }
    }

    /// Returns the namespace of the caller's service account; `None` if the caller has none.
    pub(super) fn namespace(&self) -> Option<String> {
        Some(self.account()?.split_once('/')?.0.to_owned())
    }

    /// Returns the SPIFFE id. Adds `trust_domain` if the user wrote no trust domain. `None` for a caller without a
    /// certificate.
    pub(super) fn identity(&self, trust_domain: &str) -> Option<String> {
        match self {
            Self::NoIdentity => None,
            Self::Id(id) => Some(id.clone()),
            Self::Account(namespace, account) => Some(format!("spiffe://{trust_domain}/ns/{namespace}/sa/{account}")),
        }
    }
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
