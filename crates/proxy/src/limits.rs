//! Every limit of the proxy, by name: the engine's, for either side, and the relay's own.
//!
//! `--limit NAME=VALUE` sets one. Limits of connections to endpoints begin with `endpoint_`.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The limits in force.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Of the HTTP/2 connections that clients open.
    pub client: Arc<leno_http2::Limits>,
    /// Of the HTTP/2 connections to endpoints.
    pub endpoint: Arc<leno_http2::Limits>,
    /// Of the HTTP/1 connections that clients open.
    pub http1_client: Arc<leno_http1::Limits>,
    /// Of the HTTP/1 connections to endpoints.
    pub http1_endpoint: Arc<leno_http1::Limits>,
    /// Of the relay.
    pub relay: RelayLimits,
}

/// What the relay holds and for how long; per worker where not said otherwise.
#[derive(Debug, Clone)]
pub struct RelayLimits {
    /// Connections that the own application opens.
    pub max_outbound_connections: u32,
    /// Connections of other clients that have shown no certificate, or none yet.
    pub max_inbound_connections: u32,
    /// Connections of clients that have shown a certificate.
    pub max_identified_connections: u32,
    /// Calls in flight.
    pub max_calls: u32,
    /// Services and addresses that calls were sent to and that are not forgotten yet.
    pub max_targets: u32,
    /// Questions to the control plane that it has not answered.
    pub max_questions: u32,
    /// Services and addresses about which the control plane is asked, of the whole process.
    pub max_subjects: u32,
    /// How long what the control plane said of a Service or an address is kept that no call uses.
    pub discovery_idle_ms: u32,
    /// Connections to one endpoint that carry one call each: HTTP/1 and opaque ones.
    pub max_unshared_connections_per_endpoint: u32,
    /// Calls that wait for one answer of the control plane, or for a connection to one endpoint. Of the places that are free, a client may take as many as it
    /// leaves to others.
    pub max_waiting_calls_per_endpoint: u32,
    /// How long a call may wait for a connection.
    pub max_wait_ms: u32,
    /// How many endpoints one call is given to, the first included.
    pub max_attempts: u32,
    /// Interim responses (1xx) of one call.
    pub max_interim_responses: u32,
    /// Request content that one call keeps to be sent elsewhere.
    pub max_replay_bytes_per_call: u32,
    /// Request content that all calls keep.
    pub max_replay_bytes: u32,
    /// Copies of requests in flight, which routes have sent to mirrors.
    pub max_mirrors: u32,
    /// Request content that one copy keeps because its endpoint has not taken it.
    pub max_mirror_bytes_per_call: u32,
    /// Request content that all copies keep.
    pub max_mirror_bytes: u32,
    /// How long a copy may go on when the call itself is over.
    pub mirror_timeout_ms: u32,
    /// Responses that one client has not taken yet. A tunnel's streams are held back instead, see `max_tunnel_bytes_per_client`.
    pub max_buffered_bytes_per_client: u32,
    /// What peers may make all workers hold, in KiB; each worker has an equal part. 0: half of the container's memory, or
    /// 512 MiB where it has no limit.
    pub memory_budget_kib: u32,
    /// Bytes of the own application that one tunnel's streams together hold for its client. With more than half of them each
    /// stream may hold an equal share.
    pub max_tunnel_bytes_per_client: u32,
    /// Calls of one account in flight on connections to endpoints that it shares with others; further ones use its own.
    pub max_shared_calls_per_account: u32,
    /// The same for calls that were sent before their requests had ended.
    pub max_shared_open_calls_per_account: u32,
    /// Calls that an account may cancel in 10 s on connections that it shares; if it cancels more, it gets its own.
    pub max_shared_cancels_per_account: u32,
    /// DATA frames of a few bytes, one after the other on a stream, that an account may send in 100 ms; more are collected.
    pub max_dribbles_per_account: u32,
    /// How long a request's content may stay away while the endpoint waits for it. Not for gRPC, where a client may be silent.
    pub content_timeout_ms: u32,
    /// A client's cancelled calls that endpoints do not know to be cancelled; they count as streams of the client.
    pub max_cancelled_calls_per_client: u32,
    /// Cancelled calls that an endpoint's connection is told of at once; backends take more for an attack.
    pub max_resets_per_tick: u32,
    /// Cancelled calls that an endpoint's connection may be told of in a burst.
    pub reset_burst: u32,
    /// Cancelled calls that an endpoint's connection is told of per second in the long run.
    pub resets_per_second: u32,
    /// How long a call may wait for the control plane to say what it is for, or who may call.
    pub discovery_timeout_ms: u32,
    /// How long a connection may take to show what it speaks, its TLS handshake included.
    pub detect_timeout_ms: u32,
    /// How long a client may be silent on a port of unknown protocol until its server may speak first.
    pub server_first_after_ms: u32,
    /// How long a client may take until its SETTINGS are there.
    pub handshake_timeout_ms: u32,
    /// How long a frame or a header block may take to arrive whole.
    pub frame_timeout_ms: u32,
    /// How long a peer may leave its socket unread, or what it was sent unacknowledged.
    pub unread_timeout_ms: u32,
    /// How long a peer may be silent before the kernel asks whether it is still there. It asks again after each third of
    /// that time, and gives the peer up when three questions had no answer.
    pub keepalive_ms: u32,
    /// How long DATA may wait for a client's windows without any of it moving; for a client of HTTP/1, which has none, how
    /// long it may leave its socket unread.
    pub stall_timeout_ms: u32,
    /// How long a client's connection may be without a stream.
    pub client_idle_timeout_ms: u32,
    /// How long an endpoint may be silent while calls wait for it before it is asked for a sign of life.
    pub endpoint_ping_after_ms: u32,
    /// How long the sign of life may take.
    pub endpoint_ping_timeout_ms: u32,
    /// How long a connection to an address without a Service may take to be established. A Service's own is its annotation
    /// `leno.dev/connect-timeout`.
    pub egress_connect_timeout_ms: u32,
    /// First pause after a failed connection; doubled each time, with jitter.
    pub min_backoff_ms: u32,
    /// Longest pause after a failed connection.
    pub max_backoff_ms: u32,
}

