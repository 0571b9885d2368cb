//! `leno check --pre`: checks whether Leno can be installed in a cluster.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::ResourceExt;
use kube::api::PostParams;
use leno_install::chart::{ChartError, default_values, objects, set_value};
use leno_install::names::{CONTROL, CONTROL_NAMESPACE, GUARD, INJECTOR, VALIDATOR, VERSION_LABEL};
use serde_json::Value;

use super::cilium;
use super::images;
use super::kubernetes::{self, API_SERVER};
use super::read;
use super::report::{Checklist, Finding};
use crate::cluster::connect::{Cluster, ClusterError};

/// The installation that the user plans.
pub(super) struct Plan {
    pub(super) values: Value,
    creations: BTreeSet<Creation>,
}

/// A kind of object that the installation creates, in one namespace or cluster-wide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Creation {
    group: String,
    /// The kind's plural in lower case, as in the paths of the Kubernetes API.
    resource: String,
    /// `None` for cluster-wide kinds.
    namespace: Option<String>,
}

pub(super) struct Facts {
    version: Result<Info, ClusterError>,
    /// The configuration of Cilium; `None` if it does not exist or cannot be read.
    cilium: Option<ConfigMap>,
    /// Kinds of objects that the user may not create, in the form `clusterroles.rbac.authorization.k8s.io`.
    forbidden: Result<Vec<String>, ClusterError>,
    deployment: Result<Option<Deployment>, ClusterError>,
    /// Names of Leno's webhook configurations and guard that remain from an earlier installation. They make the API
    /// server refuse Pods while no control plane runs.
    webhooks: Result<Vec<String>, ClusterError>,
    nodes: Result<Vec<Node>, ClusterError>,
    routes: Result<kubernetes::Routes, ClusterError>,
}

impl Plan {
    /// Plans an installation with the chart's default values. Each text in `set`, for example `control.replicas=3`,
    /// changes one value.
    ///
    /// # Errors
    /// If the chart does not accept a name or a value.
    pub(super) fn new(set: &[String]) -> Result<Self, ChartError> {
        let mut values = default_values(false)?;
        for set in set {
            set_value(&mut values, set)?;
        }
        // This command has no option --ha, so always include the kinds of objects that `leno install --ha` creates.
        let all = [objects(&values)?, objects(&default_values(true)?)?].concat();
        Ok(Self { values, creations: all.iter().map(creation).collect() })
    }
}

pub(super) async fn read(cluster: &Cluster, plan: &Plan) -> Facts {
    let (version, cilium, forbidden, deployment, webhooks, nodes, routes) = tokio::join!(
        read::version(cluster),
        read::cilium_config(cluster),
        forbidden(cluster, &plan.creations),
        cluster.get(cluster.within::<Deployment>(CONTROL_NAMESPACE), CONTROL),
        webhooks(cluster),
        cluster.list(cluster.global(), ""),
        read::routes(cluster),
    );
    Facts { version, cilium, forbidden, deployment, webhooks, nodes, routes }
}

/// Checks whether the planned installation can succeed.
pub(super) fn conclude(facts: &Facts, plan: &Plan) -> Checklist {
    let mut list = Checklist::default();
    kubernetes::conclude(&mut list, &facts.version);
    cilium::conclude(&mut list, facts.cilium.as_ref());
    list.section("you");
    list.check("rights", &[API_SERVER], || match &facts.forbidden {
        Ok(forbidden) => rights(forbidden),
        Err(error) => error.into(),
    });
    list.section("room for Leno");
    list.check("installation", &[API_SERVER], || installation(facts));
    list.check("images", &[API_SERVER], || match &facts.nodes {
        Ok(nodes) => images::conclude(&images::images(&plan.values), nodes),
        // A user who may not list nodes can still install Leno, so only warn.
        Err(error) => Finding::from(error).into_warning(),
    });
    kubernetes::gateway(&mut list, &facts.routes);
    list
}

fn rights(forbidden: &[String]) -> Finding {
    match forbidden {
        [] => Finding::ok("you may create all that an installation is made of"),
        [first, ..] => Finding::failed(
            format!("you may not create {}", forbidden.join(", ")),
            format!("have an administrator of the cluster install it; kubectl auth can-i create {first}"),
        ),
    }
}

fn installation(facts: &Facts) -> Finding {
    let (deployment, webhooks) = match (&facts.deployment, &facts.webhooks) {
        (Ok(deployment), Ok(webhooks)) => (deployment, webhooks),
        (Err(error), _) | (_, Err(error)) => return error.into(),
    };
    match (deployment, webhooks.as_slice()) {
        (Some(deployment), _) => {
            let version = deployment.labels().get(VERSION_LABEL).map_or("an unknown version", String::as_str);
            Finding::warning(
                format!("Leno is installed: {version}"),
                "leno upgrade | kubectl apply -f - to change it, leno check to check it",
            )
        }
        (None, []) => Finding::ok("none is here"),
        (None, left) => Finding::failed(
            format!("an earlier installation left {}, without which Pods may not start", left.join(" and ")),
            "leno uninstall | kubectl delete -f -",
        ),
    }
}

fn creation(object: &Value) -> Creation {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    Creation {
        group: text("/apiVersion").split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default(),
        resource: plural(&text("/kind").to_lowercase()),
        namespace: object.pointer("/metadata/namespace").and_then(Value::as_str).map(str::to_owned),
    }
}

/// Returns the plural of a kind, by a rule that holds for every kind in the chart.
fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}

impl Creation {
    fn name(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }

    fn review(&self) -> SelfSubjectAccessReview {
        let attributes = ResourceAttributes {
            group: Some(self.group.clone()),
            resource: Some(self.resource.clone()),
            namespace: self.namespace.clone(),
            verb: Some("create".to_owned()),
            ..Default::default()
        };
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
        SelfSubjectAccessReview { spec, ..Default::default() }
    }
}

async fn forbidden(cluster: &Cluster, creations: &BTreeSet<Creation>) -> Result<Vec<String>, ClusterError> {
    let reviews = cluster.global::<SelfSubjectAccessReview>();
    let mut forbidden = Vec::new();
    for creation in creations {
        let review = reviews.create(&PostParams::default(), &creation.review()).await;
        let review = review.map_err(|error| cluster.explain(&error))?;
        if !review.status.is_some_and(|status| status.allowed) {
            forbidden.push(creation.name());
        }
    }
    Ok(forbidden)
}

async fn webhooks(cluster: &Cluster) -> Result<Vec<String>, ClusterError> {
    let injector = cluster.get(cluster.global::<MutatingWebhookConfiguration>(), INJECTOR).await?;
    let validator = cluster.get(cluster.global::<ValidatingWebhookConfiguration>(), VALIDATOR).await?;
    let injector = injector.map(|_| format!("MutatingWebhookConfiguration {INJECTOR}"));
    let validator = validator.map(|_| format!("ValidatingWebhookConfiguration {VALIDATOR}"));
    let guard = cluster.get(cluster.global::<ValidatingAdmissionPolicyBinding>(), GUARD).await?;
    let guard = guard.map(|_| format!("ValidatingAdmissionPolicyBinding {GUARD}"));
    Ok(injector.into_iter().chain(validator).chain(guard).collect())
}

#[cfg(test)]
#[path = "pre_tests.rs"]
mod tests;
