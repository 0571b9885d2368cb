//! The cluster as a whole: the user's rights in it, its description, its meshes, and the namespaces of the lab.

use std::fmt::Display;
use std::path::Path;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};

use super::mesh::Mesh;
use super::objects::{self, of_the_lab};
use super::pods::{is_ready, name};
use super::usage::ContainerName;
use crate::error::{Error, Result};
use crate::experiment::record::{Cluster, ClusterNode, Skipped, Version};
use crate::kubernetes::{connect, refused};
use crate::namespaces::RunId;

/// Rights that the lab needs in a cluster: verb, API group, resource, subresource. For the last two subresources, older
/// versions of Kubernetes check the verb `get`, newer versions `create`.
const RIGHTS: [(&str, &str, &str, &str); 15] = [
    ("create", "", "namespaces", ""),
    ("get", "", "namespaces", ""),
    ("delete", "", "namespaces", ""),
    ("list", "", "nodes", ""),
    ("get", "", "nodes", "proxy"),
    ("create", "apps", "statefulsets", ""),
    ("create", "", "services", ""),
    ("list", "", "pods", ""),
    ("get", "", "pods", ""),
    ("patch", "", "pods", ""),
    ("delete", "", "pods", ""),
    ("get", "", "pods", "exec"),
    ("create", "", "pods", "exec"),
    ("get", "", "pods", "portforward"),
    ("create", "", "pods", "portforward"),
];
/// Further rights that the lab needs if it calls a user's own workload.
const WORKLOAD_RIGHTS: [(&str, &str, &str, &str); 2] =
    [("get", "", "services", ""), ("list", "discovery.k8s.io", "endpointslices", "")];

/// A cluster that the lab may use.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) client: Client,
}

/// The meshes of a cluster.
#[derive(Debug, Default)]
pub(super) struct Meshes {
    /// The meshes to measure, each with the version of its control plane.
    pub(super) measured: Vec<(Mesh, Version)>,
    /// The meshes of the cluster that do not work.
    pub(super) left_out: Vec<Skipped>,
}

impl Access {
    /// Connects to the cluster.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used.
    pub(super) async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self> {
        Ok(Self { client: connect(kubeconfig, context).await? })
    }

    /// Checks that the user has the rights that the lab needs. `has_workload` adds the rights for a user's own
    /// workload.
    ///
    /// # Errors
    /// If rights are missing (one line names all of them), or the cluster cannot be reached.
    pub(super) async fn ensure_rights(&self, has_workload: bool) -> Result<()> {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let mut missing = Vec::new();
        let of_workload = WORKLOAD_RIGHTS.into_iter().filter(|_| has_workload);
        for (verb, group, resource, subresource) in RIGHTS.into_iter().chain(of_workload) {
            let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let attributes = ResourceAttributes {
                verb: given(verb),
                group: given(group),
                resource: given(resource),
                subresource: given(subresource),
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
            let review = SelfSubjectAccessReview { spec, ..Default::default() };
            let answer = reviews.create(&PostParams::default(), &review).await;
            let status = answer.map_err(refused("reaching the cluster"))?.status;
            if !status.is_some_and(|status| status.allowed) {
                let subresource = given(subresource).map_or_else(String::new, |name| format!("/{name}"));
                missing.push(format!("{verb} {resource}{subresource}"));
            }
        }
        match &missing[..] {
            [] => Ok(()),
            missing => Err(Error::Cluster {
                what: "the cluster gives this user too few rights".to_owned(),
                why: format!("{} is missing; ask for a ClusterRole with them", missing.join(", ")),
            }),
        }
    }

    /// Checks that no other run uses the namespaces of these meshes.
    ///
    /// # Errors
    /// If a namespace exists.
    pub(super) async fn ensure_free(&self, meshes: &[Mesh]) -> Result<()> {
        for namespace in meshes.iter().map(|mesh| mesh.namespace()) {
            let found = self.namespaces().get_opt(&namespace).await.map_err(refused("looking for namespaces"))?;
            if found.is_some() {
                return Err(taken(&namespace));
            }
        }
        Ok(())
    }

    /// The meshes to measure: the `requested` meshes, or all meshes of the cluster that work.
    ///
    /// # Errors
    /// If a requested mesh is missing in the cluster, or does not work.
    pub(super) async fn meshes(&self, requested: Option<&[Mesh]>) -> Result<Meshes> {
        let mut meshes = Meshes::default();
        for &mesh in requested.unwrap_or(&Mesh::ALL) {
            let version = |version| Version { target: mesh.target(), version };
            let (Some(sign), Some(control)) = (mesh.sign(), mesh.control_labels()) else {
                meshes.measured.push((mesh, version("no mesh".to_owned())));
                continue;
            };
            let pods = self.pods_of(mesh, sign).await?;
            let Some(pod) = pods.iter().find(|pod| is_ready(pod)).or(pods.first()) else {
                if requested.is_some() {
                    let what = format!("--mesh {mesh}: the cluster has no Pod with the labels {sign}");
                    return Err(Error::Cluster { what, why: "install the mesh, or leave it out".to_owned() });
                }
                continue;
            };
            let control_pods = if control == sign { pods.clone() } else { self.pods_of(mesh, control).await? };
            let broken = none_ready(&pods, sign).or_else(|| none_ready(&control_pods, control));
            match (broken, requested) {
                (None, _) => meshes.measured.push((mesh, version(image(pod)))),
                (Some(why), None) => meshes.left_out.push(Skipped { target: mesh.target(), why: left_out(why) }),
                (Some(why), Some(_)) => {
                    let what = format!("--mesh {mesh}: the mesh does not work");
                    return Err(Error::Cluster { what, why: format!("{why}; repair the mesh, or leave it out") });
                }
            }
        }
        Ok(meshes)
    }

    async fn pods_of(&self, mesh: Mesh, labels: &str) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let found = pods.list(&ListParams::default().labels(labels)).await;
        Ok(found.map_err(refused(format!("looking for {mesh}")))?.items)
    }

