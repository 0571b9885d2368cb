//! Kubernetes manifests for a proxy under test: a Service and its EndpointSlices.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// A Service in the namespace `default` with one port.
pub(crate) struct Service<'a> {
    pub(crate) name: &'a str,
    /// An address by which the Service can be called, in addition to its name.
    pub(crate) cluster_ip: Option<IpAddr>,
    pub(crate) port: u16,
    /// Protocol of the port; `None` lets the proxy detect it.
    pub(crate) app_protocol: Option<&'a str>,
    /// The name of the balancing algorithm: the value of the annotation `leno.dev/balancer`.
    pub(crate) balancer: &'a str,
    pub(crate) endpoints: &'a [Endpoint],
}

/// An endpoint of a [`Service`]: one application, and the proxy in front of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    /// Address of the application.
    pub(crate) address: SocketAddr,
    /// The proxy in front of the application, at the same IP address; `None` if calls to the application are not
    /// encrypted.
    pub(crate) proxy: Option<Proxy>,
}

/// An endpoint's proxy in a mesh.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proxy {
    /// The identity in the proxy's certificate: `ns/lab/sa/server`.
    pub(crate) identity: &'static str,
    /// The proxy's port for requests.
    pub(crate) inbound_port: u16,
    /// The proxy's port for opaque bytes.
    pub(crate) tunnel_port: u16,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { address, proxy: None }
    }
}

impl Service<'_> {
    /// Returns the manifest. Each endpoint has an EndpointSlice of its own, because all endpoints of an EndpointSlice
    /// have the same ports.
    pub(crate) fn to_yaml(&self) -> String {
        let Self { name, port, .. } = self;
        let cluster_ip = self.cluster_ip.map_or("None".to_owned(), |ip| ip.to_string());
        let balancer = self.balancer;
        let mut yaml = format!(
            "\
apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: default
  annotations:
    leno.dev/balancer: {balancer}
spec:
  clusterIP: {cluster_ip}
  ports:
    - name: calls
      port: {port}
"
        );
        if let Some(app_protocol) = self.app_protocol {
            // Writing to a String cannot fail.
            let _ = writeln!(yaml, "      appProtocol: {app_protocol}");
        }
        for (number, endpoint) in self.endpoints.iter().enumerate() {
            yaml.push_str(&self.slice(number, endpoint));
        }
        yaml
    }

    fn slice(&self, number: usize, endpoint: &Endpoint) -> String {
        let Self { name, .. } = self;
        let Endpoint { address, proxy } = endpoint;
        let annotations = proxy.map_or_else(String::new, |proxy| {
            let Proxy { identity, inbound_port, tunnel_port } = proxy;
            format!(
                "  annotations:
    leno.dev/identity: {identity}
    leno.dev/inbound-port: \"{inbound_port}\"
    leno.dev/tunnel-port: \"{tunnel_port}\"
"
            )
        });
        format!(
            "\
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-{number}
  namespace: default
  labels:
    kubernetes.io/service-name: {name}
{annotations}\
addressType: IPv4
endpoints:
  - addresses: [\"{}\"]
ports:
  - name: calls
    port: {}
",
            address.ip(),
            address.port()
        )
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
