//! Finds workloads whose Pods the API server refuses because of the mesh.
//!
//! The status of a workload shows whether it lacks Pods, and Events show why. An Event stays for an hour, so the Event
//! alone does not show that the API server still refuses the Pods.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt;
use leno_install::annotations::INJECT;
use leno_install::names::{GRPC, GUARD, INIT, POD_SECURITY, PROXY};

use super::report::Finding;
use crate::cluster::forbidden::Forbidden;
use crate::cluster::pods::Owner;
use crate::cluster::printable::line;

/// Maximum number of Events that one check reads. A controller writes at most a few dozen Events for one workload.
pub(super) const EVENTS_MAX: u32 = 1_000;

/// Reason of the Events that controllers write when they cannot create a Pod.
pub(super) const FAILED_CREATE: &str = "FailedCreate";

/// Name of the injector's webhook. The API server quotes this name in its message when it refuses a Pod.
pub(super) const WEBHOOK: &str = "inject.leno.dev";

/// The objects that create Pods, and the Events about Pods that they could not create.
#[derive(Debug, Default)]
pub(super) struct Creators {
    /// ReplicaSets create the Pods of Deployments.
    pub(super) replica_sets: Vec<ReplicaSet>,
    pub(super) stateful_sets: Vec<StatefulSet>,
    pub(super) daemon_sets: Vec<DaemonSet>,
    pub(super) jobs: Vec<Job>,
    /// Events with the reason [`FAILED_CREATE`].
    pub(super) events: Vec<Event>,
    /// Whether there are more than [`EVENTS_MAX`] such Events.
    pub(super) has_more_events: bool,
    /// The resources above that the user may not list, as `statefulsets`. Their lists are empty.
    pub(super) unread: Vec<&'static str>,
    /// Whether only one namespace was read.
    pub(super) is_of_one_namespace: bool,
}

/// A workload that lacks Pods.
struct Lacking<'a> {
    metadata: &'a ObjectMeta,
    workload: Owner,
    /// The reason in the workload's status, if the status has one.
    told: Option<&'a str>,
}

/// Returns a finding for each workload whose Pods the API server refuses because of the mesh. `meshed` lists the
/// namespaces with proxies or gRPC sidecars. `pods` are all Pods, even Pods that have ended: they show that the API
/// server has accepted Pods of their workload.
pub(super) fn findings(creators: &Creators, meshed: &[String], pods: &[Pod]) -> Vec<Finding> {
    // A Deployment may have several ReplicaSets: report each workload once.
    let mut found = BTreeMap::new();
    for one in creators.lacking() {
        let Some(message) = creators.refusal(&one, pods) else { continue };
        let namespace = one.metadata.namespace.clone().unwrap_or_default();
        if is_of_the_mesh(&message, meshed.contains(&namespace)) {
            found.entry((namespace, one.workload)).or_insert(message);
        }
    }
    let finding = |((namespace, workload), message): (&(String, Owner), &String)| {
        let Owner { kind, name } = workload;
        let why = format!("Pods of {kind} {namespace}/{name} are refused: {}", line(message));
        Finding::failed(why, fix(message, namespace, workload))
    };
    let mut findings: Vec<Finding> = found.iter().map(finding).collect();
    if creators.has_more_events {
        let fix = match creators.is_of_one_namespace {
            true => {
                "correct the workloads that this check names, and run it again in an hour, when these Events have expired"
            }
            false => "leno check --proxy -n NAMESPACE reads the Events of one namespace",
        };
        findings.push(Finding::warning(
            format!("there are more than {EVENTS_MAX} Events {FAILED_CREATE}, and this check has read no more of them"),
            fix,
        ));
    }
    if !creators.unread.is_empty() {
        findings.push(Finding::warning(
            format!("you may not list {}, so this check may miss workloads", creators.unread.join(", ")),
            "ask an administrator of the cluster for that right",
        ));
    }
    if findings.is_empty() { vec![Finding::ok("no workload's Pods are refused")] } else { findings }
}

