//! One mesh of the experiment, ready to be measured.
//!
//! A stage has the mesh's namespace with the load Pods and the lab's servers. It also lists the containers whose CPU
//! time and memory are measured.

use std::net::{IpAddr, SocketAddr};

use futures_util::future::try_join;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use kube::api::{Api, PostParams};

use super::access::Access;
use super::mesh::{Mesh, Proxies};
use super::nodes::Nodes;
use super::objects::{self, BACKEND, CONTAINER, GRPC_PORT, HTTP_PORT, LOAD, pod_name, selector};
use super::pods::{Pods, has_container, name};
use super::servers::Servers;
use super::usage::ContainerName;
use super::workload::Workload;
use crate::error::{Error, Result};
use crate::experiment::options::Settings;
use crate::experiment::record::Protocol;
use crate::kubernetes::refused;
use crate::load::{Client, Exchange, NAMELESS};

/// Annotation that Istio's CNI agent writes on each Pod whose connections it redirects to ztunnel; the value is then
/// `enabled`.
const REDIRECTION: &str = "ambient.istio.io/redirection";

/// A mesh that is ready to be measured.
pub(super) struct Stage {
    mesh: Mesh,
    /// The load Pods, and the Pods of the lab's servers.
    pub(super) pods: Pods,
    /// The lab's own servers; `None` if the load calls a user's workload.
    pub(super) servers: Option<Servers>,
    /// The address and the authority that the load calls.
    pub(super) client: Client,
    pub(super) exchange: Exchange,
    pub(super) containers: Containers,
    /// The node of each Pod, in the form `backend-0 on node1`.
    pub(super) placements: Vec<String>,
}

/// The containers of a mesh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Containers {
    /// Proxies beside the load, in the order of the load Pods.
    pub(super) clients: Vec<ContainerName>,
    /// Proxies beside the servers.
    pub(super) servers: Vec<ContainerName>,
    /// Proxies that the load and the servers share.
    pub(super) shared: Vec<ContainerName>,
    pub(super) control_plane: Vec<ContainerName>,
    /// The lab's own servers.
    pub(super) backends: Vec<ContainerName>,
}

impl Containers {
    /// All proxies.
    pub(super) fn proxies(&self) -> Vec<ContainerName> {
        [&self.clients[..], &self.servers, &self.shared].concat()
    }

    /// The containers that a load in the first `loads` load Pods uses. The other load Pods have no connection, so their
    /// proxies must not count as a cost of the load.
    pub(super) fn of_loads(&self, loads: usize) -> Self {
        let clients = self.clients.iter().take(loads).cloned().collect();
        Self { clients, ..self.clone() }
    }

    /// All containers.
    pub(super) fn all(&self) -> Vec<ContainerName> {
        [&self.proxies()[..], &self.control_plane, &self.backends].concat()
    }
}

/// The settings that are the same for all meshes of an experiment.
#[derive(Clone, Copy)]
pub(super) struct Plot<'a> {
    pub(super) settings: &'a Settings,
    /// Number of load Pods.
    pub(super) loads: usize,
    pub(super) image: &'a str,
    /// The user's workload that the load calls; `None` if the load calls servers of the lab.
    pub(super) workload: Option<&'a Workload>,
    /// The nodes of the Pods in all stages.
    pub(super) nodes: &'a Nodes,
}

impl Stage {
    /// Creates the objects in the namespace of a mesh, and waits until all Pods are ready and have the mesh's proxies.
    ///
    /// # Errors
    /// If the API server rejects a request, a Pod cannot start, or a Pod has no proxy.
    pub(super) async fn set_up(access: &Access, mesh: Mesh, plot: Plot<'_>) -> Result<Self> {
        let namespace = mesh.namespace();
        let what = || format!("making the objects of the namespace {namespace}");
        let params = PostParams::default();
        let pods = Pods::new(access.client.clone(), &namespace, plot.nodes);
        let sets: Api<StatefulSet> = Api::namespaced(access.client.clone(), &namespace);
        let loads = objects::loads(plot.loads, plot.image)?;
        sets.create(&params, &loads).await.map_err(refused(what()))?;
        let called = async {
            match plot.workload {
                Some(workload) => Ok((None, workload.client.clone(), workload.exchange.clone())),
                None => {
                    let (servers, client) = set_up_servers(access, mesh, plot, &pods).await?;
                    Ok((Some(servers), client, plot.settings.exchange()))
                }
            }
        };
        // Wait for the load Pods and the servers concurrently, since each wait also removes its Pods' scheduling gates.
        // Otherwise, the load Pods would start only after the servers are ready.
        let of_loads = selector(LOAD);
        let ((servers, client, exchange), loads) = try_join(called, pods.ready(&of_loads, plot.loads)).await?;
        for pod in loads {
            ensure_meshed(&pod, mesh)?;
        }
        let containers = containers(access, mesh, plot).await?;
        let all = pods.all().await?;
        if let Some(why) = plot.nodes.misplaced(&all) {
            return Err(Error::Cluster { what: format!("a Pod of the namespace {namespace} is misplaced"), why });
        }
        plot.nodes.fix(&all);
        let placements = all.iter().map(placement).collect();
        Ok(Self { mesh, pods, servers, client, exchange, containers, placements })
    }

