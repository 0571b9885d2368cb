//! The DNS names of the control plane's Service, which its own certificates contain. API servers and gRPC programs do
//! not support SPIFFE, so they compare these names with the name to which they connect.

use leno_install::names::CONTROL;
use rustls::pki_types::{DnsName, InvalidDnsNameError};

use crate::options::Options;
use crate::run::RunError;

/// Returns the DNS names under which clients reach the Service, from any namespace of the cluster.
pub(crate) fn names(namespace: &str, cluster_domain: &str) -> Result<Vec<DnsName<'static>>, InvalidDnsNameError> {
    let short = format!("{CONTROL}.{namespace}");
    let names = [format!("{short}.svc"), short.clone(), format!("{short}.svc.{cluster_domain}")];
    names.into_iter().map(DnsName::try_from).collect()
}

impl Options {
    /// The names of the Service that the command line describes.
    ///
    /// # Errors
    /// [`RunError::NoName`] if the names are not valid DNS names.
    pub(crate) fn service_names(&self) -> Result<Vec<DnsName<'static>>, RunError> {
        names(&self.namespace, &self.cluster_domain).map_err(|_| RunError::NoName {
            namespace: self.namespace.clone(),
            cluster_domain: self.cluster_domain.clone(),
        })
    }
}

#[cfg(test)]
#[path = "dns_tests.rs"]
mod tests;
