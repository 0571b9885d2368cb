//! Decides whether a waiting Pod can still become ready. Some reasons that the scheduler and the kubelet report are
//! final; others may disappear by themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateWaiting, ContainerStatus, Pod};
use tokio::time::Instant;

use super::exec::one_line;
use super::nodes::{Nodes, unschedulable};
use super::objects::CONTAINER;
use super::pods::name;

/// Time for which the lab tolerates failed pulls of an image, since a registry may be unreachable for a moment.
const PULL_PATIENCE: Duration = Duration::from_secs(30);
/// Number of back-offs after which the lab gives up a pull. A back-off is the kubelet's pause after a failed pull.
const BACK_OFFS_MAX: u32 = 2;
/// The kubelet's reasons: after a failed pull, and in the back-off before another pull.
const PULL_FAILED: &str = "ErrImagePull";
const BACK_OFF: &str = "ImagePullBackOff";
/// Reasons that do not disappear by themselves.
const FINAL: [&str; 4] = ["ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CrashLoopBackOff"];

/// Longest time for the scheduler to place a Pod on its node: another Pod that ends may free the resources.
const PLACEMENT_PATIENCE: Duration = Duration::from_secs(30);

/// The Pods and containers that wait. Each check of a Pod ([`Waiting::hopeless`]) updates this state.
#[derive(Debug)]
pub(super) struct Waiting {
    nodes: Nodes,
    /// Pods that the scheduler cannot place on their nodes, each with the time of the first check that found this.
    unplaced: BTreeMap<String, Instant>,
    /// Failed pulls by Pod and container.
    pulls: BTreeMap<(String, String), FailedPulls>,
}

/// The failed pulls of an image since the last check at which no pull had failed.
#[derive(Debug)]
struct FailedPulls {
    since: Instant,
    back_offs: u32,
    last_reason: String,
    /// The kubelet's message.
    message: String,
}

impl Waiting {
    pub(super) fn new(nodes: &Nodes) -> Self {
        Self { nodes: nodes.clone(), unplaced: BTreeMap::new(), pulls: BTreeMap::new() }
    }

    /// Checks a Pod. Returns, in one line, why the Pod will never be ready; `None` if it may become ready.
    pub(super) fn hopeless(&mut self, pod: &Pod, now: Instant) -> Option<String> {
        self.hopeless_placement(pod, now).or_else(|| self.hopeless_containers(pod, now))
    }

    /// Returns why a Pod will never be placed on its node. Returns `None` for a Pod that may run on any node: the
    /// cluster may get another node.
    fn hopeless_placement(&mut self, pod: &Pod, now: Instant) -> Option<String> {
        let pod_name = name(pod);
        let (Some(node), Some(why)) = (self.nodes.of(&pod_name), unschedulable(pod)) else {
            self.unplaced.remove(&pod_name);
            return None;
        };
        let since = *self.unplaced.entry(pod_name).or_insert(now);
        let is_late = now.saturating_duration_since(since) >= PLACEMENT_PATIENCE;
        is_late.then(|| {
            format!(
                "the scheduler cannot place it on the node {node}, where this Pod of the first mesh runs: {}; free \
                 resources on this node, or use fewer Pods with --backends and --load-pods",
                one_line(why)
            )
        })
    }

    fn hopeless_containers(&mut self, pod: &Pod, now: Instant) -> Option<String> {
        let status = pod.status.as_ref()?;
        let all = [&status.init_container_statuses, &status.container_statuses];
        let all = all.into_iter().flatten().flatten();
        // Check every container, even after a hopeless one: the check also forgets failures that have passed.
        let reasons: Vec<String> = all.filter_map(|container| self.hopeless_container(pod, container, now)).collect();
        reasons.into_iter().next()
    }

    fn hopeless_container(&mut self, pod: &Pod, container: &ContainerStatus, now: Instant) -> Option<String> {
        let ContainerStatus { name: container_name, image, state, .. } = container;
        let key = (pod.metadata.uid.clone().unwrap_or_else(|| name(pod)), container_name.clone());
        let waiting = match state {
            Some(ContainerState { waiting: Some(waiting), .. }) => waiting,
            _ => &ContainerStateWaiting::default(),
        };
        let reason = waiting.reason.as_deref().unwrap_or_default();
        if reason != PULL_FAILED && reason != BACK_OFF {
            self.pulls.remove(&key);
            let is_final = FINAL.contains(&reason);
            return is_final.then(|| format!("{reason} in its container {container_name}{}", of_image(pod, container)));
        }
        let pulls = self.pulls.entry(key).or_insert_with(|| FailedPulls::new(now));
        pulls.add(reason, waiting.message.as_deref().unwrap_or_default());
        let waited = now.saturating_duration_since(pulls.since);
        if waited < PULL_PATIENCE && pulls.back_offs < BACK_OFFS_MAX {
            return None;
        }
        let node = node(pod);
        Some(format!(
            "{reason} after {} s: the node {node} cannot pull the image {image} of the container {container_name}{}{}",
            waited.as_secs(),
            if pulls.message.is_empty() { String::new() } else { format!(" ({})", one_line(&pulls.message)) },
            image_fix(container_name)
        ))
    }
}

impl FailedPulls {
    fn new(now: Instant) -> Self {
        Self { since: now, back_offs: 0, last_reason: String::new(), message: String::new() }
    }

    fn add(&mut self, reason: &str, message: &str) {
        self.back_offs += u32::from(reason == BACK_OFF && self.last_reason != BACK_OFF);
        reason.clone_into(&mut self.last_reason);
        // Keep the message of the failed pull: the message of a back-off may contain only the image's name.
        if reason == PULL_FAILED || self.message.is_empty() {
            message.clone_into(&mut self.message);
        }
    }
}

/// Returns a text that names the container's image and node. If the container waits because of its image, the text
/// also has the fix.
fn of_image(pod: &Pod, ContainerStatus { name, image, state, .. }: &ContainerStatus) -> String {
    let waiting = state.as_ref().and_then(|state| state.waiting.as_ref());
    let is_image = waiting.and_then(|waiting| waiting.reason.as_ref()).is_some_and(|reason| reason.contains("Image"));
    let fix = if is_image { image_fix(name) } else { "" };
    format!(" with the image {image} on the node {}{fix}", node(pod))
}

fn image_fix(container: &str) -> &'static str {
    if container == CONTAINER {
        "; put the image into a registry that the node reaches, or name another image with --image"
    } else {
        "; the mesh names this image: repair the mesh's installation"
    }
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("(none)")
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
