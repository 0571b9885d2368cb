//! Reads from a Pod's object whether the Pod has a proxy, which workload owns the Pod, and why the Pod does not run.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use kube::ResourceExt;
use leno_install::names::{
    CONTROL, CONTROL_ADMIN_PORT, CONTROL_NAMESPACE, DEFAULT_SERVICE_ACCOUNT, GRPC, NAME_LABEL, PROXY,
};

use leno_model::mesh::deployment_of;
use leno_model::policy::DefaultInboundPolicy;
use leno_model::proxy::ADMIN_PORT;

use super::printable::line;

/// Maximum length, in characters, of a kubelet's message as shown to the user.
const MESSAGE_MAX: usize = 160;

/// The workload that created a Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    /// The kind as kubectl writes it, such as `deployment`; `pod` if the Pod has no owner.
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// Whether a Pod has a proxy. Looks at the Pod's containers, not at its label: users can edit the label, but not the
/// containers.
pub(crate) fn is_meshed(pod: &Pod) -> bool {
    proxy(pod).is_some()
}

/// Whether a Pod is alive: it has not ended, and Kubernetes is not deleting it. A Pod that has ended neither serves nor
/// calls.
pub(crate) fn is_alive(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed")) && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a Pod is alive, and has a container that the mesh has added.
pub(crate) fn is_alive_with_sidecar(pod: &Pod) -> bool {
    sidecar(pod).is_some() && is_alive(pod)
}

/// The proxy's container: a native sidecar or, in Pods of older clusters, an ordinary container.
pub(crate) fn proxy(pod: &Pod) -> Option<&Container> {
    container(pod, &[PROXY])
}

/// The container that the mesh has added: a proxy, or the sidecar that gives a gRPC program its identity.
pub(crate) fn sidecar(pod: &Pod) -> Option<&Container> {
    container(pod, &[PROXY, GRPC])
}

fn container<'a>(pod: &'a Pod, names: &[&str]) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.find(|container| names.contains(&container.name.as_str()))
}

/// The image tag of the container that the mesh has added. A digest may follow the tag.
pub(crate) fn sidecar_version(pod: &Pod) -> Option<&str> {
    let image = sidecar(pod)?.image.as_deref()?;
    let (name, tag) = image.split('@').next()?.rsplit_once(':')?;
    // An image without a tag may have a colon before its registry's port. Then `tag` contains a slash, from the path
    // after the port.
    (!name.is_empty() && !tag.contains('/')).then_some(tag)
}

/// The proxy's admin port.
pub(crate) fn admin_port(pod: &Pod) -> u16 {
    proxy_port(pod, "leno-admin").unwrap_or(ADMIN_PORT)
}

/// Returns the port that has the name `name` in the manifest of the Pod's proxy container.
pub(crate) fn proxy_port(pod: &Pod, name: &str) -> Option<u16> {
    port(proxy(pod)?, name)
}

/// The default inbound policy on the proxy's command line.
pub(crate) fn default_policy(pod: &Pod) -> String {
    let arguments = proxy(pod).into_iter().flat_map(|proxy| proxy.args.iter().flatten());
    let mut told = arguments.filter_map(|argument| argument.strip_prefix("--default-inbound-policy="));
    told.next().unwrap_or(DefaultInboundPolicy::default().name()).to_owned()
}

/// Whether a Pod belongs to the control plane.
pub(crate) fn is_control(pod: &Pod) -> bool {
    let is_named = pod.labels().get(NAME_LABEL).is_some_and(|name| name == CONTROL);
    is_named && pod.metadata.namespace.as_deref() == Some(CONTROL_NAMESPACE)
}

/// The admin port of the control plane's container. The proxy in the same Pod has its own admin port.
pub(crate) fn control_admin_port(pod: &Pod) -> u16 {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let control = containers.find(|container| container.name == CONTROL);
    control.and_then(|control| port(control, "admin")).unwrap_or(CONTROL_ADMIN_PORT)
}

fn port(container: &Container, name: &str) -> Option<u16> {
    let mut ports = container.ports.iter().flatten();
    ports.find(|port| port.name.as_deref() == Some(name))?.container_port.try_into().ok()
}

