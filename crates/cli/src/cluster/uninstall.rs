//! `leno uninstall`: prints the objects of an installation that the cluster has, for `kubectl delete`.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::{self, Debug};
use std::io::{self, Write};

use clap::Args;
use futures_util::future::try_join_all;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ResourceQuota, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Resource, ResourceExt};
use leno_install::annotations::{INJECT, INJECTED_LABEL};
use leno_install::names::{CONTROL_NAMESPACE, GRPC, HELM_RELEASE, PROXY, TRUST_BUNDLE};
use leno_install::yaml;
use serde_json::{Value, json};

use super::connect::{Cluster, ClusterError, Connect};
use super::printable::{cut, listed};
use super::{pods, policies};

/// Label of the objects that the chart creates.
pub(super) const CHART_LABEL: &str = "app.kubernetes.io/part-of=leno";

/// Labels of an installation's objects: the chart's objects have the first, the control plane's objects the second.
const LABELS: [&str; 2] = [CHART_LABEL, "app.kubernetes.io/managed-by=leno-control"];

/// Kinds of the Prometheus Operator. The chart creates objects of these kinds if monitoring is enabled.
const MONITORING: [&str; 2] = ["PodMonitor", "PrometheusRule"];

/// Maximum number of names that a warning lists.
const NAMED_MAX: usize = 5;

/// Order in which `kubectl delete` deletes the objects. First the objects that can make the API server refuse Pods,
/// then the Deployment, which would create deleted objects again, and last the namespace.
const ORDER: [&str; 20] = [
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "Deployment",
    "ClusterRoleBinding",
    "RoleBinding",
    "ClusterRole",
    "Role",
    "PodDisruptionBudget",
    "ResourceQuota",
    "NetworkPolicy",
    "PodMonitor",
    "PrometheusRule",
    "Service",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "CustomResourceDefinition",
    "Namespace",
];

/// Options of `leno uninstall`.
#[derive(Args)]
pub(crate) struct Options {
    /// Keep the custom resource definitions, and with them all policies
    #[arg(long)]
    keep_crds: bool,
    #[command(flatten)]
    connect: Connect,
}

/// The result of [`find`].
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub(super) objects: Vec<Found>,
    /// Kinds in [`MONITORING`] that the user may not list.
    unlisted: BTreeSet<&'static str>,
}

/// An object of the installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// Whether the object belongs to a Helm release.
    pub(super) is_helms: bool,
}

impl Found {
    /// Returns whether an object with one of [`LABELS`] belongs to an installation of Leno. Users may give the chart's
    /// label to objects of their own, which `leno` must never suggest to delete.
    pub(super) fn is_lenos(&self) -> bool {
        match (&*self.kind, self.namespace.as_deref()) {
            ("Namespace", _) => self.name == CONTROL_NAMESPACE,
            ("CustomResourceDefinition", _) => self.name.ends_with(".leno.dev"),
            (_, None) => self.name.starts_with("leno-"),
            (_, Some(CONTROL_NAMESPACE)) => true,
            // The control plane writes the trust bundle into every meshed namespace.
            (kind, Some(_)) => kind == "ConfigMap" && self.name == TRUST_BUNDLE,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        self.namespace.iter().try_for_each(|namespace| write!(f, "{namespace}/"))?;
        f.write_str(&self.name)
    }
}

/// Objects that do not belong to the installation, but that its removal affects.
#[derive(Debug, Default)]
struct Bystanders {
    /// Pods with a container of the mesh, which needs certificates from the control plane.
    meshed: Vec<Pod>,
    /// The number of policies of each kind, with the plural of the kind's name.
    policies: Vec<(&'static str, usize)>,
}

impl Options {
    /// Writes the objects, and warns about workloads and policies that their deletion affects.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let (mut inventory, bystanders) = super::block_on(async {
            let cluster = self.connect.cluster().await?;
            let bystanders = bystanders(&cluster);
            let (inventory, bystanders) = tokio::try_join!(find(&cluster, &LABELS), bystanders)?;
            Ok::<_, ClusterError>((inventory, bystanders))
        })??;
        inventory.objects.retain(|object| !self.keep_crds || object.kind != "CustomResourceDefinition");
        let others: Vec<Found> = inventory.objects.extract_if(.., |object| !object.is_lenos()).collect();
        io::stdout().write_all(text(&mut inventory.objects).as_bytes())?;
        for line in warnings(&inventory.objects, &bystanders).into_iter().chain(kept(&others)) {
            eprintln!("leno: {line}");
        }
        if let Some(unseen) = inventory.unseen() {
            eprintln!("leno: {unseen}; Kubernetes deletes such objects with the namespace");
        }
        Ok(())
    }
}

