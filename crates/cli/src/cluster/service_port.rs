//! Parses a Service and its port as a user writes them on the command line. The user may omit the port if the Service
//! has only one.

use leno_model::mesh::KnownPorts;

use super::connect::ClusterError;

/// A Service, and the port if the user named one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServicePort {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) port: Option<u16>,
}

impl ServicePort {
    /// Parses `web:80`, `web.shop:80` or `web.shop.svc.cluster.local:80`, each with or without the port. If the text
    /// has no namespace, uses `namespace`.
    pub(super) fn parse(text: &str, namespace: &str) -> Result<Self, ClusterError> {
        let wrong = || {
            let what = format!("{text:?} is not the name of a Service");
            ClusterError::new(what, "write NAME:PORT, NAME.NAMESPACE:PORT or NAME.NAMESPACE.svc.cluster.local:PORT")
        };
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let mut labels = host.trim_end_matches('.').split('.');
        let (name, own) = (labels.next().filter(|name| !name.is_empty()).ok_or_else(wrong)?, labels.next());
        match labels.next() {
            None | Some("svc") => {
                Ok(Self { name: name.to_owned(), namespace: own.unwrap_or(namespace).to_owned(), port })
            }
            Some(_) => Err(wrong()),
        }
    }

    /// The Service in the form `web.shop`.
    pub(super) fn host(&self) -> String {
        format!("{}.{}", self.name, self.namespace)
    }

    /// Returns the port that the user named or, if the user named none, the Service's only port. `ports` has all ports
    /// of the Service.
    pub(super) fn choose(&self, mut ports: Vec<u16>) -> Result<u16, ClusterError> {
        let host = self.host();
        let what = match (self.port, &ports[..]) {
            (Some(port), all) if all.contains(&port) => return Ok(port),
            (None, &[only]) => return Ok(only),
            (_, []) => {
                let fix = format!("kubectl describe service {} -n {}", self.name, self.namespace);
                return Err(ClusterError::new(format!("Service {host} has no port for TCP"), fix));
            }
            (Some(port), _) => format!("Service {host} has no port {port}"),
            (None, all) => format!("Service {host} has {} ports", all.len()),
        };
        ports.sort_unstable();
        let count = ports.len();
        ports.truncate(KnownPorts::SHOWN_MAX);
        Err(ClusterError::new(what, format!("write {host}:{}", KnownPorts { shown: ports.into(), count })))
    }
}

#[cfg(test)]
#[path = "service_port_tests.rs"]
mod tests;
