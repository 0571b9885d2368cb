//! A control plane without a network, for tests.

use leno_model::discovery::Subject;
use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::{Cluster, Mesh};
use leno_model::translate::translate;
use leno_xds::name::{cluster_key, listener_subject};
use leno_xds::{Dialect, Kind, View, cluster, endpoints, inbound, listener, routes};
use prost::Message;

/// A Service with two endpoints.
pub(super) const ECHO: &str = "
apiVersion: v1
kind: Service
metadata: {name: echo}
spec: {clusterIP: 10.96.0.10, ports: [{port: 50051}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: echo, labels: {kubernetes.io/service-name: echo}}
addressType: IPv4
ports: [{port: 50061}]
endpoints: [{addresses: [127.0.0.1]}, {addresses: [127.0.0.2]}]
";

/// A Service on port 80 with one endpoint on port 8080.
pub(super) fn service(name: &str, cluster_ip: &str, endpoint: &str) -> String {
    ECHO.replace("name: echo", &format!("name: {name}"))
        .replace("service-name: echo", &format!("service-name: {name}"))
        .replace("10.96.0.10", cluster_ip)
        .replace("50051", "80")
        .replace("50061", "8080")
        .replace("{addresses: [127.0.0.1]}, {addresses: [127.0.0.2]}", &format!("{{addresses: [{endpoint}]}}"))
}

/// The resources of a control plane with these manifests.
pub(super) struct Server(Mesh);

impl Server {
    pub(super) fn new(manifests: &[&str]) -> Self {
        let file = SourceFile { path: "mesh.yaml".to_owned(), text: manifests.join("---") };
        let objects = parse_file(&file, "default").expect("manifests without mistakes").objects;
        let translation = translate(&objects, "default");
        assert!(translation.problems.is_empty(), "{:?}", translation.problems);
        Self(translation.mesh)
    }

    /// The cluster with this name, which must exist.
    pub(super) fn cluster(&self, name: &str) -> Cluster {
        let key = cluster_key(name).expect("a cluster's name");
        Cluster::clone(self.0.cluster(&key).expect("a cluster of the server's"))
    }

    /// The bytes of a resource, if it exists.
    pub(super) fn resource(&self, kind: Kind, name: &str) -> Option<Vec<u8>> {
        let view = View { dialect: Dialect::Envoy, mutual_tls: None };
        let cluster_of = |name: &str| cluster_key(name).and_then(|key| self.0.cluster(&key));
        Some(match kind {
            Kind::Cluster => cluster::write(cluster_of(name)?, view).encode_to_vec(),
            Kind::Endpoints => endpoints::write(cluster_of(name)?, view).encode_to_vec(),
            Kind::Route => {
                let cluster = cluster_of(name)?;
                let table = self.0.routes(&cluster.key, "default");
                routes::write(&cluster.key, table.map(AsRef::as_ref), Dialect::Envoy).encode_to_vec()
            }
            Kind::Listener => {
                let written = match listener_subject(name, "default")? {
                    Subject::Service(key) => listener::write(name, None, self.0.cluster(&key)?, None),
                    Subject::Address(at) => match self.0.cluster_by_address(at) {
                        Some(cluster) => {
                            let table = self.0.routes(&cluster.key, "default").map(AsRef::as_ref);
                            listener::write(name, Some(at), cluster, table)
                        }
                        None => listener::write_endpoint(name, &self.0.endpoint_by_address(at)?.0.key),
                    },
                    Subject::Inbound => {
                        let trust_domain = "cluster.local".parse().expect("a trust domain");
                        inbound::write(self.0.policies_of("default").map(AsRef::as_ref), &[], &trust_domain)
                    }
                };
                written.encode_to_vec()
            }
        })
    }
}
