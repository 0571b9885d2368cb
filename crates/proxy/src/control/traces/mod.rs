//! Exports the spans of traced calls to a collector: OTLP over gRPC (OpenTelemetry Protocol 1.9, section OTLP/gRPC).
//!
//! Calls wait in the relays' [`Outbox`], which is bounded. If the collector cannot be reached, calls first wait, and
//! are then dropped and counted.

mod answer;
mod otlp;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::google::rpc;
use hyper_util::rt::TokioIo;
use leno_identity::innermost;
use leno_model::spiffe::Workload;
use leno_relay::trace::{FinishedCall, Outbox, Tracing};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::retry::Retry;
use crate::trace_args::{Collector, TraceArgs};

/// Interval at which calls are taken from the relays.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of calls in one request.
const BATCH_CALLS: usize = 512;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for the collector's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of attempts to send a request before its calls are dropped.
const TRIES: u32 = 3;
const PAUSE_SHORTEST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(30);

/// The end of the type's URL of a status detail. With this detail, a collector tells when to send a request again.
const RETRY_INFO: &str = "/google.rpc.RetryInfo";

const EXPORT: PathAndQuery = PathAndQuery::from_static("/opentelemetry.proto.collector.trace.v1.TraceService/Export");

/// Exports spans to a collector. [`Exporter::run`] starts the export.
pub(super) struct Exporter {
    collector: Collector,
    resource: Resource,
    tracing: Tracing,
}

impl Exporter {
    /// Returns the exporter that the command line configures, if any.
    pub(super) fn new(args: TraceArgs, own: Option<&Workload>) -> Option<Self> {
        let sampling = args.sampling();
        let resource = otlp::resource(args.trace_service, own, args.trace_attributes);
        Some(Self { collector: args.trace_collector?, resource, tracing: Tracing { sampling, outbox: Arc::default() } })
    }

    /// The settings by which relays trace calls.
    pub(super) fn tracing(&self) -> &Tracing {
        &self.tracing
    }

    /// Whether the exporter calls the collector through the proxy's own listener for outbound connections.
    pub(super) fn needs_outbound(&self) -> bool {
        matches!(self.collector, Collector::Service(_))
    }

    /// Exports spans. The workers' end is signalled by `end`: when it gets a value or its sender is dropped, exports
    /// the spans of the remaining calls and returns. `outbound` is a listener for outbound connections.
    pub(super) async fn run(self, outbound: Option<SocketAddr>, mut end: oneshot::Receiver<()>) {
        let Self { collector, resource, tracing: Tracing { outbox, .. } } = self;
        let (name, address) = match (&collector, outbound) {
            (Collector::Address(address), _) => (address.to_string(), *address),
            (Collector::Service(name), Some(outbound)) => (name.clone(), reachable(outbound)),
            (Collector::Service(_), None) => return,
        };
        let mut collector = Connection { name, address, channel: None, latest: Latest::Accepted };
        let mut is_last = false;
        while !is_last {
            is_last = timeout(EVERY, &mut end).await.is_ok();
            let mut calls = outbox.take();
            while !calls.is_empty() {
                let rest = calls.split_off(calls.len().min(BATCH_CALLS));
                collector.export(&calls, &resource, &outbox).await;
                calls = rest;
            }
        }
    }
}

/// Returns the address at which this machine reaches a listener.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

/// The connection to the collector.
struct Connection {
    /// The collector's name or address, and its port.
    name: String,
    /// The address to connect to.
    address: SocketAddr,
    channel: Option<Channel>,
    /// The result of the latest request. A line is logged only when this value changes.
    latest: Latest,
}

/// The result of a request with spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Latest {
    /// The collector accepted all spans of the request.
    Accepted,
    /// The collector rejected some or all spans of the request.
    Rejected,
    /// The request got no answer, or an error.
    Failed,
}

/// The number of spans that a collector rejects in its answer, and the collector's reason.
#[derive(Debug)]
struct Rejection {
    spans: usize,
    why: String,
}

impl Rejection {
    /// Returns how many calls of a batch count as rejected. The collector does not name the spans that it rejects, so
    /// the calls count in proportion, rounded up: at least one call has lost a span.
    fn calls(&self, calls: usize, spans: usize) -> usize {
        (calls * self.spans.min(spans)).div_ceil(spans.max(1))
    }
}

/// The reason why a request with spans failed.
#[derive(Debug)]
enum Failure {
    /// The connection failed, or the collector did not answer in time. The text gives the cause.
    Unanswered(String),
    /// The collector answered with an error.
    Answered(Status),
}

