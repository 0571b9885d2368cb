//! The proxy's configuration directory, as Kubernetes manifests.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

/// Default port of every test Service.
pub const PORT: u16 = 50051;

/// `:authority` of the Service `echo` in the namespace `default`.
pub const ECHO: &str = "echo.default:50051";

/// A Service and its EndpointSlices.
#[derive(Debug, Clone)]
pub struct Service {
    name: String,
    port: u16,
    cluster_ip: Option<String>,
    annotations: Vec<(String, String)>,
    endpoints: Vec<SocketAddr>,
    endpoint_annotations: Vec<(SocketAddr, String, String)>,
    route: String,
    policy: String,
}

impl Service {
    /// The Service `name` in the namespace `default` on port [`PORT`].
    pub fn new(name: &str, endpoints: &[SocketAddr]) -> Self {
        Self {
            name: name.to_owned(),
            port: PORT,
            cluster_ip: None,
            annotations: vec![patient()],
            endpoints: endpoints.to_vec(),
            endpoint_annotations: Vec::new(),
            route: String::new(),
            policy: String::new(),
        }
    }

    /// The Service `echo`, see [`ECHO`].
    pub fn echo(endpoints: &[SocketAddr]) -> Self {
        Self::new("echo", endpoints)
    }

    /// Sets the Service's clusterIP and port to `address`, for a client that always sends the address as `:authority`.
    pub fn at(mut self, address: SocketAddr) -> Self {
        self.cluster_ip = Some(address.ip().to_string());
        self.port = address.port();
        self
    }

    /// Sets an annotation.
    pub fn annotated(mut self, name: &str, value: &str) -> Self {
        self.annotations.retain(|(there, _)| there != name);
        self.annotations.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets an annotation of the EndpointSlice of `endpoint`.
    pub fn endpoint_annotated(mut self, endpoint: SocketAddr, name: &str, value: &str) -> Self {
        self.endpoint_annotations.push((endpoint, name.to_owned(), value.to_owned()));
        self
    }

    /// Attaches an HTTPRoute with the Service's name, and with the lines in `rules` as its rules.
    pub fn http_routed(self, rules: &str) -> Self {
        self.routed("HTTPRoute", &format!("rules:\n{rules}"))
    }

    /// Attaches a GRPCRoute with the Service's name, and with the lines in `rules` as its rules.
    pub fn grpc_routed(self, rules: &str) -> Self {
        self.routed("GRPCRoute", &format!("rules:\n{rules}"))
    }

    /// Attaches a route of this kind with the Service's name, and with the lines in `spec` in its spec.
    pub fn routed(mut self, kind: &str, spec: &str) -> Self {
        let name = &self.name;
        let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
        self.route = format!(
            "---
apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata:
  name: {name}
  namespace: default
spec:
  parentRefs:
  - {{group: \"\", kind: Service, name: {name}}}
{spec}"
        );
        self
    }

    /// Adds a TrafficPolicy with the Service's name. Its spec contains its target and the lines in `parts`.
    pub fn policed(mut self, parts: &str) -> Self {
        let name = &self.name;
        let parts: String = parts.lines().map(|line| format!("  {line}\n")).collect();
        self.policy = format!(
            "---
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata:
  name: {name}
  namespace: default
spec:
  targetRefs:
  - {{kind: Service, name: {name}}}
{parts}"
        );
        self
    }

    /// The manifests: one slice per endpoint, because all addresses of a slice share its port.
    pub fn to_yaml(&self) -> String {
        let Self { name, port, .. } = self;
        let mut yaml = format!("apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: default\n");
        yaml.push_str("  annotations:\n");
        for (key, value) in &self.annotations {
            writeln!(yaml, "    {key}: \"{value}\"").expect("a String takes it");
        }
        yaml.push_str("spec:\n");
        if let Some(address) = &self.cluster_ip {
            writeln!(yaml, "  clusterIP: \"{address}\"").expect("a String takes it");
        }
        writeln!(yaml, "  ports:\n  - name: grpc\n    port: {port}").expect("a String takes it");
        for (number, endpoint) in self.endpoints.iter().enumerate() {
            yaml.push_str(&self.slice(number, *endpoint));
        }
        yaml + &self.route + &self.policy
    }

    /// One EndpointSlice with one ready endpoint.
    fn slice(&self, number: usize, endpoint: SocketAddr) -> String {
        let family = if endpoint.is_ipv4() { "IPv4" } else { "IPv6" };
        let annotations = self.endpoint_annotations.iter().filter(|(of, ..)| *of == endpoint);
        let mut annotations: String =
            annotations.map(|(_, name, value)| format!("    {name}: \"{value}\"\n")).collect();
        if !annotations.is_empty() {
            annotations.insert_str(0, "  annotations:\n");
        }
        format!(
            "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {service}-{number}
  namespace: default
  labels:
    kubernetes.io/service-name: {service}
{annotations}addressType: {family}
ports:
- name: grpc
  port: {port}
endpoints:
- addresses: [\"{address}\"]
  conditions:
    ready: true
",
            service = self.name,
            port = endpoint.port(),
            address = endpoint.ip(),
        )
    }
}

/// Returns an annotation that sets a long connect timeout for endpoints. So a test does not fail if the machine stalls
/// for a second or two.
pub fn patient() -> (String, String) {
    ("leno.dev/connect-timeout".to_owned(), "20s".to_owned())
}

/// A temporary directory of manifests. Dropping this value deletes the directory.
#[derive(Debug)]
pub struct Directory {
    directory: tempfile::TempDir,
}

impl Directory {
    /// A directory that holds `services`, one file each.
    pub fn new(services: &[Service]) -> Self {
        let this = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        services.iter().for_each(|service| this.put(service));
        this
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes or replaces the file of `service`.
    pub fn put(&self, service: &Service) {
        self.write(&format!("{}.yaml", service.name), &service.to_yaml());
    }

    /// Writes or replaces a file as an editor does: a new file, moved over the old one.
    pub fn write(&self, name: &str, text: &str) {
        let aside = self.path().join(format!(".{name}.new"));
        std::fs::write(&aside, text).expect("the manifest is written");
        std::fs::rename(&aside, self.path().join(name)).expect("the manifest is moved into place");
    }

    /// Deletes a file.
    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.path().join(name)).expect("the manifest is deleted");
    }
}
