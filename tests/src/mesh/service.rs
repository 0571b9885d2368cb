//! A Service of the mesh and its EndpointSlices, as manifests.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Workload;
use crate::manifests::patient;

/// A Service in the namespace `default`, with one port.
#[derive(Debug)]
pub struct MeshService<'a> {
    name: String,
    port: u16,
    app_protocol: Option<String>,
    annotations: Vec<(String, String)>,
    endpoints: Vec<(&'a Workload, u16)>,
}

impl<'a> MeshService<'a> {
    /// The Service `name`, whose clients call `port`.
    pub fn new(name: &str, port: u16) -> Self {
        Self { name: name.to_owned(), port, app_protocol: None, annotations: vec![patient()], endpoints: Vec::new() }
    }

    /// Adds a workload as an endpoint, on the Service's own port.
    pub fn at(self, workload: &'a Workload) -> Self {
        let port = self.port;
        self.at_port(workload, port)
    }

    /// Adds a workload as an endpoint, on another port.
    pub fn at_port(mut self, workload: &'a Workload, port: u16) -> Self {
        self.endpoints.push((workload, port));
        self
    }

    /// Sets the port's protocol, such as `grpc`, `http` or `tcp`.
    pub fn app_protocol(mut self, name: &str) -> Self {
        self.app_protocol = Some(name.to_owned());
        self
    }

    /// Adds an annotation to the Service.
    pub fn annotated(mut self, name: &str, value: &str) -> Self {
        self.annotations.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Service's addresses, which lead to no machine: IPv4, IPv6.
    pub fn cluster_ips(&self) -> [String; 2] {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        let number = hasher.finish() % 60_000 + 1;
        [format!("10.67.{}.{}", number / 256, number % 256), format!("fd00:67::{number:x}")]
    }

    /// Returns the manifests. They contain the identities of the endpoints that are meshed at the time of this call.
    pub fn to_yaml(&self) -> String {
        let Self { name, port, .. } = self;
        let [v4, v6] = self.cluster_ips();
        let mut yaml = format!("apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: default\n");
        yaml.push_str("  annotations:\n");
        for (key, value) in &self.annotations {
            writeln!(yaml, "    {key}: \"{value}\"").expect("a String takes it");
        }
        write!(yaml, "spec:\n  clusterIP: {v4}\n  clusterIPs: [{v4}, \"{v6}\"]\n  ports:\n  - port: {port}\n")
            .expect("a String takes it");
        if let Some(protocol) = &self.app_protocol {
            writeln!(yaml, "    appProtocol: {protocol}").expect("a String takes it");
        }
        for (workload, port) in &self.endpoints {
            yaml.push_str(&slice(name, workload, *port));
        }
        yaml
    }
}

/// One EndpointSlice with one endpoint.
fn slice(service: &str, workload: &Workload, port: u16) -> String {
    let identity = if workload.is_meshed() {
        format!("  annotations:\n    leno.dev/identity: {}\n", workload.identity())
    } else {
        String::new()
    };
    format!(
        "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {service}-{workload}-{port}
  namespace: default
  labels:
    kubernetes.io/service-name: {service}
{identity}addressType: IPv4
ports:
- port: {port}
endpoints:
- addresses: [\"{address}\"]
",
        workload = workload.name(),
        address = workload.address(),
    )
}