impl Default for RelayLimits {
    fn default() -> Self {
        Self {
            max_outbound_connections: 16_000,
            max_inbound_connections: 8_000,
            max_identified_connections: 16_000,
            max_calls: 100_000,
            max_targets: 10_000,
            max_questions: 1_000,
            max_subjects: 10_000,
            discovery_idle_ms: 300_000,
            max_unshared_connections_per_endpoint: 4_096,
            max_waiting_calls_per_endpoint: 10_000,
            max_wait_ms: 10_000,
            max_attempts: 4,
            max_interim_responses: 32,
            max_replay_bytes_per_call: 65_536,
            max_replay_bytes: 16 << 20,
            max_mirrors: 1_024,
            max_mirror_bytes_per_call: 65_536,
            max_mirror_bytes: 4 << 20,
            mirror_timeout_ms: 10_000,
            max_buffered_bytes_per_client: 16 << 20,
            memory_budget_kib: 0,
            max_tunnel_bytes_per_client: 16 << 20,
            max_shared_calls_per_account: 100,
            max_shared_open_calls_per_account: 16,
            max_shared_cancels_per_account: 32,
            max_dribbles_per_account: 16,
            content_timeout_ms: 60_000,
            max_cancelled_calls_per_client: 512,
            max_resets_per_tick: 16,
            reset_burst: 500,
            resets_per_second: 33,
            discovery_timeout_ms: 5_000,
            detect_timeout_ms: 10_000,
            server_first_after_ms: 500,
            handshake_timeout_ms: 10_000,
            frame_timeout_ms: 10_000,
            unread_timeout_ms: 30_000,
            keepalive_ms: 30_000,
            stall_timeout_ms: 300_000,
            client_idle_timeout_ms: 3_600_000,
            endpoint_ping_after_ms: 310_000,
            endpoint_ping_timeout_ms: 20_000,
            egress_connect_timeout_ms: 1_000,
            min_backoff_ms: 100,
            max_backoff_ms: 10_000,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            client: Arc::new(leno_http2::Limits::server()),
            endpoint: Arc::new(leno_http2::Limits::client()),
            http1_client: Arc::new(leno_http1::Limits::server()),
            http1_endpoint: Arc::new(leno_http1::Limits::client()),
            relay: RelayLimits::default(),
        }
    }
}

