//! The Pods of one namespace. This module places the Pods on their nodes, waits until they are ready, runs commands in
//! them, and connects to their ports.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use kube::api::{Api, AttachParams, DeleteParams, ListParams, Patch, PatchParams};
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};

use super::exec::{Exec, one_line};
use super::nodes::{Nodes, is_held, release, unschedulable};
use super::objects::CONTAINER;
use super::waiting::Waiting;
use crate::error::{Error, Result};
use crate::kubernetes::refused;

const POLL: Duration = Duration::from_millis(250);
/// Longest time for a Pod to become ready, including the download of its image.
const READY_TIMEOUT: Duration = Duration::from_secs(180);
/// Longest wait for missing Pods while Kubernetes creates none of them, for example because a webhook rejects them.
const CREATION_PATIENCE: Duration = Duration::from_secs(30);
/// Longest time for a Pod to answer a call that controls its server.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(15);
/// Size of the buffer for a command's unread output.
const OUTPUT_BUFFER_BYTES: usize = 64 * 1024;

/// Access to the Pods of one namespace.
#[derive(Clone)]
pub(super) struct Pods {
    client: Client,
    api: Api<Pod>,
    namespace: String,
    nodes: Nodes,
}

impl Pods {
    /// Creates the access to the Pods of a namespace. `nodes` has the nodes on which to place the lab's own Pods.
    pub(super) fn new(client: Client, namespace: &str, nodes: &Nodes) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            client,
            namespace: namespace.to_owned(),
            nodes: nodes.clone(),
        }
    }

    /// Places `count` Pods with these labels, waits until all of them are ready, and returns them.
    ///
    /// # Errors
    /// If Kubernetes cannot create or place a Pod, a container cannot start, or a Pod is not ready in time.
    pub(super) async fn ready(&self, labels: &str, count: usize) -> Result<Vec<Pod>> {
        let start = Instant::now();
        let (end, mut waiting) = (start + READY_TIMEOUT, Waiting::new(&self.nodes));
        let (mut last_count, mut counted_since) = (0, start);
        loop {
            let pods = self.api.list(&ListParams::default().labels(labels)).await.map_err(refused("listing Pods"))?;
            let ready: Vec<Pod> = pods.items.iter().filter(|pod| is_ready(pod)).cloned().collect();
            if ready.len() == count && pods.items.len() == count {
                return Ok(ready);
            }
            for pod in &pods.items {
                self.place(pod).await?;
            }
            let now = Instant::now();
            if pods.items.len() != last_count {
                (last_count, counted_since) = (pods.items.len(), now);
            }
            if last_count < count && now.saturating_duration_since(counted_since) > CREATION_PATIENCE {
                return Err(self.not_created(labels, count - last_count).await);
            }
            if let Some((pod, why)) = pods.items.iter().find_map(|pod| Some((pod, waiting.hopeless(pod, now)?))) {
                return Err(self.not_ready(&name(pod), &why));
            }
            if Instant::now() > end {
                let late = pods.items.iter().find(|pod| !is_ready(pod));
                return Err(self.not_ready(&late.map_or_else(|| labels.to_owned(), name), &late_reason(late)));
            }
            sleep(POLL).await;
        }
    }

    /// All Pods of the namespace.
    ///
    /// # Errors
    /// If the API server rejects the request.
    pub(super) async fn all(&self) -> Result<Vec<Pod>> {
        let what = || format!("listing the Pods of the namespace {}", self.namespace);
        Ok(self.api.list(&ListParams::default()).await.map_err(refused(what()))?.items)
    }

    /// Deletes all Pods with these labels, and waits until `count` new Pods are ready.
    ///
    /// # Errors
    /// If the API server rejects a request, or a new Pod is not ready in time.
    pub(super) async fn replace_all(&self, labels: &str, count: usize) -> Result<()> {
        let what = || format!("deleting the Pods {labels} of {}", self.namespace);
        let of_labels = ListParams::default().labels(labels);
        let old = self.api.list(&of_labels).await.map_err(refused(what()))?.items;
        for pod in &old {
            self.api.delete(&name(pod), &DeleteParams::default()).await.map_err(refused(what()))?;
        }
        // The deleted Pods have a deletion time, so this wait does not count them as ready.
        self.ready(labels, count).await.map(drop)
    }

    /// Deletes a Pod, and waits until another Pod of the same name is ready.
    ///
    /// # Errors
    /// If the API server rejects a request, or the new Pod is not ready in time.
    pub(super) async fn replace(&self, pod: &str) -> Result<()> {
        let what = || format!("deleting the Pod {}/{pod}", self.namespace);
        let old = self.api.get(pod).await.map_err(refused(what()))?.metadata.uid;
        self.api.delete(pod, &DeleteParams::default()).await.map_err(refused(what()))?;
        let (end, mut waiting) = (Instant::now() + READY_TIMEOUT, Waiting::new(&self.nodes));
        loop {
            let new = self.api.get_opt(pod).await.map_err(refused(what()))?.filter(|pod| pod.metadata.uid != old);
            if new.as_ref().is_some_and(is_ready) {
                return Ok(());
            }
            if let Some(new) = &new {
                self.place(new).await?;
            }
            if let Some(why) = new.as_ref().and_then(|pod| waiting.hopeless(pod, Instant::now())) {
                return Err(self.not_ready(pod, &why));
            }
            if Instant::now() > end {
                return Err(self.not_ready(pod, &late_reason(new.as_ref())));
            }
            sleep(POLL).await;
        }
    }

    /// Removes the lab's scheduling gate from a Pod that still has it, so that the scheduler places the Pod on its
    /// node.
    async fn place(&self, pod: &Pod) -> Result<()> {
        if !is_held(pod) || pod.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let pod = name(pod);
        let patch = Patch::Strategic(release(self.nodes.of(&pod)));
        match self.api.patch(&pod, &PatchParams::default(), &patch).await {
            // The Pod has been deleted. Kubernetes creates another Pod instead.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            placed => placed.map(drop).map_err(refused(format!("placing the Pod {}/{pod}", self.namespace))),
        }
    }

    /// Starts a command in a Pod's container.
    ///
    /// # Errors
    /// If the API server rejects the request.
    pub(super) async fn exec(&self, pod: &str, command: &[&str]) -> Result<Exec> {
        let name = format!("running {} in the Pod {}/{pod}", command.join(" "), self.namespace);
        let params = AttachParams::default()
            .container(CONTAINER)
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .max_stdout_buf_size(OUTPUT_BUFFER_BYTES);
        let started = self.api.exec(pod, command.iter().copied(), &params).await;
        Exec::attach(name.clone(), started.map_err(refused(name))?)
    }

    /// A channel to a Pod's port through the API server. The channel connects at its first use, and again after the Pod
    /// was replaced.
    pub(super) fn channel(&self, pod: &str, port: u16) -> Channel {
        let (api, pod) = (self.api.clone(), pod.to_owned());
        let connector = tower::service_fn(move |_: http::Uri| {
            let (api, pod) = (api.clone(), pod.clone());
            async move {
                let mut forwarder = api.portforward(&pod, &[port]).await.map_err(std::io::Error::other)?;
                let stream = forwarder.take_stream(port);
                stream.map(TokioIo::new).ok_or_else(|| std::io::Error::other("the API server forwards nothing"))
            }
        });
        Endpoint::from_static("http://pod").timeout(CONTROL_TIMEOUT).connect_with_connector_lazy(connector)
    }

    /// The error for Pods that do not exist. It contains Kubernetes' reason, unless the user lacks the right to read
    /// it.
    async fn not_created(&self, labels: &str, count: usize) -> Error {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let failures = events.list(&ListParams::default().fields("reason=FailedCreate")).await;
        let failures = failures.map(|list| list.items).unwrap_or_default();
        let last = failures.into_iter().max_by(|one, other| one.last_timestamp.cmp(&other.last_timestamp));
        let why = last.and_then(|event| event.message).map(|message| format!("{}; ", one_line(&message)));
        Error::Cluster {
            what: format!("{count} Pods with the label {labels} are missing in the namespace {}", self.namespace),
            why: format!("{}see kubectl get events -n {}", why.unwrap_or_default(), self.namespace),
        }
    }

    fn not_ready(&self, pod: &str, why: &str) -> Error {
        let what = format!("the Pod {}/{pod} is not ready", self.namespace);
        Error::Cluster { what, why: format!("{why}; see kubectl describe pod -n {} {pod}", self.namespace) }
    }
}

fn late_reason(pod: Option<&Pod>) -> String {
    let why = pod.and_then(unschedulable).map(|why| format!(": {}", one_line(why))).unwrap_or_default();
    format!("nothing within {} s{why}", READY_TIMEOUT.as_secs())
}

pub(super) fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

/// Returns whether a Pod has a container of this name. A proxy may also be an init container that keeps running.
pub(super) fn has_container(pod: &Pod, name: &str) -> bool {
    let spec = pod.spec.as_ref();
    let containers = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    containers.into_iter().any(|container| container.name == name)
}

/// Returns whether the Pod is ready and is not about to end.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_ready = conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