/// The objects as YAML, reduced to the fields that `kubectl delete` needs.
fn text(found: &mut Vec<Found>) -> String {
    sort(found);
    found.iter().map(|object| format!("---\n{}", yaml::write(&object.minimal()))).collect()
}

/// Sorts objects by [`ORDER`].
pub(super) fn sort(found: &mut Vec<Found>) {
    let place = |object: &Found| ORDER.iter().position(|kind| *kind == object.kind).unwrap_or(ORDER.len());
    found.sort_by(|a, b| (place(a), &a.namespace, &a.name).cmp(&(place(b), &b.namespace, &b.name)));
    // Remove duplicates: an object with both of [`LABELS`] was found twice.
    found.dedup();
}

fn warnings(found: &[Found], bystanders: &Bystanders) -> Vec<String> {
    let mut lines = Vec::new();
    if found.is_empty() {
        lines.push("this cluster has no object of Leno".to_owned());
    }
    if found.iter().any(|object| object.is_helms) {
        lines.push(format!(
            "Helm installed this: helm uninstall leno --namespace {CONTROL_NAMESPACE} removes the release record too"
        ));
    }
    if let [first, ..] = bystanders.meshed.as_slice() {
        let shown = first_of(bystanders.meshed.iter().map(workload));
        let namespace = first.namespace().unwrap_or_default();
        lines.push(format!(
            "Pods whose {PROXY} or {GRPC} can no longer renew its certificate and will stop within a day: {} ({shown}); \
             before you uninstall, {}, then {}",
            bystanders.meshed.len(),
            removal(first),
            pods::owner(first).restart(&namespace)
        ));
    }
    let policies = bystanders.policies.iter().filter(|(_, count)| *count > 0);
    if found.iter().any(|object| object.kind == "CustomResourceDefinition") {
        lines.extend(policies.map(|(kind, count)| {
            format!("{kind} that Kubernetes deletes with their definition: {count}; --keep-crds keeps them")
        }));
    }
    lines
}

/// Returns a line about objects that have the chart's label and belong to a user; `None` without such an object.
fn kept(others: &[Found]) -> Option<String> {
    let shown = first_of(others.iter().map(Found::to_string));
    (!others.is_empty())
        .then(|| format!("not of this installation although labelled {CHART_LABEL}, so not listed: {shown}"))
}

/// Returns the first [`NAMED_MAX`] names, sorted and without duplicates, and the number of the other names.
fn first_of(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect::<BTreeSet<_>>().into_iter().collect();
    let omitted = cut(&mut names, NAMED_MAX);
    listed(&names, omitted)
}

/// The workload of a Pod, in the form `deployment shop/web`.
fn workload(pod: &Pod) -> String {
    let owner = pods::owner(pod);
    format!("{} {}/{}", owner.kind, pod.namespace().unwrap_or_default(), owner.name)
}

/// Returns how to make the Pod's successor start without a proxy: with the Pod's own annotation if it has one, because its
/// namespace may have one too.
fn removal(pod: &Pod) -> String {
    let place = if pods::owner(pod).kind == "pod" { "manifest" } else { "Pod template" };
    match pod.annotations().contains_key(INJECT) {
        true => format!("set the annotation {INJECT} to disabled in the {place} of {}", workload(pod)),
        false => format!("run kubectl annotate namespace {} {INJECT}-", pod.namespace().unwrap_or_default()),
    }
}

/// Finds the installation's objects that have at least one of `labels`.
pub(super) async fn find(cluster: &Cluster, labels: &[&str]) -> Result<Inventory, ClusterError> {
    let lists = labels.iter().map(|labels| async move {
        let global = tokio::try_join!(
            list(cluster, cluster.global::<Namespace>(), labels),
            list(cluster, cluster.global::<CustomResourceDefinition>(), labels),
            list(cluster, cluster.global::<ClusterRole>(), labels),
            list(cluster, cluster.global::<ClusterRoleBinding>(), labels),
            list(cluster, cluster.global::<MutatingWebhookConfiguration>(), labels),
            list(cluster, cluster.global::<ValidatingWebhookConfiguration>(), labels),
            list(cluster, cluster.global::<ValidatingAdmissionPolicyBinding>(), labels),
            list(cluster, cluster.global::<ValidatingAdmissionPolicy>(), labels),
            list(cluster, cluster.within_or_all::<ConfigMap>(None), labels),
        )?;
        let own = tokio::try_join!(
            list(cluster, cluster.within::<Deployment>(CONTROL_NAMESPACE), labels),
            list(cluster, cluster.within::<PodDisruptionBudget>(CONTROL_NAMESPACE), labels),
            list(cluster, cluster.within::<ResourceQuota>(CONTROL_NAMESPACE), labels),
            list(cluster, cluster.within::<NetworkPolicy>(CONTROL_NAMESPACE), labels),
            list(cluster, cluster.within::<Service>(CONTROL_NAMESPACE), labels),
            list(cluster, cluster.within::<ServiceAccount>(CONTROL_NAMESPACE), labels),
            list(cluster, cluster.within::<Role>(CONTROL_NAMESPACE), labels),
            list(cluster, cluster.within::<RoleBinding>(CONTROL_NAMESPACE), labels),
            list(cluster, cluster.within::<Secret>(CONTROL_NAMESPACE), labels),
        )?;
        let (a, b, c, d, e, f, g, h, i) = global;
        let (j, k, l, m, n, o, p, q, r) = own;
        Ok([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r].concat())
    });
    let (lists, mut inventory) = tokio::try_join!(try_join_all(lists), find_monitoring(cluster, labels))?;
    inventory.objects.extend(lists.concat());
    Ok(inventory)
}