/// Why a limit could not be set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LimitError {
    /// No limit has that name.
    #[error("no limit is called {0}; --limit help lists them")]
    Unknown(String),
    /// The value is not a number, or out of range.
    #[error("{value} is not a number from {} to {}", range.start(), range.end())]
    OutOfRange {
        /// What was given.
        value: String,
        /// What is allowed.
        range: RangeInclusive<u32>,
    },
}

/// One limit, for listings.
#[derive(Debug, Clone, serde::Serialize)]
pub struct LimitInfo {
    /// Name, as `--limit` takes it; its unit comes last.
    pub name: &'static str,
    /// Value in force.
    pub value: u64,
    /// Value by default.
    pub default: u64,
    /// What it bounds.
    pub what: &'static str,
}

struct Spec {
    name: &'static str,
    what: &'static str,
    range: RangeInclusive<u32>,
    get: fn(&Limits) -> u32,
    place: fn(&mut Limits) -> &mut u32,
}

macro_rules! specs {
    ($($name:literal $($at:ident).+ $range:expr, $what:literal;)*) => {
        &[$(Spec {
            name: $name,
            what: $what,
            range: $range,
            get: |limits| limits.$($at).+,
            place: |limits| specs!(@place limits $($at).+),
        }),*]
    };
    (@place $limits:ident relay.$field:ident) => { &mut $limits.relay.$field };
    (@place $limits:ident $side:ident.$field:ident) => { &mut Arc::make_mut(&mut $limits.$side).$field };
}

/// What an address takes that the application dials, with its cluster and what is known of it: measured at 8.4 kB, of 10,000.
const SUBJECT_BYTES: u64 = 8 << 10;
/// Services and addresses that a proxy may know of in any container.
const MIN_SUBJECTS: u32 = 256;
/// What peers may make the workers hold where the container's memory has no limit, in KiB.
const UNLIMITED_BUDGET_KIB: u32 = 512 << 10;
/// The least that workers can do with, in KiB.
const MIN_BUDGET_KIB: u32 = 4 << 10;

const ANY: RangeInclusive<u32> = 0..=u32::MAX;
const TIME: RangeInclusive<u32> = 1..=86_400_000;
const WINDOW: RangeInclusive<u32> = 1..=i32::MAX as u32;

