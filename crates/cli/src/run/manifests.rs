//! Writes and removes the manifests of a run: a Service, which all runs of one service share, and an EndpointSlice for
//! this run alone.
//!
//! The Service remains until the last run of the mesh ends, even if only runs of other services are left. So while a
//! service restarts, its name remains known, and calls to it fail because it has no endpoint. A Service in the user's
//! own manifests takes precedence.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use leno_model::manifest::{DEFAULT_NAMESPACE, SourceFile, parse_file};
use leno_model::object::{Object, Service};
use leno_model::proxy::INBOUND_PORT;
use leno_model::spiffe::Workload;

use super::digest::digest;
use super::error::{Error, Result, io};
use super::files;
use super::options::Subnet;

/// File name prefix of the Services.
pub(super) const SERVICE_PREFIX: &str = "service.";

#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// A run's program as an endpoint of its service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint<'a> {
    pub(super) run: u16,
    /// The service that the run's program provides.
    pub(super) service: Name<'a>,
    pub(super) address: Ipv4Addr,
    pub(super) workload: &'a Workload,
    pub(super) ports: &'a [u16],
}

/// Every Service in a directory of manifests. Skips invalid files: the proxy's log reports the mistakes.
///
/// # Errors
/// If the directory cannot be listed.
pub(super) fn services(directory: &Path) -> Result<Vec<Service>> {
    let listed = files::list(directory).map_err(io(format!("listing {}", directory.display())))?;
    let parse = |path: PathBuf| {
        let file = SourceFile { path: path.to_string_lossy().into_owned(), text: fs::read_to_string(&path).ok()? };
        parse_file(&file, DEFAULT_NAMESPACE).ok()
    };
    let manifests = listed.into_iter().filter(|path| files::is_manifest(path)).filter_map(parse);
    let service = |object| if let Object::Service(service) = object { Some(service.as_ref().clone()) } else { None };
    Ok(manifests.flat_map(|manifest| manifest.objects).filter_map(service).collect())
}

/// Writes the Service, or adds `ports` to the Service that an earlier run wrote. If the user's own manifests define the
/// Service, removes ours instead. `ports` must not be empty.
///
/// # Errors
/// If the user's own Service has no address, all addresses are taken, or the file cannot be written.
pub(super) fn put_service(directory: &Path, name: Name<'_>, ports: &[u16], subnet: Subnet) -> Result<()> {
    let path = service_file(directory, name);
    let all = services(directory)?;
    let (ours, theirs): (Vec<&Service>, Vec<&Service>) =
        all.iter().filter(|service| is_named(service, name)).partition(|service| is_in(service, &path));
    if let Some(service) = theirs.first() {
        files::remove_if_there(&path).map_err(io(format!("removing {}", path.display())))?;
        if service.cluster_ips.is_empty() {
            let (file, service) = (service.identity.file.to_string(), service.identity.name.to_string());
            return Err(Error::NoClusterIp { file, service, subnet });
        }
        return Ok(());
    }
    let known = ours.first();
    let mut all_ports: BTreeSet<u16> = ports.iter().copied().collect();
    all_ports.extend(known.iter().flat_map(|service| &service.ports).map(|port| port.port));
    let address = match known.and_then(|service| service.cluster_ips.first()) {
        Some(address) => *address,
        None => free_address(name, &all, subnet)?.into(),
    };
    let text = service_manifest(name, address, &all_ports);
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    write(&path, &text)
}

/// Adds an endpoint to the mesh.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn put_endpoint(directory: &Path, endpoint: &Endpoint<'_>) -> Result<()> {
    let services = services(directory)?;
    let service = services.iter().find(|service| is_named(service, endpoint.service));
    write(&endpoint_file(directory, endpoint.run), &endpoint_manifest(endpoint, service))
}

/// Removes an endpoint from the mesh; returns whether it existed.
///
/// # Errors
/// If the file cannot be removed.
pub(super) fn remove_endpoint(directory: &Path, run: u16) -> Result<bool> {
    let path = endpoint_file(directory, run);
    let was_there = path.exists();
    files::remove_if_there(&path).map_err(io(format!("removing {}", path.display())))?;
    Ok(was_there)
}

fn service_file(directory: &Path, Name { namespace, name }: Name<'_>) -> PathBuf {
    directory.join(format!("{SERVICE_PREFIX}{namespace}.{name}.yaml"))
}

fn endpoint_file(directory: &Path, run: u16) -> PathBuf {
    directory.join(format!("endpoint.{run}.yaml"))
}

fn is_named(service: &Service, name: Name<'_>) -> bool {
    *service.identity.namespace == *name.namespace && *service.identity.name == *name.name
}

fn is_in(service: &Service, path: &Path) -> bool {
    Path::new(&*service.identity.file) == path
}

fn write(path: &Path, text: &str) -> Result<()> {
    files::replace(path, text.as_bytes(), files::PUBLIC, None).map_err(io(format!("writing {}", path.display())))
}

/// Finds a free address for a Service. The search starts at a hash of the Service's name, so that a service that
/// restarts usually gets its earlier address.
fn free_address(name: Name<'_>, services: &[Service], subnet: Subnet) -> Result<Ipv4Addr> {
    let taken: BTreeSet<IpAddr> = services.iter().flat_map(|service| &service.cluster_ips).copied().collect();
    let hosts = u64::from(subnet.hosts());
    let first = digest(format!("{}/{}", name.namespace, name.name).as_bytes()) % hosts;
    let candidates = (first..hosts).chain(0..first).filter_map(|index| u16::try_from(index + 1).ok());
    let free = candidates.map(|number| subnet.host(number)).find(|address| !taken.contains(&IpAddr::V4(*address)));
    free.ok_or(Error::SubnetFull { subnet, option: "--service-subnet" })
}

fn service_manifest(Name { namespace, name }: Name<'_>, address: IpAddr, ports: &BTreeSet<u16>) -> String {
    let ports: String = ports.iter().map(|port| format!("  - name: p{port}\n    port: {port}\n")).collect();
    format!(
        "\
apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: {namespace}
spec:
  clusterIP: {address}
  ports:
{ports}"
    )
}

/// Returns the manifest of a run's EndpointSlice. Its ports have the same names as the Service's ports, because the
/// name connects an endpoint's port to a Service's port.
///
/// The manifest also names the proxy's inbound port, to which other proxies then connect directly. They cannot rely on
/// the redirection of inbound connections: if a program calls its own service, the connection stays within the
/// namespace, where no rule redirects it to the inbound port.
fn endpoint_manifest(endpoint: &Endpoint<'_>, service: Option<&Service>) -> String {
    let Endpoint { run, service: Name { namespace, name }, address, workload, ports } = endpoint;
    let port_name = |port: u16| {
        let of_service = service.and_then(|service| service.ports.iter().find(|known| known.port == port));
        of_service.map_or_else(|| format!("p{port}"), |known| known.name.to_string())
    };
    let ports: String =
        ports.iter().map(|&port| format!("- name: \"{}\"\n  port: {port}\n", port_name(port))).collect();
    format!(
        "\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-{run}
  namespace: {namespace}
  labels:
    kubernetes.io/service-name: {name}
  annotations:
    leno.dev/identity: {workload}
    leno.dev/inbound-port: \"{INBOUND_PORT}\"
addressType: IPv4
endpoints:
- addresses: [\"{address}\"]
ports:
{ports}"
    )
}

#[cfg(test)]
#[path = "manifests_tests.rs"]
mod tests;
