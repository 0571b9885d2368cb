//! What a Pod's ports say, above all its admin port, through the API server's port-forward: the port need not be reachable from here.
//!
//! What is forwarded comes from a Pod, and so from anybody: an answer is bounded in size and in time.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::connect::{Cluster, ClusterError};

/// Largest answer, head and body, in bytes: the metrics of a proxy with all the series that it may have are smaller.
const ANSWER_MAX_BYTES: usize = 32 * 1024 * 1024;

/// How long a conversation may take.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// How long to wait for the reason after the Pod's side ended without an answer.
const REASON_MAX: Duration = Duration::from_millis(500);

/// Most fields of an answer's head.
const FIELDS_MAX: usize = 32;

/// Most Pods that are asked at once.
pub(crate) const FORWARDS_MAX: usize = 16;

/// What an admin port answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Why an answer could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Unreadable {
    #[error("it is longer than {} MiB", ANSWER_MAX_BYTES / 1024 / 1024)]
    TooLong,
    #[error("it is not HTTP")]
    NotHttp,
    #[error("it is not text")]
    NotText,
    #[error("the connection ended before it was whole")]
    Cut,
    #[error("{0}")]
    Io(String),
}

/// A connection to a port of a Pod.
pub(crate) type Forwarded = Box<dyn Duplex + Unpin>;

/// What is read from and written to.
pub(crate) trait Duplex: AsyncRead + AsyncWrite {}

impl<S: AsyncRead + AsyncWrite> Duplex for S {}

/// Has a conversation with a port of a Pod.
///
/// # Errors
/// Where it cannot be reached, or the conversation says why there is no result.
pub(crate) async fn converse<T>(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    port: u16,
    conversation: impl AsyncFnOnce(&mut Forwarded) -> Result<T, String>,
) -> Result<T, ClusterError> {
    let failed = |why: String| {
        ClusterError::new(
            format!("port {port} of Pod {namespace}/{pod} gave no answer: {why}"),
            format!("kubectl describe pod -n {namespace} {pod} says how it is"),
        )
    };
    let forwarded = async {
        let pods: Api<Pod> = cluster.within(namespace);
        let mut forwarder =
            pods.portforward(pod, &[port]).await.map_err(|error| forward_error(cluster, pod, &error))?;
        let (stream, reason) = (forwarder.take_stream(port), forwarder.take_error(port));
        let (Some(stream), Some(reason)) = (stream, reason) else {
            return Err(failed("it was not forwarded".to_owned()));
        };
        let mut stream: Forwarded = Box::new(stream);
        // The kubelet says on another channel that nobody listens; the connection need not end by that.
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
        // The forwarding ends with us, whatever the Pod's side is still about to send.
        forwarder.abort();
        result
    };
    let late = || Err(failed(format!("nothing within {} s", ANSWER_MAX.as_secs())));
    timeout(ANSWER_MAX, forwarded).await.unwrap_or_else(|_| late())
}

/// Asks a Pod's port for a page; whatever the status, it is an answer.
pub(crate) async fn get(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    port: u16,
    path: &str,
) -> Result<Answer, ClusterError> {
    let ask = async |stream: &mut Forwarded| ask(stream, path).await.map_err(|unreadable| unreadable.to_string());
    converse(cluster, namespace, pod, port, ask).await
}

/// The same for a page that must be there: its text.
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
            "its version may be another one; leno version shows them",
        )),
    }
}

fn forward_error(cluster: &Cluster, pod: &str, error: &kube::Error) -> ClusterError {
    match error {
        kube::Error::UpgradeConnection(error) => ClusterError::new(
            format!("the API server does not forward to Pod {pod}: {error}"),
            "see whether it runs, and whether you may: kubectl auth can-i create pods/portforward",
        ),
        other => cluster.explain(other),
    }
}

/// Sends the request and reads the answer. Its length counts, not the connection's end, which forwarding delays.
async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> Result<Answer, Unreadable> {
    let failed = |error: std::io::Error| Unreadable::Io(error.to_string());
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut buffer).await.map_err(failed)?;
        let is_end = read == 0;
        bytes.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if bytes.len() > ANSWER_MAX_BYTES {
            return Err(Unreadable::TooLong);
        }
        if let Some(answer) = parse(&bytes, is_end)? {
            return Ok(answer);
        }
        if is_end {
            return Err(Unreadable::Cut);
        }
    }
}

/// The answer, once it is whole.
fn parse(bytes: &[u8], is_end: bool) -> Result<Option<Answer>, Unreadable> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let body_at = match head.parse(bytes).map_err(|_| Unreadable::NotHttp)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let status = head.code.ok_or(Unreadable::NotHttp)?;
    let value =
        |name: &str| head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value);
    if value("transfer-encoding").is_some() {
        // No admin endpoint of ours sends chunks.
        return Err(Unreadable::NotHttp);
    }
    let length = match value("content-length") {
        Some(text) => {
            let digits = std::str::from_utf8(text).map_err(|_| Unreadable::NotHttp)?;
            Some(digits.trim().parse::<usize>().map_err(|_| Unreadable::NotHttp)?)
        }
        None => None,
    };
    let body = bytes.get(body_at..).unwrap_or_default();
    let body = match length {
        Some(length) if length > ANSWER_MAX_BYTES => return Err(Unreadable::TooLong),
        Some(length) => body.get(..length),
        None => is_end.then_some(body),
    };
    let text = |body: &[u8]| std::str::from_utf8(body).map(str::to_owned).map_err(|_| Unreadable::NotText);
    body.map(|body| Ok(Answer { status, body: text(body)? })).transpose()
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
