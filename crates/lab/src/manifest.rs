//! Kubernetes manifests for a proxy under test: a Service and its EndpointSlices.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// A Service in the namespace `default` with one gRPC port.
pub(crate) struct Service<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// An address by which it can be called, beside its name.
    pub(crate) cluster_ip: Option<IpAddr>,
    /// Its port.
    pub(crate) port: u16,
    /// The value of `leno.dev/balancer`.
    pub(crate) balancer: &'a str,
    /// Its endpoints.
    pub(crate) endpoints: &'a [SocketAddr],
}

impl Service<'_> {
    /// The manifest. Each endpoint has a slice of its own, because a slice has one port for all.
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
    - name: grpc
      port: {port}
      appProtocol: kubernetes.io/h2c
"
        );
        for (number, endpoint) in self.endpoints.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = write!(
                yaml,
                "\
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-{number}
  namespace: default
  labels:
    kubernetes.io/service-name: {name}
addressType: IPv4
endpoints:
  - addresses: [\"{}\"]
ports:
  - name: grpc
    port: {}
",
                endpoint.ip(),
                endpoint.port()
            );
        }
        yaml
    }
}
