//! Open: the calls in flight, for `/calls`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leno_http2::fields::Known;

use crate::Relay;
use crate::call::{Call, CallId, Response};
use crate::metrics::Direction;
use crate::pool::hop::Protocol;

/// Maximum number of calls that one worker reports, because the report blocks the worker.
const MAX_REPORTED: usize = 1_000;
/// Longest name of a method in the report, in bytes.
const MAX_METHOD_BYTES: usize = 200;

/// The calls in flight of one worker.
#[derive(Debug, Default, serde::Serialize)]
pub struct OpenCalls {
    /// The oldest calls, the oldest first.
    pub calls: Vec<OpenCall>,
    /// Number of further calls that are old enough for the report, but for which `calls` has no room.
    pub omitted: usize,
}

/// The stage of an open call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// The call waits for an endpoint, or for a connection to it.
    Waiting,
    /// The call was sent, and its response has not begun.
    Sent,
    /// The response has begun.
    Answering,
    /// The response is complete, but the request is not.
    Answered,
}

/// One call in flight.
#[derive(Debug, serde::Serialize)]
pub struct OpenCall {
    /// Identifies the call among the calls of its worker.
    pub id: u64,
    pub worker: usize,
    pub direction: &'static str,
    pub client: SocketAddr,
    /// The client's workload, if its certificate proves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The Service's port, or the address, that the call goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The method of the call:
    /// - for gRPC: `package.Service/Method`
    /// - for other HTTP: the request method, and the path without its query
    /// - for an opaque connection: `TCP`
    /// - if the request is no longer stored: the method's name in metrics
    pub method: String,
    /// The endpoint of the latest attempt, if this attempt was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<SocketAddr>,
    pub progress: Progress,
    pub age_ms: u64,
    /// Time until the deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_left_ms: Option<u64>,
    /// Number of attempts that have begun.
    pub attempts: u32,
    /// Number of gRPC messages so far, in each direction.
    pub request_messages: u32,
    pub response_messages: u32,
    /// Number of bytes of content so far, in each direction.
    pub request_bytes: u64,
    pub response_bytes: u64,
    /// Content of the request that waits in the proxy until the endpoint takes it, in bytes.
    pub request_queued_bytes: usize,
    /// Content of the response that waits in the proxy until the client takes it, in bytes.
    pub response_queued_bytes: usize,
}

impl Relay {
    /// Returns the calls that have been in flight for at least `longer_than`.
    pub fn open_calls(&self, longer_than: Duration) -> OpenCalls {
        // The heap holds the oldest calls found so far. On its top is the youngest call of the heap.
        let mut oldest = BinaryHeap::<(Instant, CallId)>::new();
        let mut open = 0;
        for (id, call) in self.calls.iter() {
            if call.client.is_none() || self.now.saturating_duration_since(call.started) < longer_than {
                continue;
            }
            open += 1;
            if oldest.len() < MAX_REPORTED {
                oldest.push((call.started, id));
            } else if let Some(mut youngest) = oldest.peek_mut().filter(|youngest| youngest.0 > call.started) {
                *youngest = (call.started, id);
            }
        }
        let mut oldest = oldest.into_vec();
        oldest.sort_by_key(|&(started, id)| (started, Reverse(id)));
        let calls: Vec<OpenCall> = oldest.into_iter().filter_map(|(_, id)| self.open_call(id)).collect();
        OpenCalls { omitted: open - calls.len(), calls }
    }

    fn open_call(&self, id: CallId) -> Option<OpenCall> {
        let call = self.calls.get(id)?;
        let client = self.downstreams.get(call.client)?;
        let cluster = self.targets.get(call.cluster);
        let sent = call.attempts.latest_stream();
        let upstream = sent.and_then(|(upstream, _)| self.pools.upstream(upstream));
        let to_endpoint = upstream.zip(sent).map_or(0, |(upstream, (_, stream))| upstream.link.codec.queued_on(stream));
        // Before the call is sent, its content waits in `body`.
        let request_queued_bytes = if sent.is_some() { to_endpoint } else { call.body.len() };
        let progress = match call.response {
            Response::Awaited if sent.is_none() => Progress::Waiting,
            Response::Awaited => Progress::Sent,
            Response::Begun => Progress::Answering,
            Response::Ended => Progress::Answered,
        };
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Some(OpenCall {
            id: id.to_bits(),
            worker: self.index,
            direction: match client.origin.door.direction() {
                Direction::Inbound => "inbound",
                Direction::Outbound => "outbound",
            },
            client: client.origin.peer,
            client_id: client.peer_id.as_ref().map(ToString::to_string),
            target: cluster.map(|cluster| cluster.target.to_string()),
            method: self.method_of(call),
            endpoint: upstream.map(|upstream| upstream.address),
            progress,
            age_ms: ms(self.now.saturating_duration_since(call.started)),
            time_left_ms: call.deadline.map(|deadline| ms(deadline.saturating_duration_since(self.now))),
            attempts: call.attempts.begun(),
            request_messages: call.request_messages.begun(),
            response_messages: call.response_messages.begun(),
            request_bytes: call.request_bytes,
            response_bytes: call.response_bytes,
            request_queued_bytes,
            response_queued_bytes: client.link.codec.queued_on(call.client_stream),
        })
    }

    /// Returns the name of a call's method. A call that was sent may no longer have its request; in that case, the name
    /// comes from the metrics.
    fn method_of(&self, call: &Call) -> String {
        if call.protocol == Protocol::Opaque {
            return "TCP".to_owned();
        }
        let path = call.request.get(Known::Path).and_then(|path| path.split(|byte| b"?#".contains(byte)).next());
        let shown = |bytes: &[u8]| {
            let cut = bytes.get(..MAX_METHOD_BYTES).unwrap_or(bytes);
            cut.escape_ascii().to_string()
        };
        match (path, call.request.get(Known::Method)) {
            (Some(path), _) if call.is_grpc => shown(path.strip_prefix(b"/").unwrap_or(path)),
            (Some(path), Some(method)) => format!("{} {}", shown(method), shown(path)),
            _ => {
                let cluster = self.targets.get(call.cluster);
                cluster.map_or_else(|| "other".to_owned(), |cluster| cluster.methods.name_of(call.method).to_string())
            }
        }
    }
}
