//! Reads the objects for the checks from the cluster. Each result is the object, or the reason why it could not be
//! read.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::ResourceExt;
use kube::api::{ListParams, ObjectList};
use leno_install::annotations::INJECTED_LABEL;
use leno_install::inject::Options;
use leno_install::names::{
    CONFIG, CONTROL, CONTROL_LABELS, CONTROL_NAMESPACE, GUARD, INJECTOR, ISSUER, PROXY, TRUST_BUNDLE, VALIDATOR,
};

use leno_model::policy::{AuthorizationPolicy, Mode};

use super::cilium;
use super::kubernetes::Routes;
use super::refused::{self, Creators};
use super::trial::{self, Trial};
use crate::cluster::connect::{Cluster, ClusterError};
use crate::cluster::forward::{self, FORWARDS_MAX};
use crate::cluster::identity::{self, Shown};
use crate::cluster::installer::Installer;
use crate::cluster::metrics::{self, PodKey};
use crate::cluster::{pods, policies};
use leno_lab::http::Answer;

/// The CustomResourceDefinitions of Leno's own kinds of objects.
pub(super) const DEFINITIONS: [&str; 2] = ["authorizationpolicies.leno.dev", "trafficpolicies.leno.dev"];

pub(super) type Read<T> = Result<T, ClusterError>;

/// The objects of an installation.
pub(super) struct Installed {
    pub(super) version: Read<Info>,
    /// The configuration of Cilium; `None` if it does not exist or cannot be read.
    pub(super) cilium: Option<ConfigMap>,
    pub(super) namespace: Read<Option<Namespace>>,
    /// The CustomResourceDefinitions in the order of [`DEFINITIONS`]; `None` for a definition that does not exist.
    pub(super) definitions: Read<Vec<Option<CustomResourceDefinition>>>,
    pub(super) deployment: Read<Option<Deployment>>,
    /// The ConfigMap leno-config; `None` if it does not exist or cannot be read.
    pub(super) config: Option<ConfigMap>,
    /// Pods of the control plane.
    pub(super) pods: Read<Vec<Pod>>,
    pub(super) issuer: Read<Option<Secret>>,
    pub(super) namespaces: Read<Vec<Namespace>>,
    /// Pods whose label states that the injector added a container. The label may be wrong, because users can edit it,
    /// and the Pod may have ended.
    pub(super) meshed: Read<Vec<Pod>>,
    /// The Services of all namespaces; `None` if the user may not list them.
    pub(super) services: Read<Option<Vec<Service>>>,
    /// The trust bundles of all namespaces.
    pub(super) bundles: Read<Vec<ConfigMap>>,
    pub(super) injector: Read<Option<MutatingWebhookConfiguration>>,
    pub(super) validator: Read<Option<ValidatingWebhookConfiguration>>,
    /// The ValidatingAdmissionPolicyBinding that puts the guard in force.
    pub(super) guard: Read<Option<ValidatingAdmissionPolicyBinding>>,
    /// The answers from the admin ports of the control plane's ready Pods.
    pub(super) answers: Vec<ControlAnswer>,
    pub(super) routes: Read<Routes>,
    /// The attempt to create a Pod; `None` if no control plane runs that could answer, or if no namespace may have
    /// proxies.
    pub(super) trial: Option<Trial>,
}

/// The answers from the admin port of one Pod of the control plane.
pub(super) struct ControlAnswer {
    pub(super) pod: String,
    pub(super) ready: Read<Answer>,
    pub(super) config: Read<Answer>,
}

/// The objects that concern proxies.
pub(super) struct Proxies {
    /// Every Pod, including Pods without a proxy.
    pub(super) pods: Read<Vec<Pod>>,
    pub(super) creators: Read<Creators>,
    /// Metrics of each running meshed Pod, by namespace and name.
    pub(super) metrics: BTreeMap<PodKey, Read<String>>,
    /// For each proxy, the certificate that it presents to its peers and, if peers would reject it, the reason.
    pub(super) shown: Read<Vec<Shown>>,
    pub(super) services: Read<Vec<Service>>,
    /// Valid policies only; the control plane reports the invalid policies.
    pub(super) policies: Read<Vec<Arc<AuthorizationPolicy>>>,
}