    /// Finds the containers again: Pods of the control plane may have been replaced.
    ///
    /// # Errors
    /// If the API server rejects a request.
    pub(super) async fn find_containers(&mut self, access: &Access, plot: Plot<'_>) -> Result<()> {
        self.containers = containers(access, self.mesh, plot).await?;
        Ok(())
    }

    /// Waits until all Pods of the lab are ready. If Kubernetes has replaced Pods meanwhile, assigns the new Pods to
    /// nodes.
    ///
    /// # Errors
    /// If the API server rejects a request, or a Pod is not ready in time.
    pub(super) async fn ready(&self, plot: Plot<'_>) -> Result<()> {
        if self.servers.is_some() {
            self.pods.ready(&selector(BACKEND), plot.settings.backends).await?;
        }
        self.pods.ready(&selector(LOAD), plot.loads).await.map(drop)
    }

    /// Replaces all Pods of the lab in the namespace, so that their proxies keep no memory of an earlier run.
    ///
    /// # Errors
    /// If the API server rejects a request, or a Pod is not ready in time.
    pub(super) async fn renew(&self, plot: Plot<'_>) -> Result<()> {
        if self.servers.is_some() {
            self.pods.replace_all(&selector(BACKEND), plot.settings.backends).await?;
        }
        self.pods.replace_all(&selector(LOAD), plot.loads).await
    }

    /// The names that the servers put into their answers; [`NAMELESS`] for a user's workload.
    pub(super) fn server_names(&self) -> Vec<String> {
        self.servers.as_ref().map_or_else(|| vec![NAMELESS.to_owned()], Servers::names)
    }
}

/// Creates the lab's servers and their Service.
async fn set_up_servers(access: &Access, mesh: Mesh, plot: Plot<'_>, pods: &Pods) -> Result<(Servers, Client)> {
    let (namespace, settings) = (mesh.namespace(), plot.settings);
    let what = || format!("making the servers of the namespace {namespace}");
    let params = PostParams::default();
    let services: Api<Service> = Api::namespaced(access.client.clone(), &namespace);
    let sets: Api<StatefulSet> = Api::namespaced(access.client.clone(), &namespace);
    let service = services.create(&params, &objects::service()?).await.map_err(refused(what()))?;
    let set = objects::backends(settings.backends, plot.image)?;
    sets.create(&params, &set).await.map_err(refused(what()))?;
    let ip = service.spec.and_then(|spec| spec.cluster_ip).unwrap_or_default();
    let ip: IpAddr = ip.parse().map_err(|_| Error::Cluster {
        what: format!("the cluster IP of the Service {BACKEND} is {ip:?}"),
        why: "the lab needs an address".to_owned(),
    })?;
    let port = match settings.protocol {
        Protocol::Http1 | Protocol::Http2 => HTTP_PORT,
        Protocol::Grpc | Protocol::Tcp => GRPC_PORT,
    };
    for pod in pods.ready(&selector(BACKEND), settings.backends).await? {
        ensure_meshed(&pod, mesh)?;
    }
    let client = Client { address: SocketAddr::new(ip, port), authority: format!("{BACKEND}.{namespace}:{port}") };
    Ok((Servers::new(pods.clone(), settings.backends, settings.service_time), client))
}

fn placement(pod: &Pod) -> String {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    format!("{} on {node}", name(pod))
}

/// Returns an error if the Pod is not in its mesh: it has no sidecar of a mesh with sidecars, or a mesh with shared
/// proxies does not redirect its connections.
fn ensure_meshed(pod: &Pod, mesh: Mesh) -> Result<()> {
    let (lacking, question) = match mesh.proxies() {
        Proxies::None => return Ok(()),
        Proxies::Sidecars(proxy) if has_container(pod, proxy) => return Ok(()),
        Proxies::Sidecars(proxy) => (format!("no container {proxy}"), "does the injector of"),
        Proxies::Shared(_) if pod.annotations().get(REDIRECTION).is_some_and(|state| state == "enabled") => {
            return Ok(());
        }
        Proxies::Shared(_) => (format!("no annotation {REDIRECTION}: enabled"), "does the CNI agent of"),
    };
    let what = format!("the Pod {}/{} has {lacking}", mesh.namespace(), name(pod));
    let why = format!("{question} {mesh} run? Without its proxy there is nothing to measure");
    Err(Error::Cluster { what, why })
}

async fn containers(access: &Access, mesh: Mesh, plot: Plot<'_>) -> Result<Containers> {
    let mut containers = Containers::default();
    if let Some(labels) = mesh.control_labels() {
        containers.control_plane = access.containers_of(labels).await?;
    }
    let of = |set, count, container: &str| {
        let name = |index| ContainerName {
            namespace: mesh.namespace(),
            pod: pod_name(set, index),
            container: container.to_owned(),
        };
        (0..count).map(name).collect()
    };
    if plot.workload.is_none() {
        containers.backends = of(BACKEND, plot.settings.backends, CONTAINER);
    }
    match mesh.proxies() {
        Proxies::None => {}
        Proxies::Shared(labels) => containers.shared = access.containers_of(labels).await?,
        Proxies::Sidecars(proxy) => {
            containers.clients = of(LOAD, plot.loads, proxy);
            containers.servers = match plot.workload {
                Some(workload) => workload.proxies(mesh),
                None => of(BACKEND, plot.settings.backends, proxy),
            };
        }
    }
    Ok(containers)
}

#[cfg(test)]
#[path = "stage_tests.rs"]
mod tests;