impl Creators {
    /// Returns the workloads that have fewer Pods than they need.
    fn lacking(&self) -> Vec<Lacking<'_>> {
        let replica_sets = self.replica_sets.iter().filter_map(|set| {
            let mut conditions = set.status.as_ref()?.conditions.iter().flatten();
            let failure = conditions.find(|one| one.type_ == "ReplicaFailure" && one.status == "True")?;
            Some(Lacking { metadata: &set.metadata, workload: deployment(set), told: failure.message.as_deref() })
        });
        let stateful_sets = self.stateful_sets.iter().filter(|set| {
            let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            set.status.as_ref().is_some_and(|status| status.replicas < wanted)
        });
        let daemon_sets = self.daemon_sets.iter().filter(|set| {
            set.status.as_ref().is_some_and(|status| status.current_number_scheduled < status.desired_number_scheduled)
        });
        let jobs = self.jobs.iter().filter(|job| lacks_pods(job));
        replica_sets
            .chain(stateful_sets.map(|set| Lacking::named("statefulset", &set.metadata)))
            .chain(daemon_sets.map(|set| Lacking::named("daemonset", &set.metadata)))
            .chain(jobs.map(|job| Lacking::named("job", &job.metadata)))
            .collect()
    }

    /// Returns the API server's reason for the last refusal of a Pod. `None` if no refusal is known, or if the workload
    /// has created a Pod since.
    fn refusal(&self, lacking: &Lacking<'_>, pods: &[Pod]) -> Option<String> {
        let is_about = |event: &&Event| {
            let uid = event.involved_object.uid.as_ref();
            uid.is_some() && uid == lacking.metadata.uid.as_ref()
        };
        let newest = self.events.iter().filter(is_about).max_by_key(|event| refused_at(event).map(|time| time.0));
        // The condition of a ReplicaSet keeps the reason of the first refusal, so prefer the newest Event.
        let message = newest.and_then(|event| event.message.as_deref()).or(lacking.told)?;
        // A ReplicaSet loses its condition as soon as it has created its Pods. Other workloads have no such condition.
        let is_over = lacking.told.is_none() && newest.is_some_and(|event| lacking.has_created_since(event, pods));
        (!is_over).then(|| reason(message))
    }
}

impl<'a> Lacking<'a> {
    fn named(kind: &str, metadata: &'a ObjectMeta) -> Self {
        let name = metadata.name.clone().unwrap_or_default();
        Self { metadata, workload: Owner { kind: kind.to_owned(), name }, told: None }
    }

    /// Whether one of the Pods belongs to the workload and is newer than the Event.
    fn has_created_since(&self, event: &Event, pods: &[Pod]) -> bool {
        let uid = self.metadata.uid.as_deref().unwrap_or_default();
        pods.iter().any(|pod| {
            let is_own = pod.owner_references().iter().any(|owner| owner.uid == uid);
            let created = pod.metadata.creation_timestamp.as_ref();
            is_own && created.zip(refused_at(event)).is_some_and(|(created, refused)| created > refused)
        })
    }
}

/// When the API server last refused the Pod of an Event.
fn refused_at(event: &Event) -> Option<&Time> {
    event.last_timestamp.as_ref()
}

/// Returns the Deployment of a ReplicaSet, or the ReplicaSet itself if no Deployment owns it.
fn deployment(set: &ReplicaSet) -> Owner {
    match set.owner_references().iter().find(|owner| owner.kind == "Deployment") {
        Some(owner) => Owner { kind: "deployment".to_owned(), name: owner.name.clone() },
        None => Owner { kind: "replicaset".to_owned(), name: set.name_any() },
    }
}

/// Whether a Job that has not ended has fewer running Pods than it may have.
fn lacks_pods(job: &Job) -> bool {
    let (Some(spec), Some(status)) = (&job.spec, &job.status) else { return false };
    let has_ended = status.conditions.iter().flatten().any(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed" | "Suspended" | "SuccessCriteriaMet" | "FailureTarget")
            && condition.status == "True"
    });
    let left = spec.completions.map(|completions| completions - status.succeeded.unwrap_or(0));
    let wanted = spec.parallelism.unwrap_or(1).min(left.unwrap_or(i32::MAX));
    !has_ended && status.active.unwrap_or(0) < wanted
}

/// Removes the words that the controller puts before the API server's reason.
fn reason(message: &str) -> String {
    let start = message.find("pods \"").or_else(|| Some(message.find("Error creating: ")? + "Error creating: ".len()));
    start.and_then(|start| message.get(start..)).unwrap_or(message).to_owned()
}

/// Whether a message of the API server names the guard, the webhook, or a container that only the webhook adds.
pub(super) fn names_the_mesh(message: &str) -> bool {
    [GUARD, WEBHOOK, INIT, PROXY, GRPC].iter().any(|name| message.contains(name))
}

/// Whether the webhook itself refuses the Pod.
pub(super) fn is_denied(message: &str) -> bool {
    Forbidden::of(message) == Forbidden::Webhook(WEBHOOK)
}