impl Installed {
    /// Returns the injector's options in this installation; the default options if they cannot be read.
    pub(super) fn options(&self) -> Options {
        self.config.as_ref().and_then(options_of).unwrap_or_default()
    }

    /// Returns the program that installed Leno.
    pub(super) fn installer(&self) -> Installer {
        Installer::of(self.config.as_ref(), self.deployment.as_ref().ok().and_then(Option::as_ref))
    }
}

/// Reads an installation.
pub(super) async fn installed(cluster: &Cluster) -> Installed {
    let control = || cluster.within(CONTROL_NAMESPACE);
    let (version, cilium, namespace, definitions, deployment, pods, issuer) = tokio::join!(
        version(cluster),
        cilium_config(cluster),
        cluster.get(cluster.global(), CONTROL_NAMESPACE),
        definitions(cluster),
        cluster.get(cluster.within(CONTROL_NAMESPACE), CONTROL),
        cluster.list(control(), CONTROL_LABELS),
        cluster.get(cluster.within(CONTROL_NAMESPACE), ISSUER),
    );
    let (config, namespaces, meshed, services, bundles, injector, validator, guard, routes) = tokio::join!(
        config_map(cluster, CONTROL_NAMESPACE, CONFIG),
        cluster.list(cluster.global(), ""),
        cluster.list(cluster.within_or_all(None), INJECTED_LABEL),
        cluster.list_if_allowed(cluster.within_or_all(None), ""),
        bundles(cluster),
        cluster.get(cluster.global(), INJECTOR),
        cluster.get(cluster.global(), VALIDATOR),
        cluster.get(cluster.global(), GUARD),
        routes(cluster),
    );
    let running = pods.iter().flatten().filter(|pod| pods::is_alive(pod) && pods::why_not_ready(pod).is_none());
    let running: Vec<(String, u16)> = running.map(|pod| (pod.name_any(), pods::control_admin_port(pod))).collect();
    let ask = |(pod, port)| ask_control(cluster, pod, port);
    let answers = stream::iter(running).map(ask).buffered(FORWARDS_MAX).collect().await;
    let mut installed = Installed {
        version,
        cilium,
        namespace,
        definitions,
        deployment,
        config,
        pods,
        issuer,
        namespaces,
        meshed,
        services,
        bundles,
        injector,
        validator,
        guard,
        answers,
        routes,
        trial: None,
    };
    installed.trial = trial::read(cluster, &installed).await;
    installed
}

/// Reads the objects that concern proxies, in one namespace or in all.
pub(super) async fn proxies(cluster: &Cluster, namespace: Option<&str>) -> Proxies {
    let (pods, creators): (Read<Vec<Pod>>, _) =
        tokio::join!(cluster.list(cluster.within_or_all(namespace), ""), creators(cluster, namespace));
    let is_running = |pod: &&Pod| pods::is_meshed(pod) && pods::is_alive(pod) && pods::is_container_ready(pod, PROXY);
    let running = || pods.iter().flatten().filter(is_running);
    let (services, metrics, shown, policies) = tokio::join!(
        cluster.list(cluster.within_or_all(namespace), ""),
        metrics::texts(cluster, running()),
        identity::shown(cluster, running()),
        policies::list(cluster, namespace),
    );
    let policies = policies.map(|mut found| {
        found.all.retain(|policy| policy.mode != Mode::Unreadable);
        found.all
    });
    Proxies { pods, creators, services, metrics, shown, policies }
}