/// The service account that a Pod runs as.
pub(crate) fn service_account(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or(DEFAULT_SERVICE_ACCOUNT)
}

/// Returns the workload that created a Pod. Derives a Deployment's name from its ReplicaSet's name by removing the hash
/// at its end, which a label of the Pod repeats.
pub(crate) fn owner(pod: &Pod) -> Owner {
    let controller = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    let Some(controller) = controller else {
        return Owner { kind: "pod".to_owned(), name: pod.name_any() };
    };
    let deployment = pod
        .labels()
        .get("pod-template-hash")
        .and_then(|hash| deployment_of(&controller.name, hash).filter(|_| controller.kind == "ReplicaSet"));
    match deployment {
        Some(name) => Owner { kind: "deployment".to_owned(), name: name.to_owned() },
        None => Owner { kind: controller.kind.to_lowercase(), name: controller.name.clone() },
    }
}

impl Owner {
    /// The command that replaces the workload's Pods.
    pub(crate) fn restart(&self, namespace: &str) -> String {
        let Self { kind, name } = self;
        match kind.as_str() {
            "deployment" | "statefulset" | "daemonset" => {
                format!("kubectl rollout restart -n {namespace} {kind}/{name}")
            }
            "pod" => format!("kubectl delete pod -n {namespace} {name}, and create it again"),
            _ => format!("delete the Pods of {kind} {namespace}/{name}, so that it creates new ones"),
        }
    }
}

/// Whether a container of the Pod is ready.
pub(crate) fn is_container_ready(pod: &Pod, container: &str) -> bool {
    statuses(pod).any(|status| status.name == container && status.ready)
}

/// Whether the proxy of the Pod has started. The kubelet's status may lag, so the result may be `false` for a proxy
/// that has just started.
pub(crate) fn has_proxy_started(pod: &Pod) -> bool {
    let runs = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    statuses(pod).any(|status| status.name == PROXY && runs(status))
}

/// Returns the reason why a Pod is not ready, from the Pod's status; `None` if the Pod is ready.
pub(crate) fn why_not_ready(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref();
    let condition = |name: &str| status?.conditions.as_ref()?.iter().find(|condition| condition.type_ == name);
    if condition("Ready").is_some_and(|ready| ready.status == "True") {
        return None;
    }
    if let Some(reason) = statuses(pod).find_map(why_waiting) {
        return Some(reason);
    }
    if let Some(scheduled) = condition("PodScheduled").filter(|scheduled| scheduled.status == "False") {
        let (reason, message) = (scheduled.reason.as_deref(), scheduled.message.as_deref());
        return Some(joined(reason.unwrap_or("Unschedulable"), message));
    }
    if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
        return Some("no node was found for it".to_owned());
    }
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let unready: Vec<&str> = statuses(pod).filter(|status| !status.ready).map(|status| status.name.as_str()).collect();
    Some(match unready.is_empty() {
        true => format!("it is {phase}"),
        false => format!("it is {phase}, and not ready: {}", unready.join(", ")),
    })
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let main = status.and_then(|status| status.container_statuses.as_ref());
    init.into_iter().chain(main).flatten()
}

/// Returns why a container waits, or why it failed. `None` for other states, and for a container that is still being
/// created or waits for init containers.
fn why_waiting(status: &ContainerStatus) -> Option<String> {
    let state = status.state.as_ref()?;
    let (reason, message) = match (&state.waiting, &state.terminated) {
        (Some(waiting), _) => (waiting.reason.as_deref()?, waiting.message.as_deref()),
        (_, Some(ended)) if ended.exit_code != 0 => {
            (ended.reason.as_deref().unwrap_or("Error"), ended.message.as_deref())
        }
        _ => return None,
    };
    let is_progress = matches!(reason, "PodInitializing" | "ContainerCreating");
    (!is_progress).then(|| format!("{}: {}", status.name, joined(reason, message)))
}

fn joined(reason: &str, message: Option<&str>) -> String {
    let Some(message) = message.map(str::trim).filter(|message| !message.is_empty()) else {
        return reason.to_owned();
    };
    format!("{reason}: {}", line(message).chars().take(MESSAGE_MAX).collect::<String>())
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