#[rustfmt::skip]
static SPECS: &[Spec] = specs! {
    "max_concurrent_streams" client.max_concurrent_streams 1..=100_000, "streams a client may have open at once";
    "initial_window_bytes" client.initial_window_bytes WINDOW, "first receive window of a client's stream";
    "max_stream_window_bytes" client.max_stream_window_bytes WINDOW, "largest receive window of a client's stream";
    "max_tunnel_window_bytes" client.max_tunnel_window_bytes WINDOW, "largest receive window of a client's CONNECT stream";
    "max_grown_window_bytes" client.max_grown_window_bytes ANY, "by how much a client's receive windows together grow";
    "max_held_bytes" client.max_held_bytes ANY, "content of one client's requests that has not gone on";
    "connection_window_bytes" client.connection_window_bytes 65_535..=i32::MAX as u32, "receive window of a client's connection";
    "max_header_list_bytes" client.max_header_list_bytes 1_024..=1 << 20, "a request's field section (RFC 9113 section 6.5.2)";
    "header_table_bytes" client.header_table_bytes 0..=65_536, "HPACK table for a client's fields";
    "max_header_block_bytes" client.max_header_block_bytes 1_024..=16 << 20, "a request's encoded header block";
    "max_continuation_frames" client.max_continuation_frames ANY, "CONTINUATION frames of one header block";
    "max_rapid_resets" client.max_rapid_resets ANY, "streams a client opens and resets at once, in a burst";
    "rapid_resets_per_second" client.rapid_resets_per_second ANY, "streams a client opens and resets at once, in the long run";
    "max_stream_errors" client.max_stream_errors ANY, "stream errors a client causes, per 10 s";
    "max_pings" client.max_pings ANY, "PING frames a client sends beyond the frames it is sent, per 10 s";
    "max_settings" client.max_settings ANY, "SETTINGS frames a client sends, per 10 s";
    "max_empty_frames" client.max_empty_frames ANY, "frames without content a client sends, per 10 s";
    "max_priority_frames" client.max_priority_frames ANY, "PRIORITY frames a client sends, per 10 s";
    "max_window_updates" client.max_window_updates ANY, "WINDOW_UPDATE frames beyond four per frame sent to the client, per 10 s";
    "max_dribbled_frames" client.max_dribbled_frames ANY, "DATA frames of a few bytes beyond eight per stream, per 10 s";
    "max_oversize_sections" client.max_oversize_sections ANY, "field sections over max_header_list_bytes, per 10 s";
    "max_unread_output_bytes" client.max_unread_output_bytes 65_536..=1 << 30, "answers a client leaves unread while it sends";
    "endpoint_initial_window_bytes" endpoint.initial_window_bytes WINDOW, "first receive window of a response";
    "endpoint_max_stream_window_bytes" endpoint.max_stream_window_bytes WINDOW, "largest receive window of a response";
    "endpoint_max_tunnel_window_bytes" endpoint.max_tunnel_window_bytes WINDOW, "largest receive window of the answer to a CONNECT";
    "endpoint_max_grown_window_bytes" endpoint.max_grown_window_bytes ANY, "by how much the receive windows of an endpoint's connection together grow";
    "endpoint_connection_window_bytes" endpoint.connection_window_bytes 65_535..=i32::MAX as u32, "receive window of an endpoint's connection";
    "endpoint_max_header_list_bytes" endpoint.max_header_list_bytes 1_024..=1 << 20, "a response's field section";
    "endpoint_header_table_bytes" endpoint.header_table_bytes 0..=65_536, "HPACK table for an endpoint's fields";
    "endpoint_max_header_block_bytes" endpoint.max_header_block_bytes 1_024..=16 << 20, "a response's encoded header block";
    "http1_max_header_list_bytes" http1_client.max_header_list_bytes 1_024..=1 << 20, "an HTTP/1 request's header section";
    "http1_max_target_bytes" http1_client.max_target_bytes 64..=65_536, "an HTTP/1 request's target";
    "http1_max_chunk_line_bytes" http1_client.max_chunk_line_bytes 16..=65_536, "a chunk's size line with its extensions";
    "http1_max_chunk_extension_bytes" http1_client.max_chunk_extension_bytes ANY, "chunk extensions of one HTTP/1 message";
    "http1_max_trailer_bytes" http1_client.max_trailer_bytes 0..=1 << 20, "an HTTP/1 request's trailer section";
    "http1_content_window_bytes" http1_client.content_window_bytes 1_024..=1 << 30, "HTTP/1 request content that has not gone on";
    "endpoint_http1_max_header_list_bytes" http1_endpoint.max_header_list_bytes 1_024..=1 << 20, "an HTTP/1 response's header section";
    "endpoint_http1_content_window_bytes" http1_endpoint.content_window_bytes 1_024..=1 << 30, "HTTP/1 response content that has not gone on";
    "max_outbound_connections" relay.max_outbound_connections 1..=1_000_000, "connections that the own application opens, per worker";
    "max_inbound_connections" relay.max_inbound_connections 1..=1_000_000, "connections of other clients without a certificate, per worker";
    "max_identified_connections" relay.max_identified_connections 1..=1_000_000, "connections of clients with a certificate, per worker";
    "max_calls" relay.max_calls 1..=10_000_000, "calls in flight, per worker: callers with an identity may have three quarters of them, others half";
    "max_targets" relay.max_targets 1..=1_000_000, "Services and addresses with calls, per worker";
    "max_questions" relay.max_questions 1..=100_000, "questions to the control plane without an answer, per worker";
    "max_subjects" relay.max_subjects 1..=1_000_000, "Services and addresses about which the control plane is asked, as many as fit into an eighth of the container's memory; beyond, the least recently used is forgotten";
    "discovery_idle_ms" relay.discovery_idle_ms TIME, "how long what the control plane said is kept that no call uses";
    "max_unshared_connections_per_endpoint" relay.max_unshared_connections_per_endpoint 1..=65_535, "HTTP/1 and opaque connections to one endpoint";
    "max_waiting_calls_per_endpoint" relay.max_waiting_calls_per_endpoint ANY, "calls that wait for a connection to one endpoint";
    "max_wait_ms" relay.max_wait_ms TIME, "how long a call may wait for a connection";
    "max_attempts" relay.max_attempts 1..=100, "how many endpoints one call is given to, the first included";
    "max_interim_responses" relay.max_interim_responses ANY, "interim responses (1xx) of one call";
    "max_replay_bytes_per_call" relay.max_replay_bytes_per_call ANY, "request content kept so that a call can be sent elsewhere";
    "max_replay_bytes" relay.max_replay_bytes ANY, "request content that all calls of a worker keep";
    "max_mirrors" relay.max_mirrors ANY, "copies of requests in flight to mirrors, per worker";
    "max_mirror_bytes_per_call" relay.max_mirror_bytes_per_call ANY, "request content that one copy keeps for a mirror that is slow";
    "max_mirror_bytes" relay.max_mirror_bytes ANY, "request content that all copies of a worker keep";
    "mirror_timeout_ms" relay.mirror_timeout_ms TIME, "how long a copy may go on when the call itself is over";
    "max_buffered_bytes_per_client" relay.max_buffered_bytes_per_client 65_536..=1 << 30, "responses that one client has not taken yet";
    "memory_budget_kib" relay.memory_budget_kib ANY, "what peers may make all workers hold; 0 is half of the container's memory";
    "max_tunnel_bytes_per_client" relay.max_tunnel_bytes_per_client 65_536..=1 << 30, "bytes of the application that one tunnel's streams together hold";
    "max_shared_calls_per_account" relay.max_shared_calls_per_account ANY, "calls of one peer or client on connections it shares; others use its own";
    "max_shared_open_calls_per_account" relay.max_shared_open_calls_per_account ANY, "the same for calls whose requests are still coming";
    "max_shared_cancels_per_account" relay.max_shared_cancels_per_account ANY, "calls it cancels per 10 s on connections it shares";
    "max_dribbles_per_account" relay.max_dribbles_per_account ANY, "DATA frames of a few bytes per 100 ms that are not collected";
    "content_timeout_ms" relay.content_timeout_ms TIME, "how long a request's content may stay away, except gRPC's";
    "max_cancelled_calls_per_client" relay.max_cancelled_calls_per_client ANY, "cancelled calls of one client that endpoints do not know of yet";
    "max_resets_per_tick" relay.max_resets_per_tick 1..=10_000, "cancelled calls that an endpoint's connection is told of per 10 ms";
    "reset_burst" relay.reset_burst 1..=1_000_000, "cancelled calls that an endpoint's connection is told of in a burst";
    "resets_per_second" relay.resets_per_second 1..=1_000_000, "cancelled calls that an endpoint's connection is told of, in the long run";
    "discovery_timeout_ms" relay.discovery_timeout_ms TIME, "how long a call may wait for the control plane to say what it is for, or who may call";
    "detect_timeout_ms" relay.detect_timeout_ms TIME, "how long a connection may take to show what it speaks, TLS included";
    "server_first_after_ms" relay.server_first_after_ms TIME, "how long a client may be silent on a port of unknown protocol until its server may speak first";
    "handshake_timeout_ms" relay.handshake_timeout_ms TIME, "how long a client may take to send its SETTINGS";
    "frame_timeout_ms" relay.frame_timeout_ms TIME, "how long a frame or header block may take to arrive whole";
    "unread_timeout_ms" relay.unread_timeout_ms TIME, "how long a peer may leave its socket unread, or be gone";
    "keepalive_ms" relay.keepalive_ms 3_000..=86_400_000, "how long a peer may be silent before it is asked for a sign of life";
    "stall_timeout_ms" relay.stall_timeout_ms TIME, "how long a client's windows, or of HTTP/1 its socket, may let nothing through";
    "client_idle_timeout_ms" relay.client_idle_timeout_ms TIME, "how long a client's connection may be without a call";
    "endpoint_ping_after_ms" relay.endpoint_ping_after_ms TIME, "how long an endpoint with calls may be silent before a PING";
    "endpoint_ping_timeout_ms" relay.endpoint_ping_timeout_ms TIME, "how long its answer may take";
    "egress_connect_timeout_ms" relay.egress_connect_timeout_ms 10..=60_000, "how long a connection to an address without a Service may take to be established";
    "min_backoff_ms" relay.min_backoff_ms TIME, "first pause after a failed connection";
    "max_backoff_ms" relay.max_backoff_ms TIME, "longest pause after a failed connection";
};