/// Lists one kind's objects; requests metadata only.
async fn list<K>(cluster: &Cluster, api: Api<K>, labels: &str) -> Result<Vec<Found>, ClusterError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + serde::de::DeserializeOwned,
{
    let all = api.list_metadata(&ListParams::default().labels(labels)).await;
    let all = all.map_err(|error| cluster.explain(&error))?;
    Ok(all.items.iter().map(|object| Found::named::<K>(&object.metadata)).collect())
}

/// Finds the objects of the kinds [`MONITORING`]. Finds none if the cluster lacks these kinds. If the user lacks the
/// right to list them, records the kind in `unlisted` instead of failing.
async fn find_monitoring(cluster: &Cluster, labels: &[&str]) -> Result<Inventory, ClusterError> {
    let mut inventory = Inventory::default();
    for kind in MONITORING {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("monitoring.coreos.com", "v1", kind));
        let api = Api::<DynamicObject>::namespaced_with(cluster.client.clone(), CONTROL_NAMESPACE, &resource);
        for labels in labels {
            let Some(objects) = cluster.list_if_allowed(api.clone(), labels).await? else {
                inventory.unlisted.insert(kind);
                break;
            };
            let found = objects.iter().map(|object| Found::of(&resource.api_version, kind, &object.metadata));
            inventory.objects.extend(found);
        }
    }
    Ok(inventory)
}

async fn bystanders(cluster: &Cluster) -> Result<Bystanders, ClusterError> {
    let all = |resource| Api::<DynamicObject>::all_with(cluster.client.clone(), &resource);
    let (authorization, traffic, meshed) = tokio::try_join!(
        cluster.list(all(policies::resource()), ""),
        cluster.list(all(policies::traffic_resource()), ""),
        cluster.list(cluster.within_or_all::<Pod>(None), INJECTED_LABEL),
    )?;
    let meshed = meshed.into_iter().filter(stays_with_a_proxy).collect();
    let policies = vec![("AuthorizationPolicies", authorization.len()), ("TrafficPolicies", traffic.len())];
    Ok(Bystanders { meshed, policies })
}

/// Whether a Pod has a container of the mesh and remains after the uninstallation. The control plane's own Pods do not
/// remain.
fn stays_with_a_proxy(pod: &Pod) -> bool {
    pods::is_alive_with_sidecar(pod) && !pods::is_control(pod)
}

impl Inventory {
    /// Names the kinds that [`find`] could not list; `None` if it listed all kinds.
    pub(super) fn unseen(&self) -> Option<String> {
        let kinds: Vec<&str> = self.unlisted.iter().copied().collect();
        (!kinds.is_empty()).then(|| {
            let kinds = kinds.join(" or ");
            format!("cannot tell whether namespace {CONTROL_NAMESPACE} has a {kinds} of Leno: you may not list them")
        })
    }
}

impl Found {
    fn named<K: Resource<DynamicType = ()>>(metadata: &kube::api::ObjectMeta) -> Self {
        Self::of(&K::api_version(&()), &K::kind(&()), metadata)
    }

    fn of(api_version: &str, kind: &str, metadata: &kube::api::ObjectMeta) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
            is_helms: metadata.annotations.iter().flatten().any(|(key, _)| key == HELM_RELEASE),
        }
    }

    fn minimal(&self) -> Value {
        let mut metadata = json!({"name": self.name});
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = namespace.as_str().into();
        }
        json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata})
    }
}

#[cfg(test)]
#[path = "uninstall_tests.rs"]
mod tests;
