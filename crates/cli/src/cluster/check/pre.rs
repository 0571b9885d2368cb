//! `leno check --pre`: checks whether Leno can be installed in a cluster.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::ResourceExt;
use kube::api::{ObjectMeta, PostParams};
use leno_install::chart::{ChartError, default_values, objects, set_value};
use leno_install::names::{CONTROL, CONTROL_NAMESPACE, GUARD, INJECTOR, VALIDATOR, VERSION_LABEL};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cilium;
use super::images;
use super::kubernetes::{self, API_SERVER};
use super::read;
use super::report::{Checklist, Finding};
use crate::cluster::connect::{Cluster, ClusterError};
use crate::cluster::forbidden::Forbidden;
use crate::cluster::installer::Installer;
use crate::cluster::printable::line;

/// The verbs that `kubectl apply` needs: it reads each object, then creates it or, if it exists, patches it.
const VERBS: [&str; 3] = ["create", "get", "patch"];

/// API group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Words of the API server if a webhook declares side effects, so that the API server cannot call it in a dry run.
const NO_DRY_RUN: &str = "does not support dry run";

/// Maximum length of a message of the API server in a finding, in characters. If the API server refuses a role, its
/// message lists every right that the user lacks.
const MESSAGE_MAX: usize = 300;

/// The installation that the user plans.
pub(super) struct Plan {
    pub(super) values: Value,
    creations: BTreeSet<Creation>,
    cluster_roles: Vec<ClusterRole>,
    roles: Vec<Role>,
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
    lacks: Result<Lacks, ClusterError>,
    deployment: Result<Option<Deployment>, ClusterError>,
    /// Names of Leno's webhook configurations and guard that remain from an earlier installation. They make the API
    /// server refuse Pods while no control plane runs.
    webhooks: Result<Vec<String>, ClusterError>,
    nodes: Result<Vec<Node>, ClusterError>,
    routes: Result<kubernetes::Routes, ClusterError>,
}

/// The rights for the installation that the user lacks.
#[derive(Debug, Default)]
struct Lacks {
    /// For each verb that the user lacks for some kinds of objects, these kinds, in the form
    /// `clusterroles.rbac.authorization.k8s.io`.
    verbs: Vec<(&'static str, Vec<String>)>,
    roles: Vec<RefusedRole>,
}

/// A role that the API server would refuse to create or to bind, with its kind and name, as `ClusterRole leno-control`.
#[derive(Debug)]
enum RefusedRole {
    /// The user does not hold the rights that the role grants, and may not grant rights without holding them.
    NotHeld { role: String, message: String },
    /// The user may create the role, but not bind it.
    NotBound { role: String },
    /// The API server refuses the role for another reason.
    Unknown { role: String, message: String },
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
        let planned = objects(&values)?;
        let (cluster_roles, roles) = (of_kind(&planned, "ClusterRole"), of_kind(&planned, "Role"));
        // This command has no option --ha, so always include the kinds of objects that `leno install --ha` creates.
        let all = [planned, objects(&default_values(true)?)?].concat();
        Ok(Self { values, creations: all.iter().map(creation).collect(), cluster_roles, roles })
    }
}

pub(super) async fn read(cluster: &Cluster, plan: &Plan) -> Facts {
    let (version, cilium, lacks, deployment, webhooks, nodes, routes) = tokio::join!(
        read::version(cluster),
        read::cilium_config(cluster),
        lacks(cluster, plan),
        cluster.get(cluster.within::<Deployment>(CONTROL_NAMESPACE), CONTROL),
        webhooks(cluster),
        cluster.list(cluster.global(), ""),
        read::routes(cluster),
    );
    Facts { version, cilium, lacks, deployment, webhooks, nodes, routes }
}