impl Failure {
    /// Returns whether the request may be sent again (OTLP specification, section OTLP/gRPC Response, Failures).
    fn may_retry(&self) -> bool {
        let Self::Answered(status) = self else { return true };
        match status.code() {
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss => true,
            // The usual cause is a request that is too large for the collector. Only a collector that can recover
            // sends a RetryInfo.
            Code::ResourceExhausted => has_retry_info(status),
            _ => false,
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        // tonic also returns a status for a failed connection. Only such a status has a source.
        match std::error::Error::source(&status) {
            Some(source) => Self::Unanswered(innermost(source)),
            None => Self::Answered(status),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unanswered(why) => f.write_str(why),
            Self::Answered(status) => write!(f, "{:?}: {}", status.code(), status.message()),
        }
    }
}

fn has_retry_info(status: &Status) -> bool {
    let details = rpc::Status::decode(status.details()).map(|status| status.details).unwrap_or_default();
    details.iter().any(|detail| detail.type_url.ends_with(RETRY_INFO))
}

impl Connection {
    /// Sends the spans of some calls. Drops the spans if the collector does not accept them.
    async fn export(&mut self, calls: &[FinishedCall], resource: &Resource, outbox: &Outbox) {
        let mut pauses = Retry::new(PAUSE_SHORTEST, PAUSE_LONGEST);
        let (resource_spans, spans) = otlp::resource_spans(calls, resource);
        let resource_spans = Bytes::from(resource_spans);
        for last in (0..TRIES).rev() {
            let sent = timeout(ANSWER_TIMEOUT, self.send(resource_spans.clone())).await;
            match sent.unwrap_or_else(|_| Err(Failure::Unanswered("no answer in 10 s".to_owned()))) {
                Ok(rejection) => {
                    let rejected = rejection.as_ref().map_or(0, |rejection| rejection.calls(calls.len(), spans));
                    outbox.count_exported(calls.len() - rejected);
                    outbox.count_rejected(rejected);
                    return self.note_answer(rejection.as_ref());
                }
                Err(why) => {
                    self.note_failure(&why);
                    if last == 0 || !why.may_retry() {
                        break;
                    }
                }
            }
            sleep(pauses.pause()).await;
        }
        outbox.count_rejected(calls.len());
    }

    /// Sends an encoded `ResourceSpans`. Returns the rejection if the collector rejects some of the spans, or all.
    async fn send(&mut self, resource_spans: Bytes) -> Result<Option<Rejection>, Failure> {
        let channel = match &self.channel {
            Some(channel) => channel.clone(),
            None => self.channel.insert(self.connect().await?).clone(),
        };
        let mut client = Grpc::new(answer::without_malformed_details(channel));
        client.ready().await.map_err(|error| Failure::Unanswered(innermost(&error)))?;
        // prost encodes `Bytes` as a message with one field: the bytes, with the number 1. An ExportTraceServiceRequest
        // has the same form: its only field is `resource_spans`, with the number 1.
        let codec = ProstCodec::<Bytes, ExportTraceServiceResponse>::default();
        let answer = client.unary(tonic::Request::new(resource_spans), EXPORT, codec).await?.into_inner();
        let Some(partial) = answer.partial_success else { return Ok(None) };
        // A collector may send a negative number, which is invalid and counts as 0.
        let spans = usize::try_from(partial.rejected_spans).unwrap_or(0);
        Ok((spans > 0).then_some(Rejection { spans, why: partial.error_message }))
    }

    async fn connect(&self) -> Result<Channel, Failure> {
        let failed = |error: tonic::transport::Error| Failure::Unanswered(innermost(&error));
        let endpoint = Endpoint::from_shared(format!("http://{}", self.name)).map_err(failed)?;
        let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT);
        endpoint.connect_with_connector(To(self.address)).await.map_err(failed)
    }

    fn note_answer(&mut self, rejection: Option<&Rejection>) {
        let now = if rejection.is_some() { Latest::Rejected } else { Latest::Accepted };
        if std::mem::replace(&mut self.latest, now) == now {
            return;
        }
        match rejection {
            Some(Rejection { spans, why }) => tracing::warn!(
                "the collector {} rejects {spans} spans: {why}; its log may say more \
                 (leno_traced_calls_dropped_total counts the calls)",
                self.name
            ),
            None => tracing::info!("the collector {} takes spans again", self.name),
        }
    }

    fn note_failure(&mut self, why: &Failure) {
        if matches!(why, Failure::Unanswered(_)) {
            self.channel = None;
        }
        if std::mem::replace(&mut self.latest, Latest::Failed) != Latest::Failed {
            tracing::warn!(
                "the collector {} takes no spans: {why}; traces of calls are dropped until it does \
                 (--trace-collector; leno_traced_calls_dropped_total counts them)",
                self.name
            );
        }
    }
}

/// Opens connections to this address, and ignores the host in the URI.
struct To(SocketAddr);

impl Service<Uri> for To {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let address = self.0;
        Box::pin(async move { TcpStream::connect(address).await.map(TokioIo::new) })
    }
}

#[cfg(test)]
#[path = "traces_tests.rs"]
mod tests;
