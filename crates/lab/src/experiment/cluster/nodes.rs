//! The nodes of the lab's Pods. A Pod runs on the same node in each mesh, so that different nodes do not cause a
//! difference between two meshes.
//!
//! Each Pod is created with a scheduling gate. The lab removes the gate, and at the same time restricts the Pod to its
//! node. The scheduler still decides whether the Pod fits on the node. In the first mesh, the scheduler may choose any
//! node. In all other meshes, a Pod of the same name must run on the same node. A new Pod that replaces an old Pod must
//! run on the old Pod's node.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use serde_json::{Value, json};

use super::pods::name;

/// The scheduling gate of the lab's Pods.
pub(super) const GATE: &str = "leno.dev/lab-placement";

/// The node of each Pod, by the Pod's name; unknown until the Pods of the first mesh are ready. Clones of this value
/// share the nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    of_pods: Arc<OnceLock<BTreeMap<String, String>>>,
}

impl Nodes {
    /// Records the nodes of these Pods. Later Pods of the same names must run on the same nodes. A second call has no
    /// effect.
    pub(super) fn fix(&self, pods: &[Pod]) {
        let placed = pods.iter().filter_map(|pod| Some((name(pod), node(pod)?.to_owned())));
        self.of_pods.get_or_init(|| placed.collect());
    }

    /// The node that a Pod must run on; `None` if the scheduler may choose.
    pub(super) fn of(&self, pod: &str) -> Option<&str> {
        self.of_pods.get()?.get(pod).map(String::as_str)
    }

    /// Returns the text of an error about the first Pod that runs on a wrong node. A Pod runs on a wrong node only if
    /// the API server ignores scheduling gates.
    pub(super) fn misplaced(&self, pods: &[Pod]) -> Option<String> {
        pods.iter().find_map(|pod| {
            let (pod, node, wanted) = (name(pod), node(pod)?, self.of(&name(pod))?);
            (node != wanted).then(|| {
                format!(
                    "{pod} runs on {node}, and in the first mesh on {wanted}; Kubernetes 1.27 or newer can place it, or \
                     measure on one node"
                )
            })
        })
    }
}

/// Returns whether a Pod waits for the lab to place it.
pub(super) fn is_held(pod: &Pod) -> bool {
    let gates = pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
    gates.into_iter().any(|gate| gate.name == GATE)
}

/// The strategic merge patch that lets the scheduler place a Pod: on `node`, or on any node if `node` is `None`.
pub(super) fn release(node: Option<&str>) -> Value {
    let gates = json!([{"$patch": "delete", "name": GATE}]);
    let Some(node) = node else { return json!({"spec": {"schedulingGates": gates}}) };
    // Match the node's name itself: the label kubernetes.io/hostname may differ from it.
    let is_node = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [is_node]}});
    json!({"spec": {"schedulingGates": gates, "affinity": {"nodeAffinity": required}}})
}

/// The scheduler's reason why a Pod fits on no node.
pub(super) fn unschedulable(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let is_unschedulable = |condition: &&PodCondition| {
        let PodCondition { type_, status, reason, .. } = *condition;
        type_ == "PodScheduled" && status == "False" && reason.as_deref() == Some("Unschedulable")
    };
    let condition = conditions.iter().find(is_unschedulable)?;
    Some(condition.message.as_deref().unwrap_or("the scheduler gave no reason"))
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