impl Limits {
    /// Settles the memory budget of `workers`, where none was set by the container's memory in bytes, and makes the limits
    /// fit that count the bytes of all calls: replays and mirrors together take a quarter of a worker's part at most. What
    /// is known of Services and addresses, which is beside the budget, may take an eighth of the container's memory.
    pub(crate) fn within_memory(mut self, container_bytes: Option<u64>, workers: usize) -> Self {
        let relay = &mut self.relay;
        if relay.memory_budget_kib == 0 {
            let half_kib = container_bytes.map(|bytes| u32::try_from(bytes / 2 / 1_024).unwrap_or(u32::MAX));
            relay.memory_budget_kib = half_kib.map_or(UNLIMITED_BUDGET_KIB, |kib| kib.max(MIN_BUDGET_KIB));
        }
        let worker_bytes = u64::from(relay.memory_budget_kib) * 1_024 / workers.max(1) as u64;
        let part = |of: u64| u32::try_from(worker_bytes / of).unwrap_or(u32::MAX);
        relay.max_replay_bytes = relay.max_replay_bytes.min(part(8));
        relay.max_mirror_bytes = relay.max_mirror_bytes.min(part(8));
        relay.max_buffered_bytes_per_client = relay.max_buffered_bytes_per_client.min(part(2));
        if let Some(bytes) = container_bytes {
            let subjects = u32::try_from(bytes / 8 / SUBJECT_BYTES).unwrap_or(u32::MAX);
            relay.max_subjects = relay.max_subjects.min(subjects.max(MIN_SUBJECTS));
        }
        self
    }