/// Whether the API server refuses the Pod because of the mesh. Quotas and LimitRanges do not name containers, so in a
/// meshed namespace the proxy's containers may be the reason.
fn is_of_the_mesh(message: &str, is_meshed: bool) -> bool {
    let is_of_limits = || matches!(Forbidden::of(message), Forbidden::Quota | Forbidden::LimitRange);
    names_the_mesh(message) || (is_meshed && is_of_limits())
}

/// Returns what to do about a refusal.
fn fix(message: &str, namespace: &str, workload: &Owner) -> String {
    if let Some(fix) = for_limits(message, namespace) {
        return fix;
    }
    if is_denied(message) {
        return format!(
            "correct what the message names, in the Pod template of the {} or in its namespace",
            workload.kind
        );
    }
    if message.contains(GUARD) || message.contains(WEBHOOK) {
        return format!(
            "the checks \"new Pods\" and \"injection\" of leno check say why the webhook does not answer; once it answers, the \
             controller tries again within 17 minutes{}",
            at_once(workload, namespace)
        );
    }
    format!("change what the message names; {INIT} needs root and NET_ADMIN, {PROXY} and {GRPC} need neither")
}

/// Returns the command after which the controller tries at once, for the kinds of workloads that have such a command.
fn at_once(workload: &Owner, namespace: &str) -> String {
    match workload.kind.as_str() {
        "deployment" | "statefulset" | "daemonset" => format!(", or at once after {}", workload.restart(namespace)),
        _ => String::new(),
    }
}

/// Returns what to do if the API server refuses a Pod because of a limit of its namespace: its level of Pod Security, a
/// ResourceQuota or a LimitRange.
pub(super) fn for_limits(message: &str, namespace: &str) -> Option<String> {
    match Forbidden::of(message) {
        Forbidden::PodSecurity => Some(format!(
            "{INIT} needs NET_ADMIN, which only the level privileged allows: kubectl label namespace {namespace} --overwrite \
             {POD_SECURITY}=privileged; or keep the workload out of the mesh with the annotation \
             {INJECT}: disabled of its Pod template"
        )),
        Forbidden::Quota => Some(for_quota(message, namespace)),
        Forbidden::LimitRange => Some(for_limit_range(message, namespace)),
        _ => None,
    }
}

/// Returns the command to run if a ResourceQuota refuses Pods. A quota that covers limits or requests requires them of
/// every container, so the proxy's containers need them too.
fn for_quota(message: &str, namespace: &str) -> String {
    const ANNOTATIONS: [(&str, &str); 4] = [
        ("limits.cpu", "leno.dev/proxy-cpu-limit=1"),
        ("limits.memory", "leno.dev/proxy-memory-limit=128Mi"),
        ("requests.cpu", "leno.dev/proxy-cpu-request=10m"),
        ("requests.memory", "leno.dev/proxy-memory-request=16Mi"),
    ];
    let named =
        ANNOTATIONS.iter().filter(|(resource, _)| message.contains(resource)).map(|(_, annotation)| *annotation);
    match named.collect::<Vec<_>>().as_slice() {
        [] => format!("kubectl describe resourcequota -n {namespace}; leno-init and leno-proxy count too"),
        annotations => format!(
            "kubectl annotate namespace {namespace} {} gives leno-init and leno-proxy that much; if the sum is too large, raise the quota: \
             kubectl describe resourcequota -n {namespace}",
            annotations.join(" ")
        ),
    }
}

/// Returns the command to run if a LimitRange refuses Pods. The message names a container's bound, for example `minimum
/// cpu usage per Container is 50m, but request is 10m`, but not the container.
fn for_limit_range(message: &str, namespace: &str) -> String {
    let annotations: Vec<String> = [("minimum", "request"), ("maximum", "limit")]
        .iter()
        .flat_map(|(bound, part)| ["cpu", "memory"].map(|resource| (bound, part, resource)))
        .filter_map(|(bound, part, resource)| {
            let (_, rest) = message.split_once(&format!("{bound} {resource} usage per Container is "))?;
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
            Some(format!("leno.dev/proxy-{resource}-{part}={}", rest.get(..end)?))
        })
        .collect();
    let show = format!("kubectl describe limitrange -n {namespace}");
    match annotations.as_slice() {
        [] => format!("{show} shows the limits, which leno-init and leno-proxy count against too"),
        annotations => format!(
            "if leno-init and leno-proxy are the reason: kubectl annotate namespace {namespace} {} sets theirs; {show} shows the limits",
            annotations.join(" ")
        ),
    }
}

#[cfg(test)]
#[path = "refused_tests.rs"]
mod tests;