    /// The names of all nodes, and the description of the cluster.
    ///
    /// # Errors
    /// If the API server rejects a request.
    pub(super) async fn describe(&self, image: &str, load_pods: u32) -> Result<(Vec<String>, Cluster)> {
        let version = self.client.apiserver_version().await.map_err(refused("asking for the cluster's version"))?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let nodes = nodes.list(&ListParams::default()).await.map_err(refused("listing the nodes"))?.items;
        let names = nodes.iter().filter_map(|node| node.metadata.name.clone()).collect();
        let nodes = nodes.iter().map(described).collect();
        let kubernetes = version.git_version;
        Ok((names, Cluster { kubernetes, nodes, image: image.to_owned(), load_pods, placements: Vec::new() }))
    }

    /// Creates the namespace of a mesh for this run. Returns whether this call created it: another run may have created
    /// it before.
    ///
    /// # Errors
    /// If the API server rejects the request. After a time-out, the namespace may exist.
    pub(super) async fn make_namespace(&self, mesh: Mesh, run: &RunId) -> Result<bool> {
        match self.namespaces().create(&PostParams::default(), &run.mark(objects::namespace(mesh))).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            made => made.map(|_| true).map_err(refused(format!("making the namespace {}", mesh.namespace()))),
        }
    }

    /// The names of the lab's namespaces: of this run, and of other runs.
    ///
    /// # Errors
    /// If the API server rejects the request.
    pub(super) async fn lab_namespaces(&self) -> Result<Vec<String>> {
        let found = self.namespaces().list(&ListParams::default().labels(&of_the_lab())).await;
        let found = found.map_err(refused("looking for the lab's namespaces"))?;
        Ok(found.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect())
    }

    /// The containers of the running Pods with these labels, in all namespaces.
    pub(super) async fn containers_of(&self, labels: &str) -> Result<Vec<ContainerName>> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let what = || format!("looking for Pods with the labels {labels}");
        let found = pods.list(&ListParams::default().labels(labels)).await.map_err(refused(what()))?;
        let of = |pod: &Pod| {
            let (namespace, pod_name) = (pod.metadata.namespace.clone().unwrap_or_default(), name(pod));
            let containers = pod.spec.iter().flat_map(|spec| spec.containers.clone());
            containers
                .map(move |container| ContainerName {
                    namespace: namespace.clone(),
                    pod: pod_name.clone(),
                    container: container.name,
                })
                .collect::<Vec<_>>()
        };
        Ok(found.items.iter().filter(|pod| is_running(pod)).flat_map(of).collect())
    }

    fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }
}

/// Returns an error text if none of `pods` is ready, since the mesh cannot work without these Pods. `labels` are the
/// labels of the Pods.
fn none_ready(pods: &[Pod], labels: &str) -> Option<String> {
    let is_broken = !pods.iter().any(is_ready);
    is_broken.then(|| format!("no Pod with the labels {labels} is ready; see kubectl get pods -A -l {labels}"))
}

/// The reason why the lab does not measure a mesh that it found.
pub(super) fn left_out(why: impl Display) -> String {
    format!("found in the cluster, but unusable: {why}")
}

/// Returns whether a Pod runs and is not about to end. A finished Pod has no statistics.
fn is_running(pod: &Pod) -> bool {
    let is_running = pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
    is_running && pod.metadata.deletion_timestamp.is_none()
}

/// The error for a namespace that another run has created.
pub(super) fn taken(namespace: &str) -> Error {
    let why = "another run uses it, or a run was killed; remove what it left: leno lab clean".to_owned();
    Error::Cluster { what: format!("the namespace {namespace} exists already"), why }
}

/// The image of a Pod's first container.
fn image(pod: &Pod) -> String {
    let first = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    first.and_then(|container| container.image.clone()).unwrap_or_default()
}

fn described(node: &Node) -> ClusterNode {
    let capacity = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    let of = |resource: &str| capacity.and_then(|capacity| capacity.get(resource)).map(|quantity| quantity.0.clone());
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    ClusterNode {
        cpus: of("cpu").unwrap_or_default(),
        memory: of("memory").unwrap_or_default(),
        kernel: info.map(|info| info.kernel_version.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