    /// Sets a limit by name.
    ///
    /// # Errors
    /// [`LimitError`]; nothing has changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), LimitError> {
        let spec = SPECS.iter().find(|spec| spec.name == name).ok_or_else(|| LimitError::Unknown(name.to_owned()))?;
        let number = value.parse().ok().filter(|n| spec.range.contains(n));
        *(spec.place)(self) =
            number.ok_or_else(|| LimitError::OutOfRange { value: value.to_owned(), range: spec.range.clone() })?;
        Ok(())
    }

    /// Lowers the limits of others' connections, so that these, and as many connections to the own application, leave a
    /// quarter of the `files` that the process may open to what the own application calls.
    pub(crate) fn fit_open_files(&mut self, files: u64, workers: u16) {
        let share = |part: u64| u32::try_from(files / part / u64::from(workers.max(1))).unwrap_or(u32::MAX).max(1);
        self.relay.max_inbound_connections = self.relay.max_inbound_connections.min(share(8));
        self.relay.max_identified_connections = self.relay.max_identified_connections.min(share(4));
    }

    /// All limits.
    pub fn list(&self) -> Vec<LimitInfo> {
        let default = Self::default();
        let info = |spec: &Spec| LimitInfo {
            name: spec.name,
            value: (spec.get)(self).into(),
            default: (spec.get)(&default).into(),
            what: spec.what,
        };
        SPECS.iter().map(info).collect()
    }
}

/// A limit in milliseconds.
pub(crate) fn ms(limit_ms: u32) -> Duration {
    Duration::from_millis(limit_ms.into())
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
