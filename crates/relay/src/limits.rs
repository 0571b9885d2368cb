//! Every limit of the proxy, by name: the HTTP engines' limits on client and endpoint connections, and the relay's own
//! limits.
//!
//! `--limit NAME=VALUE` sets a limit. Names of limits for connections to endpoints begin with `endpoint_`.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The limits in force.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Limits of HTTP/2 connections from clients.
    pub client: Arc<leno_http2::Limits>,
    /// Limits of HTTP/2 connections to endpoints.
    pub endpoint: Arc<leno_http2::Limits>,
    /// Limits of HTTP/1 connections from clients.
    pub http1_client: Arc<leno_http1::Limits>,
    /// Limits of HTTP/1 connections to endpoints.
    pub http1_endpoint: Arc<leno_http1::Limits>,
    pub relay: RelayLimits,
}

/// The relay's own limits on numbers, sizes and times. They apply to each worker, unless stated otherwise.
#[derive(Debug, Clone)]
pub struct RelayLimits {
    /// Maximum number of sockets: connections from clients, to endpoints and to our own application.
    pub max_sockets: u32,
    /// Maximum number of connections from our own application.
    pub max_outbound_connections: u32,
    /// Maximum number of connections from other clients that have sent no certificate, or have not sent it yet.
    pub max_inbound_connections: u32,
    /// Maximum number of connections from clients with a certificate.
    pub max_identified_connections: u32,
    /// Maximum number of calls in flight.
    pub max_calls: u32,
    /// Maximum number of Services and addresses for which the relay keeps state, because calls went to them.
    pub max_targets: u32,
    /// Maximum number of requests to the control plane that have no answer yet.
    pub max_questions: u32,
    /// Maximum number of Services and addresses that the whole process asks the control plane about.
    pub max_subjects: u32,
    /// Maximum number of methods with metrics of their own, for one port of a Service or of our application.
    pub max_methods_per_service: u32,
    /// How long to keep the control plane's answer about a Service or an address that no call uses.
    pub discovery_idle_ms: u32,
    /// Maximum number of connections to one endpoint that carry one call each: HTTP/1 and opaque connections.
    pub max_unshared_connections_per_endpoint: u32,
    /// Maximum number of calls that wait for one answer of the control plane, or for a connection to one endpoint. A
    /// client may take at most half of the queue's free places.
    pub max_waiting_calls_per_endpoint: u32,
    /// How long a call may wait for a connection.
    pub max_wait_ms: u32,
    /// Maximum number of attempts at one call, including the first attempt.
    pub max_attempts: u32,
    /// Maximum number of interim responses (1xx) to one call.
    pub max_interim_responses: u32,
    /// Maximum size of the request content that one call keeps for another attempt.
    pub max_replay_bytes_per_call: u32,
    /// Maximum size of the request content that all calls together keep for other attempts.
    pub max_replay_bytes: u32,
    /// Maximum number of calls that are sampled for a trace in one second.
    pub max_traced_calls_per_second: u32,
    /// Maximum number of mirrored copies of requests in flight.
    pub max_mirrors: u32,
    /// Maximum size of the request content that one mirrored copy keeps until its mirror reads the content.
    pub max_mirror_bytes_per_call: u32,
    /// Maximum size of the request content that all mirrored copies together keep for their mirrors.
    pub max_mirror_bytes: u32,
    /// How long a mirrored copy of a call may continue after the original call has ended.
    pub mirror_timeout_ms: u32,
    /// Maximum size of the response content buffered for one client that has not read it. The responses of a client that
    /// is only slow share half of this limit, see `downstream/share`. Streams in a tunnel have a limit of their own, see
    /// `max_tunnel_bytes_per_client`.
    pub max_buffered_bytes_per_client: u32,
    /// Maximum memory that peers may cause all workers to use, in KiB; each worker has an equal share. 0 means half of
    /// the container's memory limit, or 512 MiB without a limit.
    pub memory_budget_kib: u32,
    /// Maximum number of bytes from our own application that all streams of one tunnel together buffer for its client.
    /// Each stream may buffer an equal share of half of this limit, within fixed bounds.
    pub max_tunnel_bytes_per_client: u32,
    /// Maximum number of calls that one account may have in flight on shared connections. Further calls use the
    /// account's own connections. A shared connection leads to an endpoint, and also carries calls of other accounts.
    /// An account is a client's identity, a source address, or a connection of our own application.
    pub max_shared_calls_per_account: u32,
    /// Maximum number of calls with incomplete requests that one account has in flight on shared connections. See
    /// `max_shared_calls_per_account`.
    pub max_shared_open_calls_per_account: u32,
    /// Maximum number of calls that an account may cancel within 10 s on shared connections. Calls that servers reject
    /// with ENHANCE_YOUR_CALM count, too. An account with more such calls gets its own connections.
    pub max_shared_cancels_per_account: u32,
    /// Maximum number of dribbles that an account may send within 100 ms. A dribble is a small DATA frame (a few bytes)
    /// that is the first DATA frame of its stream or follows another small DATA frame. Above this limit, the proxy
    /// merges the frames.
    pub max_dribbles_per_account: u32,
    /// How long a client may let an endpoint wait for request content. Does not apply to gRPC, whose clients may pause.
    pub content_timeout_ms: u32,
    /// Maximum number of a client's cancelled calls that the proxy has not reset at their endpoints yet. At this limit,
    /// the proxy rejects new calls of the client with REFUSED_STREAM.
    pub max_cancelled_calls_per_client: u32,
    /// Maximum number of RST_STREAM frames that the proxy sends on one connection to an endpoint per 10 ms: servers may
    /// treat more frames as an attack.
    pub max_resets_per_tick: u32,
    /// Maximum number of RST_STREAM frames that the proxy sends in a burst on one connection to an endpoint that several
    /// accounts share; lower for a server that has closed a connection because of resets (`pool/cancel`).
    pub reset_burst: u32,
    /// Like `reset_burst`, but per second, in the long run.
    pub resets_per_second: u32,
    /// How long a call may wait for the control plane to send its destination or the policies that apply to it.
    pub discovery_timeout_ms: u32,
    /// How long a new connection may take, including the TLS handshake, until its protocol is known.
    pub detect_timeout_ms: u32,
    /// How long to wait for a client's first bytes on a port of unknown protocol before the server may speak first.
    pub server_first_after_ms: u32,
    /// How long a client may take to send its SETTINGS.
    pub handshake_timeout_ms: u32,
    /// How long a frame or a header block may take to arrive completely.
    pub frame_timeout_ms: u32,
    /// How long an HTTP/2 peer may leave its socket unread, or data unacknowledged. Opaque connections are exempt until
    /// both sides have ended them.
    pub unread_timeout_ms: u32,
    /// How long a peer may be silent before the kernel sends a keepalive probe. The kernel repeats the probe after each
    /// third of that time, and closes the connection after three unanswered probes.
    pub keepalive_ms: u32,
    /// How long DATA may wait for a client's flow-control windows without progress. For HTTP/1, which has no windows:
    /// how long a peer may leave its socket unread, or data unacknowledged. Connections are exempt after an upgrade.
    pub stall_timeout_ms: u32,
    /// How long a client's connection may be without a stream.
    pub client_idle_timeout_ms: u32,
    /// How long an endpoint may send nothing while it has calls, before an unanswered PING counts. The proxy then sends
    /// a PING, unless one is unanswered.
    pub endpoint_ping_after_ms: u32,
    /// How much longer the endpoint may then send nothing, before the proxy closes the connection.
    pub endpoint_ping_timeout_ms: u32,
    /// Maximum time to establish a connection to an address that belongs to no Service. For a Service, the annotation
    /// `leno.dev/connect-timeout` applies.
    pub egress_connect_timeout_ms: u32,
    /// Pause before the next attempt to connect after the first failure. The pause doubles with each failure, and has
    /// jitter.
    pub min_backoff_ms: u32,
    /// Longest pause before the next attempt to connect after a failure.
    pub max_backoff_ms: u32,
}

