//! Sends requests to a Pod's ports, mostly to its admin port, through the API server's port-forward, so that the user's
//! machine needs no route to the Pod.
//!
//! A compromised Pod may send anything, so the size and the duration of answers are limited.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use leno_lab::http::{self, Answer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::connect::{Cluster, ClusterError};

/// Maximum time for one connection to a Pod, from the request for a port-forward to the end of the conversation.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// After a conversation has failed, maximum time to wait for the kubelet's error message, which explains more than our
/// own.
const REASON_MAX: Duration = Duration::from_millis(500);

/// Maximum number of Pods that are queried at the same time.
pub(crate) const FORWARDS_MAX: usize = 16;

/// A connection to a port of a Pod.
pub(crate) type Forwarded = Box<dyn Duplex + Unpin>;

/// A stream that can be read and written.
pub(crate) trait Duplex: AsyncRead + AsyncWrite {}

impl<S: AsyncRead + AsyncWrite> Duplex for S {}

/// Opens a connection to a Pod's port and runs `conversation` on it.
///
/// # Errors
/// If the port cannot be reached, or the conversation fails.
pub(crate) async fn converse<T>(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    port: u16,
    conversation: impl AsyncFnOnce(&mut Forwarded) -> Result<T, String>,
) -> Result<T, ClusterError> {
    let late = || Err(failed(namespace, pod, port, &format!("nothing within {} s", ANSWER_MAX.as_secs())));
    let forwarded = converse_long(cluster, namespace, pod, port, conversation);
    timeout(ANSWER_MAX, forwarded).await.unwrap_or_else(|_| late())
}

/// Does the same as [`converse`], but does not limit how long the conversation takes.
pub(crate) async fn converse_long<T>(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    port: u16,
    conversation: impl AsyncFnOnce(&mut Forwarded) -> Result<T, String>,
) -> Result<T, ClusterError> {
    let failed = |why: String| failed(namespace, pod, port, &why);
    let pods: Api<Pod> = cluster.within(namespace);
    let mut forwarder = pods.portforward(pod, &[port]).await.map_err(|error| forward_error(cluster, pod, &error))?;
    let (stream, reason) = (forwarder.take_stream(port), forwarder.take_error(port));
    let (Some(stream), Some(reason)) = (stream, reason) else {
        return Err(failed("the API server did not forward the connection".to_owned()));
    };
    let mut stream: Forwarded = Box::new(stream);
    // Wait for the error channel as well as for the data: if the port refuses connections, the kubelet reports it on
    // the error channel, and may leave the data channel open.
    let mut reason = pin!(reason.fuse());
    let result = tokio::select! {
        biased;
        Some(said) = &mut reason => Err(failed(said)),
        result = conversation(&mut stream) => match result {
            Ok(result) => Ok(result),
            Err(why) => {
                let said = timeout(REASON_MAX, reason).await.ok().flatten();
                Err(failed(said.unwrap_or(why)))
            }
        },
    };
    // Stop forwarding now, even if the Pod's side still sends.
    forwarder.abort();
    result
}

fn failed(namespace: &str, pod: &str, port: u16, why: &str) -> ClusterError {
    ClusterError::new(
        format!("port {port} of Pod {namespace}/{pod} gave no answer: {why}"),
        format!("kubectl describe pod -n {namespace} {pod} shows its state"),
    )
}

/// Sends GET for a page. A response with an error status is an answer too, not an error.
pub(crate) async fn get(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    port: u16,
    path: &str,
) -> Result<Answer, ClusterError> {
    let ask = async |stream: &mut Forwarded| http::get(stream, path).await.map_err(|unreadable| unreadable.to_string());
    converse(cluster, namespace, pod, port, ask).await
}

/// Sends GET for a page and returns its text. Unlike [`get`], it treats every status but 200 as an error.
pub(crate) async fn page(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    port: u16,
    path: &str,
) -> Result<String, ClusterError> {
    let answer = get(cluster, namespace, pod, port, path).await?;
    match answer.status {
        200 => Ok(answer.body),
        status => Err(ClusterError::new(
            format!("{path} of Pod {namespace}/{pod} answered {status}: {}", answer.body.trim()),
            "the Pod may run another version; leno version shows the versions",
        )),
    }
}

fn forward_error(cluster: &Cluster, pod: &str, error: &kube::Error) -> ClusterError {
    match error {
        kube::Error::UpgradeConnection(error) => ClusterError::new(
            format!("the API server does not forward to Pod {pod}: {error}"),
            "check that the Pod runs, and that you have the rights: kubectl auth can-i get pods/portforward, and the same \
             with create for newer versions of Kubernetes",
        ),
        other => cluster.explain(other),
    }
}