/// Reads the objects that create Pods, and the Events about Pods that the API server refused. Leaves out the kinds that
/// the user may not list.
async fn creators(cluster: &Cluster, namespace: Option<&str>) -> Read<Creators> {
    let (replica_sets, stateful_sets, daemon_sets, jobs, events) = tokio::try_join!(
        cluster.list_if_allowed(cluster.within_or_all::<ReplicaSet>(namespace), ""),
        cluster.list_if_allowed(cluster.within_or_all::<StatefulSet>(namespace), ""),
        cluster.list_if_allowed(cluster.within_or_all::<DaemonSet>(namespace), ""),
        cluster.list_if_allowed(cluster.within_or_all::<Job>(namespace), ""),
        failed_creates(cluster, namespace),
    )?;
    let unread = [
        ("replicasets", replica_sets.is_none()),
        ("statefulsets", stateful_sets.is_none()),
        ("daemonsets", daemon_sets.is_none()),
        ("jobs", jobs.is_none()),
        ("events", events.is_none()),
    ];
    let next = events.as_ref().and_then(|events| events.metadata.continue_.as_ref());
    Ok(Creators {
        has_more_events: next.is_some_and(|token| !token.is_empty()),
        replica_sets: replica_sets.unwrap_or_default(),
        stateful_sets: stateful_sets.unwrap_or_default(),
        daemon_sets: daemon_sets.unwrap_or_default(),
        jobs: jobs.unwrap_or_default(),
        events: events.map(|events| events.items).unwrap_or_default(),
        unread: unread.into_iter().filter_map(|(kind, is_unread)| is_unread.then_some(kind)).collect(),
        is_of_one_namespace: namespace.is_some(),
    })
}

/// Lists at most [`refused::EVENTS_MAX`] Events about Pods that controllers could not create. `None` if the user may not
/// list Events.
async fn failed_creates(cluster: &Cluster, namespace: Option<&str>) -> Read<Option<ObjectList<Event>>> {
    let reason = format!("reason={}", refused::FAILED_CREATE);
    let params = ListParams::default().fields(&reason).limit(refused::EVENTS_MAX);
    cluster.if_allowed(cluster.within_or_all::<Event>(namespace).list(&params).await)
}

/// Reads the configuration of Cilium; `None` if Cilium is not installed.
pub(super) async fn cilium_config(cluster: &Cluster) -> Option<ConfigMap> {
    config_map(cluster, cilium::NAMESPACE, cilium::CONFIG).await
}

/// Reads a ConfigMap. The user may lack the right to read it, so a failure is not a finding.
async fn config_map(cluster: &Cluster, namespace: &str, name: &str) -> Option<ConfigMap> {
    let config: Read<Option<ConfigMap>> = cluster.get(cluster.within(namespace), name).await;
    config.ok().flatten()
}

/// Returns the options in the ConfigMap, without the fields that only a newer version knows.
pub(super) fn options_of(config: &ConfigMap) -> Option<Options> {
    let text = config.data.as_ref()?.get("inject.yaml")?;
    Options::read_known(text).ok().map(|(options, _)| options)
}

async fn ask_control(cluster: &Cluster, pod: String, port: u16) -> ControlAnswer {
    let get = |path| forward::get(cluster, CONTROL_NAMESPACE, &pod, port, path);
    let (ready, config) = tokio::join!(get("/ready"), get("/config"));
    ControlAnswer { ready, config, pod }
}

pub(super) async fn version(cluster: &Cluster) -> Read<Info> {
    cluster.client.apiserver_version().await.map_err(|error| cluster.explain(&error))
}

async fn definitions(cluster: &Cluster) -> Read<Vec<Option<CustomResourceDefinition>>> {
    let mut found = Vec::new();
    for name in DEFINITIONS {
        found.push(cluster.get(cluster.global(), name).await?);
    }
    Ok(found)
}

/// Reads which Gateway API routes are installed.
pub(super) async fn routes(cluster: &Cluster) -> Read<Routes> {
    let mut routes = Routes::default();
    for name in Routes::definitions() {
        routes.note(name, cluster.get(cluster.global(), name).await?.as_ref());
    }
    Ok(routes)
}

async fn bundles(cluster: &Cluster) -> Read<Vec<ConfigMap>> {
    let named = ListParams::default().fields(&format!("metadata.name={TRUST_BUNDLE}"));
    let all = cluster.within_or_all::<ConfigMap>(None).list(&named).await;
    all.map(|list| list.items).map_err(|error| cluster.explain(&error))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