impl Default for RelayLimits {
    fn default() -> Self {
        Self {
            max_sockets: 1_000_000,
            max_outbound_connections: 16_000,
            max_inbound_connections: 8_000,
            max_identified_connections: 16_000,
            max_calls: 100_000,
            max_targets: 10_000,
            max_questions: 1_000,
            max_subjects: 10_000,
            max_methods_per_service: 100,
            discovery_idle_ms: 300_000,
            max_unshared_connections_per_endpoint: 4_096,
            max_waiting_calls_per_endpoint: 10_000,
            max_wait_ms: 10_000,
            max_attempts: 4,
            max_interim_responses: 32,
            max_replay_bytes_per_call: 65_536,
            max_replay_bytes: 16 << 20,
            max_traced_calls_per_second: 1_000,
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

/// Reason why a limit could not be set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LimitError {
    #[error("there is no limit {0}; --limit help lists all limits")]
    Unknown(String),
    #[error("{value} is not a number from {} to {}", range.start(), range.end())]
    OutOfRange {
        value: String,
        /// The allowed range.
        range: RangeInclusive<u32>,
    },
}

/// One entry of the list of all limits.
#[derive(Debug, Clone, serde::Serialize)]
pub struct LimitInfo {
    /// Name, as `--limit` accepts it. It ends in the unit of the value.
    pub name: &'static str,
    pub value: u64,
    pub default: u64,
    /// Description, as `--limit help` shows it.
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

/// Memory of an address that the application calls, with its cluster and the control plane's answer: 8.4 kB, measured
/// with 10,000 addresses.
const SUBJECT_BYTES: u64 = 8 << 10;
/// Smallest value to which a small container lowers `max_subjects`, the number of Services and addresses that a proxy
/// may know.
const MIN_SUBJECTS: u32 = 256;
/// Default memory budget in KiB if the container's memory has no limit.
const UNLIMITED_BUDGET_KIB: u32 = 512 << 10;
/// Smallest possible memory budget in KiB.
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
    "max_grown_window_bytes" client.max_grown_window_bytes ANY, "growth of all receive windows of a client together";
    "max_held_bytes" client.max_held_bytes ANY, "content of one client's requests that has not been forwarded";
    "connection_window_bytes" client.connection_window_bytes 65_535..=i32::MAX as u32, "receive window of a client's connection";
    "max_header_list_bytes" client.max_header_list_bytes 1_024..=1 << 20, "a request's field section (RFC 9113 section 6.5.2)";
    "header_table_bytes" client.header_table_bytes 0..=65_536, "HPACK table for a client's fields";
    "max_header_block_bytes" client.max_header_block_bytes 1_024..=16 << 20, "a request's encoded header block";
    "max_continuation_frames" client.max_continuation_frames ANY, "CONTINUATION frames of one header block";
    "max_rapid_resets" client.max_rapid_resets ANY, "streams a client opens and resets at once, in a burst";
    "rapid_resets_per_second" client.rapid_resets_per_second ANY, "streams a client opens and resets at once, in the long run";
    "max_stream_errors" client.max_stream_errors ANY, "stream errors a client causes, per 10 s";
    "max_pings" client.max_pings ANY, "PING frames from a client beyond the frames sent to it, and acknowledgements of no PING, per 10 s";
    "max_settings" client.max_settings ANY, "SETTINGS frames a client sends, and acknowledgements beyond the first, per 10 s";
    "max_empty_frames" client.max_empty_frames ANY, "frames without content a client sends, and resets of closed streams beyond one for each, per 10 s";
    "max_goaways" client.max_goaways ANY, "GOAWAY frames a client sends, per 10 s";
    "max_priority_frames" client.max_priority_frames ANY, "PRIORITY frames a client sends, per 10 s";
    "max_window_updates" client.max_window_updates ANY, "WINDOW_UPDATE frames beyond four per frame sent to the client, per 10 s";
    "max_dribbled_frames" client.max_dribbled_frames ANY, "DATA frames of a few bytes beyond eight per stream, per 10 s, except in tunnels";
    "max_oversize_sections" client.max_oversize_sections ANY, "field sections larger than max_header_list_bytes, per 10 s";
    "max_unread_output_bytes" client.max_unread_output_bytes 65_536..=1 << 30, "responses that a client leaves unread while it sends";
    "endpoint_initial_window_bytes" endpoint.initial_window_bytes WINDOW, "first receive window of a response";
    "endpoint_max_stream_window_bytes" endpoint.max_stream_window_bytes WINDOW, "largest receive window of a response";
    "endpoint_max_tunnel_window_bytes" endpoint.max_tunnel_window_bytes WINDOW, "largest receive window of the answer to a CONNECT";
    "endpoint_max_grown_window_bytes" endpoint.max_grown_window_bytes ANY, "growth of all receive windows of an endpoint's connection together";
    "endpoint_connection_window_bytes" endpoint.connection_window_bytes 65_535..=i32::MAX as u32, "receive window of an endpoint's connection";
    "endpoint_max_header_list_bytes" endpoint.max_header_list_bytes 1_024..=1 << 20, "a response's field section";
    "endpoint_header_table_bytes" endpoint.header_table_bytes 0..=65_536, "HPACK table for an endpoint's fields";
    "endpoint_max_header_block_bytes" endpoint.max_header_block_bytes 1_024..=16 << 20, "a response's encoded header block";
    "http1_max_header_list_bytes" http1_client.max_header_list_bytes 1_024..=1 << 20, "an HTTP/1 request's header section";
    "http1_max_target_bytes" http1_client.max_target_bytes 64..=65_536, "an HTTP/1 request's target";
    "http1_max_chunk_line_bytes" http1_client.max_chunk_line_bytes 16..=65_536, "a chunk's size line with its extensions";
    "http1_max_chunk_extension_bytes" http1_client.max_chunk_extension_bytes ANY, "chunk extensions of one HTTP/1 message";
    "http1_max_trailer_bytes" http1_client.max_trailer_bytes 0..=1 << 20, "an HTTP/1 request's trailer section";
    "http1_content_window_bytes" http1_client.content_window_bytes 1_024..=1 << 30, "HTTP/1 request content that has not been forwarded";
    "endpoint_http1_max_header_list_bytes" http1_endpoint.max_header_list_bytes 1_024..=1 << 20, "an HTTP/1 response's header section";
    "endpoint_http1_content_window_bytes" http1_endpoint.content_window_bytes 1_024..=1 << 30, "HTTP/1 response content that has not been forwarded";
    "max_sockets" relay.max_sockets 1..=10_000_000, "connections from clients, to endpoints and to the own application, per worker";
    "max_outbound_connections" relay.max_outbound_connections 1..=1_000_000, "connections from the own application, per worker";
    "max_inbound_connections" relay.max_inbound_connections 1..=1_000_000, "connections from other clients without a certificate, per worker";
    "max_identified_connections" relay.max_identified_connections 1..=1_000_000, "connections from clients with a certificate, per worker";
    "max_calls" relay.max_calls 1..=10_000_000, "calls in flight, per worker: callers with an identity may use three quarters, others half";
    "max_targets" relay.max_targets 1..=1_000_000, "Services and addresses with calls, per worker";
    "max_questions" relay.max_questions 1..=100_000, "unanswered requests to the control plane, per worker";
    "max_subjects" relay.max_subjects 1..=1_000_000, "Services and addresses that the control plane is asked about, as many as fit into a quarter of the container's memory; beyond, the least recently used is forgotten";
    "max_methods_per_service" relay.max_methods_per_service 0..=1_000, "methods of one Service or port with metrics of their own";
    "discovery_idle_ms" relay.discovery_idle_ms TIME, "how long to keep an answer of the control plane that no call uses";
    "max_unshared_connections_per_endpoint" relay.max_unshared_connections_per_endpoint 1..=65_535, "HTTP/1 and opaque connections to one endpoint";
    "max_waiting_calls_per_endpoint" relay.max_waiting_calls_per_endpoint ANY, "calls that wait for a connection to one endpoint";
    "max_wait_ms" relay.max_wait_ms TIME, "how long a call may wait for a connection";
    "max_attempts" relay.max_attempts 1..=100, "attempts of one call, including the first, beside the retries of its route";
    "max_interim_responses" relay.max_interim_responses ANY, "interim responses (1xx) of one call";
    "max_replay_bytes_per_call" relay.max_replay_bytes_per_call ANY, "request content that one call keeps for another attempt";
    "max_replay_bytes" relay.max_replay_bytes ANY, "request content that all calls of a worker keep for other attempts";
    "max_traced_calls_per_second" relay.max_traced_calls_per_second ANY, "calls sampled for a trace in one second, per worker; further calls are not traced";
    "max_mirrors" relay.max_mirrors ANY, "mirrored copies of requests in flight, per worker";
    "max_mirror_bytes_per_call" relay.max_mirror_bytes_per_call ANY, "request content that one copy keeps for a slow mirror";
    "max_mirror_bytes" relay.max_mirror_bytes ANY, "request content that all copies of a worker keep";
    "mirror_timeout_ms" relay.mirror_timeout_ms TIME, "how long a copy may continue after the original call has ended";
    "max_buffered_bytes_per_client" relay.max_buffered_bytes_per_client 65_536..=1 << 30, "response content buffered for one client that has not read it";
    "memory_budget_kib" relay.memory_budget_kib ANY, "memory that peers may cause all workers to use; 0 is half of the container's memory limit";
    "max_tunnel_bytes_per_client" relay.max_tunnel_bytes_per_client 65_536..=1 << 30, "bytes from the own application that all streams of one tunnel buffer";
    "max_shared_calls_per_account" relay.max_shared_calls_per_account ANY, "calls of one peer or client on shared connections; further calls use its own connections";
    "max_shared_open_calls_per_account" relay.max_shared_open_calls_per_account ANY, "as above, for calls whose requests have not ended";
    "max_shared_cancels_per_account" relay.max_shared_cancels_per_account ANY, "calls that it cancels on shared connections, per 10 s";
    "max_dribbles_per_account" relay.max_dribbles_per_account ANY, "DATA frames of a few bytes that are not merged, per 100 ms, except opaque bytes";
    "content_timeout_ms" relay.content_timeout_ms TIME, "how long an endpoint waits for request content, except gRPC's";
    "max_cancelled_calls_per_client" relay.max_cancelled_calls_per_client ANY, "cancelled calls of one client whose endpoints have not been told yet";
    "max_resets_per_tick" relay.max_resets_per_tick 1..=10_000, "RST_STREAM frames on an endpoint's connection per 10 ms";
    "reset_burst" relay.reset_burst 1..=1_000_000, "RST_STREAM frames on an endpoint's connection in a burst";
    "resets_per_second" relay.resets_per_second 1..=1_000_000, "RST_STREAM frames on an endpoint's connection, in the long run";
    "discovery_timeout_ms" relay.discovery_timeout_ms TIME, "how long a call may wait for the control plane's answer about its destination or its policies";
    "detect_timeout_ms" relay.detect_timeout_ms TIME, "how long a connection may take to show its protocol, including TLS";
    "server_first_after_ms" relay.server_first_after_ms TIME, "how long to wait for a client's first bytes on a port of unknown protocol before the server may speak first";
    "handshake_timeout_ms" relay.handshake_timeout_ms TIME, "how long a client may take to send its SETTINGS";
    "frame_timeout_ms" relay.frame_timeout_ms TIME, "how long a frame or header block may take to arrive completely";
    "unread_timeout_ms" relay.unread_timeout_ms TIME, "how long an HTTP/2 peer may leave its socket unread, or data unacknowledged";
    "keepalive_ms" relay.keepalive_ms 3_000..=86_400_000, "how long a peer may be silent before a keepalive probe";
    "stall_timeout_ms" relay.stall_timeout_ms TIME, "how long DATA for a client may make no progress, and how long an HTTP/1 peer may leave its socket unread";
    "client_idle_timeout_ms" relay.client_idle_timeout_ms TIME, "how long a client's connection may have no call";
    "endpoint_ping_after_ms" relay.endpoint_ping_after_ms TIME, "how long an endpoint with calls may be silent before an unanswered PING counts";
    "endpoint_ping_timeout_ms" relay.endpoint_ping_timeout_ms TIME, "how much longer the endpoint may then be silent before the proxy closes the connection";
    "egress_connect_timeout_ms" relay.egress_connect_timeout_ms 10..=60_000, "how long it may take to connect to an address without a Service";
    "min_backoff_ms" relay.min_backoff_ms TIME, "first pause after a failed connection";
    "max_backoff_ms" relay.max_backoff_ms TIME, "longest pause after a failed connection";
};

impl Limits {
    /// Sets the memory budget of all `workers` from the container's memory in bytes, unless the budget was given. Also
    /// lowers other limits:
    /// - Replays and mirrors together take at most a quarter of a worker's share of the budget.
    /// - The response content buffered for one client takes at most half of this share.
    /// - Data about Services and addresses takes at most a quarter of the container's memory. This data is not part of
    ///   the budget.
    pub fn within_memory(mut self, container_bytes: Option<u64>, workers: usize) -> Self {
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
            let subjects = u32::try_from(bytes / 4 / SUBJECT_BYTES).unwrap_or(u32::MAX);
            relay.max_subjects = relay.max_subjects.min(subjects.max(MIN_SUBJECTS));
        }
        self
    }

    /// Sets a limit by name.
    ///
    /// # Errors
    /// [`LimitError`] if no limit has this name, or if the value is out of range. In both cases, no limit changes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), LimitError> {
        let spec = SPECS.iter().find(|spec| spec.name == name).ok_or_else(|| LimitError::Unknown(name.to_owned()))?;
        let number = value.parse().ok().filter(|n| spec.range.contains(n));
        *(spec.place)(self) =
            number.ok_or_else(|| LimitError::OutOfRange { value: value.to_owned(), range: spec.range.clone() })?;
        Ok(())
    }

    /// Lowers the limits on sockets and on connections from clients to fit into the process's limit of open `files`.
    ///
    /// - All sockets together use at most seven eighths of the files. The process needs the rest, for example for the
    ///   admin endpoint and for logs.
    /// - Connections of our own application use at most half of the files, connections of clients with a certificate a
    ///   quarter, and connections of other clients an eighth. Each connection of another workload may need a second
    ///   connection, to our application. Even then, an eighth of the files is left for our application's connections.
    pub fn fit_open_files(&mut self, files: u64, workers: u16) {
        let share =
            |eighths: u64| u32::try_from(files / 8 * eighths / u64::from(workers.max(1))).unwrap_or(u32::MAX).max(1);
        let relay = &mut self.relay;
        relay.max_sockets = relay.max_sockets.min(share(7));
        relay.max_outbound_connections = relay.max_outbound_connections.min(share(4));
        relay.max_inbound_connections = relay.max_inbound_connections.min(share(1));
        relay.max_identified_connections = relay.max_identified_connections.min(share(2));
    }

    /// Returns all limits.
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

/// Converts a limit in milliseconds.
pub fn ms(limit_ms: u32) -> Duration {
    Duration::from_millis(limit_ms.into())
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
