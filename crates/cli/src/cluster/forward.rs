//! Requests to a Pod's ports, mostly its admin port, through the API server's port-forward: no route to the Pod is
//! needed.
//!
//! A Pod may send anything, so answers are limited in size and in time.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::connect::{Cluster, ClusterError};

/// Maximum size of an answer, head and body, in bytes. The metrics page of a proxy with its maximum number of series is
/// smaller.
const ANSWER_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Longest time for one exchange.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// How long to wait for the reason after the Pod's side closed the connection without an answer.
const REASON_MAX: Duration = Duration::from_millis(500);

/// Maximum number of header fields in an answer.
const FIELDS_MAX: usize = 32;

/// Maximum number of Pods that are queried at the same time.
pub(crate) const FORWARDS_MAX: usize = 16;

/// The answer of an admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Why an answer could not be parsed.
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
    let failed = |why: String| {
        ClusterError::new(
            format!("port {port} of Pod {namespace}/{pod} gave no answer: {why}"),
            format!("kubectl describe pod -n {namespace} {pod} shows its state"),
        )
    };
    let forwarded = async {
        let pods: Api<Pod> = cluster.within(namespace);
        let mut forwarder =
            pods.portforward(pod, &[port]).await.map_err(|error| forward_error(cluster, pod, &error))?;
        let (stream, reason) = (forwarder.take_stream(port), forwarder.take_error(port));
        let (Some(stream), Some(reason)) = (stream, reason) else {
            return Err(failed("the API server did not forward the connection".to_owned()));
        };
        let mut stream: Forwarded = Box::new(stream);
        // The kubelet reports a refused port on a separate channel, and may leave the data connection open.
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
    };
    let late = || Err(failed(format!("nothing within {} s", ANSWER_MAX.as_secs())));
    timeout(ANSWER_MAX, forwarded).await.unwrap_or_else(|_| late())
}

/// Sends GET for a page. Any status is an answer.
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
            "check that the Pod runs, and that you have the right: kubectl auth can-i create pods/portforward",
        ),
        other => cluster.explain(other),
    }
}

/// Sends the request and reads the answer. Content-Length ends the answer, because forwarding delays the end of the
/// connection.
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

/// Parses the answer once it is complete.
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
        // Leno's admin endpoints never send chunks.
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