/// Checks whether the planned installation can succeed.
pub(super) fn conclude(facts: &Facts, plan: &Plan) -> Checklist {
    let mut list = Checklist::default();
    kubernetes::conclude(&mut list, &facts.version);
    cilium::conclude(&mut list, facts.cilium.as_ref());
    list.section("you");
    list.check("rights", &[API_SERVER], || match &facts.lacks {
        Ok(lacks) => rights(lacks),
        Err(error) => vec![error.into()],
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

fn rights(lacks: &Lacks) -> Vec<Finding> {
    let administrator = "have an administrator of the cluster install it";
    let verbs = lacks.verbs.iter().map(|(verb, kinds)| {
        let first = kinds.first().map_or("", String::as_str);
        Finding::failed(
            format!("you may not {verb} {}", kinds.join(", ")),
            format!("{administrator}; kubectl auth can-i {verb} {first}"),
        )
    });
    let roles = lacks.roles.iter().map(|refused| match refused {
        RefusedRole::NotHeld { role, message } => Finding::failed(
            format!("you may not grant the rights of {role}, because you do not hold them all: {}", brief(message)),
            format!("{administrator}, or give you the verbs escalate and bind for roles and clusterroles"),
        ),
        RefusedRole::NotBound { role } => Finding::failed(
            format!("you may create {role}, but not bind it"),
            format!("{administrator}, or give you the verb bind for roles and clusterroles"),
        ),
        RefusedRole::Unknown { role, message } if message.contains(NO_DRY_RUN) => Finding::warning(
            format!(
                "cannot tell whether you may create {role}, because a webhook of another product does not support dry runs: {}",
                brief(message)
            ),
            "kubectl auth can-i --list shows your rights: you need all rights of the role, or the verbs escalate and bind",
        ),
        RefusedRole::Unknown { role, message } => Finding::warning(
            format!("cannot tell whether you may create {role}: {}", brief(message)),
            "correct what the message names; a webhook or a policy of another product may refuse the role",
        ),
    });
    let findings: Vec<Finding> = verbs.chain(roles).collect();
    if findings.is_empty() {
        return vec![Finding::ok(
            "you may create all that an installation is made of, change it, and grant its rights",
        )];
    }
    findings
}

/// Puts the API server's message on one line, and cuts it.
fn brief(message: &str) -> String {
    let message = line(message);
    match message.char_indices().nth(MESSAGE_MAX).and_then(|(end, _)| message.get(..end)) {
        Some(head) => format!("{head}..."),
        None => message,
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
                format!("to upgrade it: {}; to check it: leno check", Installer::of(None, Some(deployment)).upgrade()),
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

    fn attributes(&self, verb: &str) -> ResourceAttributes {
        ResourceAttributes {
            group: Some(self.group.clone()),
            resource: Some(self.resource.clone()),
            namespace: self.namespace.clone(),
            verb: Some(verb.to_owned()),
            ..Default::default()
        }
    }
}

/// Asks the API server whether the user has a right.
async fn is_allowed(cluster: &Cluster, attributes: ResourceAttributes) -> Result<bool, ClusterError> {
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    let reviews = cluster.global::<SelfSubjectAccessReview>();
    let answer = reviews.create(&PostParams::default(), &review).await.map_err(|error| cluster.explain(&error))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn lacks(cluster: &Cluster, plan: &Plan) -> Result<Lacks, ClusterError> {
    let mut lacks = Lacks::default();
    for verb in VERBS {
        let asked = plan.creations.iter().map(|creation| is_allowed(cluster, creation.attributes(verb)));
        let answers = try_join_all(asked).await?;
        let missing = plan.creations.iter().zip(answers).filter(|(_, is_allowed)| !is_allowed);
        let missing: Vec<String> = missing.map(|(creation, _)| creation.name()).collect();
        if !missing.is_empty() {
            lacks.verbs.push((verb, missing));
        }
    }
    for role in &plan.cluster_roles {
        let created = try_cluster_role(cluster, role).await;
        lacks.roles.extend(refused(cluster, &role.name_any(), None, created).await?);
    }
    for role in &plan.roles {
        let namespace = role.namespace().unwrap_or_default();
        let mut created = cluster.within::<Role>(&namespace).create(&dry_run(), role).await.map(drop);
        if is_status(&created, 404) {
            // Before an installation, the namespace does not exist, and no RoleBinding can give rights in it. So the
            // user must hold the rights of the role in the whole cluster.
            let metadata = ObjectMeta { name: Some(role.name_any()), ..Default::default() };
            let cluster_role = ClusterRole { metadata, rules: role.rules.clone(), ..Default::default() };
            created = try_cluster_role(cluster, &cluster_role).await;
        }
        lacks.roles.extend(refused(cluster, &role.name_any(), Some(&namespace), created).await?);
    }
    Ok(lacks)
}

pub(super) fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// Asks the API server to create a ClusterRole, as a dry run. Only the API server can tell whether the user holds the
/// rights that the role grants: it compares them with the user's roles, and not with other authorizers.
async fn try_cluster_role(cluster: &Cluster, role: &ClusterRole) -> Result<(), kube::Error> {
    cluster.global::<ClusterRole>().create(&dry_run(), role).await.map(drop)
}

/// Whether the API server refused a request with this status code.
fn is_status(answer: &Result<(), kube::Error>, code: u16) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == code)
}

/// Concludes from the API server's answer whether the user may create the role `name` and bind it. `namespace` is
/// `None` for a ClusterRole.
async fn refused(
    cluster: &Cluster,
    name: &str,
    namespace: Option<&str>,
    created: Result<(), kube::Error>,
) -> Result<Option<RefusedRole>, ClusterError> {
    let (kind, resource) = if namespace.is_some() { ("Role", "roles") } else { ("ClusterRole", "clusterroles") };
    let role = format!("{kind} {name}");
    match created {
        Ok(()) => {}
        // The role exists. The API server compares the rights before it looks for the name.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(kube::Error::Api(status)) => {
            return Ok(match Forbidden::of(&status.message) {
                Forbidden::Escalation => Some(RefusedRole::NotHeld { role, message: status.message }),
                // The user may not create roles at all, which the check of the verbs reports.
                Forbidden::Rights => None,
                _ => Some(RefusedRole::Unknown { role, message: status.message }),
            });
        }
        Err(error) => return Err(cluster.explain(&error)),
    }
    // A user may bind a role whose rights the user holds. A user with the verb escalate may create a role without
    // holding its rights, and needs the verb bind too. No dry run shows this, because the role does not exist yet.
    let right = |verb: &str, name: Option<String>| ResourceAttributes {
        group: Some(RBAC.to_owned()),
        resource: Some(resource.to_owned()),
        namespace: namespace.map(str::to_owned),
        verb: Some(verb.to_owned()),
        name,
        ..Default::default()
    };
    let may_escalate = is_allowed(cluster, right("escalate", None)).await?;
    let is_bound = !may_escalate || is_allowed(cluster, right("bind", Some(name.to_owned()))).await?;
    Ok((!is_bound).then_some(RefusedRole::NotBound { role }))
}

/// Returns the objects of one kind.
fn of_kind<K: DeserializeOwned>(objects: &[Value], kind: &str) -> Vec<K> {
    let of_kind = objects.iter().filter(|object| object["kind"] == kind);
    of_kind.map(|object| serde_json::from_value(object.clone()).expect("the chart has valid objects")).collect()
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
