//! Limits on what clients may ask for. A client over a limit gets RESOURCE_EXHAUSTED or waits; other clients are not
//! affected, unless they use more than the client (`ledger`), or all clients together leave too many responses unread
//! ([`Capacity::bytes_max`]). A limit on subscriptions refuses only the names above it; the client's other subscriptions
//! continue.
//!
//! The limits for all clients together ([`Capacity`]) fit into the shares of the memory that `crate::budget` reserves
//! for xDS. `ledger` divides the capacity among the namespaces, and the part of a namespace among its identities.

use std::time::Duration;

use crate::budget::{
    HANDSHAKE_BYTES, SMALL, XDS_BYTES, XDS_HANDSHAKES, XDS_NAMES, XDS_RESOURCES, XDS_STREAMS, at_most, process_memory,
};

/// Limit on concurrent streams of one connection; a client needs one stream.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 8;
/// Limit on concurrent connections. At the limit, a new connection replaces a connection of the namespace with the most
/// connections.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Limit on concurrent connections whose clients have not presented a certificate yet. [`handshakes_max`] returns less
/// if the process has little memory.
const HANDSHAKES_MAX: usize = 1_024;
/// Limit on the resources of one kind that one client may subscribe to by name. A Leno proxy subscribes to at most
/// 10,000 Services and addresses, and also to the Services that the routes of these Services name.
pub const SUBSCRIPTIONS_MAX: usize = 20_000;
/// Limit on the errors in the answer to one request of incremental xDS, one error for each refused name. Further names
/// are refused without an error. A proxy sends at most this number of names in a request.
pub const REFUSED_NAMES_MAX: usize = 500;
/// Longest time that a stream lives after its first refused name. The actual time is random: half of this time or more.
/// Then the client connects again, perhaps to a replica with room. Envoy asks for a refused name again only on a new
/// stream.
pub const REFUSED_STREAM_MAX: Duration = Duration::from_secs(120);
/// Time in which a client must read a response of less than twice [`RESPONSE_BYTES`]. A longer response has this time for
/// each full `RESPONSE_BYTES`, up to [`UNREAD_FACTOR_MAX`] times. The time begins when the client has read the responses
/// before it, so a client that reads 35 kB/s reads any number of responses of up to 8 MiB. After the time, the stream
/// ends: the response takes memory, and may leave no room for responses to other clients. A client that answers no PING
/// loses its connection earlier ([`KEEPALIVE`]).
pub const UNREAD_MAX: Duration = Duration::from_secs(60);
/// Limit on the time for the longest responses, as a multiple of [`UNREAD_MAX`]. A client that reads 66 kB/s reads an
/// Envoy's list of 15 MiB in this time. More time would help few clients, and unread responses of this size may leave no
/// room for responses to any client.
pub const UNREAD_FACTOR_MAX: u32 = 4;
/// Longest time that a client may take to read the end of its stream after the stream was displaced, or was ended
/// because of [`UNREAD_MAX`]. Then the connection is closed, because responses that the client does not read take memory.
/// If the stream was displaced for its bytes, the connection is closed at once.
pub const DISPLACED_MAX: Duration = Duration::from_secs(5);
/// Number of streams that the requests of one namespace may displace in a burst, beyond [`DISPLACEMENTS_PER_SECOND`]. A
/// request that needs more displacements is refused. A namespace of a thousand proxies can claim its part of a full
/// control plane at once.
pub const DISPLACEMENTS_BURST: u32 = 1_000;
/// Sustained displacements per second of one namespace.
pub const DISPLACEMENTS_PER_SECOND: u32 = 10;
/// Shortest pause between two warnings about refused names, and between two about displaced streams, for all clients
/// together.
pub const REFUSED_WARNING_PAUSE: Duration = Duration::from_secs(10);
/// Maximum size of a request, in bytes. Its parsed form takes up to 12 times as much memory. 17,000 names of 60 bytes
/// fit; proxies send 500 names at a time.
pub const REQUEST_MAX_BYTES: usize = 1 << 20;
/// Number of requests that one stream may send in a burst, beyond [`REQUESTS_PER_SECOND`]. Requests above the limit are
/// read later. A proxy sends two requests for each new address that its application calls.
pub const REQUESTS_BURST: u32 = 2_000;
/// Sustained requests per second of one stream.
pub const REQUESTS_PER_SECOND: u32 = 500;
/// Receive window of a stream and of its connection: number of bytes that a client may send before we read them. HTTP/2
/// allows no smaller window for a connection.
pub const WINDOW_BYTES: u32 = 65_535;
/// Number of request bytes that the clients of one identity at one address may send in a burst, beyond
/// [`READ_BYTES_PER_SECOND`]. Requests above the limit are read later. The requests of a thousand simulated proxies in
/// one Pod fit.
pub const READ_BURST_BYTES: u32 = 128 << 20;
/// Sustained request bytes per second of the clients of one identity at one address. Parsing requests at this rate
/// takes about a fifth of a processor.
pub const READ_BYTES_PER_SECOND: u32 = 8 << 20;
/// Number of bytes that each new stream adds to the counted request bytes, for the work of opening and ending the
/// stream.
pub const READ_BYTES_PER_STREAM: usize = 4 << 10;
/// Number of bytes that each request adds to its own counted bytes, for the work of answering the request.
pub const READ_BYTES_PER_REQUEST: usize = 256;
/// Number of bytes that each name in a request adds to the request's counted bytes, for the work of looking the name
/// up.
pub const READ_BYTES_PER_NAME: usize = 64;
/// Number of resource bytes that the clients of one identity at one address may request in a burst, beyond
/// [`ASKED_BYTES_PER_SECOND`]. These resources count:
///
/// - a resource after each subscription to it, the first subscription included;
/// - a resource that a state-of-the-world response repeats;
/// - a resource that the client has from an earlier stream, since we must write it to compare the versions.
///
/// A newer version of a resource that this stream was sent does not count. Above the limit, changes gather until they
/// may be sent.
///
/// The whole state of an Envoy that knows 10,000 Services with 10 endpoints each takes 49 MiB, and so fits. A Service's
/// four resources were measured at 5.1 kB for a client with a certificate.
pub const ASKED_BURST_BYTES: u32 = 64 << 20;
/// Sustained bytes per second of the resources that count for [`ASKED_BURST_BYTES`].
pub const ASKED_BYTES_PER_SECOND: u32 = 4 << 20;
/// Size in bytes at which a response is full: the remaining resources follow in another response. A response that must
/// be complete has no limit.
pub const RESPONSE_BYTES: usize = 1 << 20;
/// Average time, at least, between two versions of the routes of the whole mesh (`mesh`) for a client that has a
/// version. A client that acknowledges late may get two versions in a shorter time. The resource grows with the mesh:
/// with 10,000 Services it has 1.7 MB. Each namespace has its own form of it, and a change of one route or one Service
/// changes all of it. Changes within this time gather.
pub const WHOLE_ROUTES_PAUSE: Duration = Duration::from_secs(1);
/// Maximum length, in bytes, of a client's text that we keep: its description of itself, or its reason for rejecting a
/// resource.
pub const TEXT_MAX_BYTES: usize = 256;
/// Maximum number of reasons that a stream keeps for each kind of resources. A client gives a reason when it rejects a
/// response; the latest reasons stay.
pub const REASONS_MAX: usize = 4;
/// If a client sends nothing for this time, the server sends it a PING.
pub const KEEPALIVE: Duration = Duration::from_secs(30);
/// If a client does not answer a PING within this time, the server closes the connection.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Unread responses may take this number of times [`Capacity::bytes_max`]. Above `bytes_max`, only clients without
/// unread responses get responses.
pub(super) const RESPONSES_FACTOR: usize = 2;
/// Memory of a stream with its connection, in bytes: an idle TLS connection was measured at 30 kB. The memory includes
/// the subscription to the policies of the client's own workload.
const STREAM_BYTES: usize = 40 << 10;
/// Memory of one subscription, in bytes: a subscription to a missing resource with a name of 108 bytes was measured at
/// 280 bytes.
const NAME_BYTES: usize = 320;
/// Memory of a kept resource in addition to its bytes, in bytes: measured at 900 bytes, with names of 50 bytes.
pub const KEPT_BYTES: usize = 1 << 10;

// If the process may use 256 MiB, 2,000 proxies can have a stream each. 1,000 of them can subscribe to 50 Services and
// addresses in each of four kinds of resources. 100 clients can be in their TLS handshake at the same time.
const LEAST: Capacity = Capacity::of_memory(SMALL);
const _: () = assert!(LEAST.streams_max >= 2_000 && LEAST.names_max >= 1_000 * 50 * 4 && handshakes_max(SMALL) >= 100);

/// Limits on what all clients together may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Maximum number of concurrent streams, over all connections.
    pub streams_max: usize,
    /// Maximum number of subscriptions of all kinds, over all streams.
    pub names_max: usize,
    /// Maximum number of bytes of incomplete requests, and of responses that clients have not read. Beyond this number,
    /// clients without unread responses still get responses, until all clients use twice this number. Then no client gets
    /// a response until some are read or their streams end.
    pub bytes_max: usize,
}

impl Capacity {
    /// The capacity of a process that may use `memory` bytes.
    pub const fn of_memory(memory: usize) -> Self {
        Self {
            streams_max: XDS_STREAMS.of(memory) / STREAM_BYTES,
            names_max: XDS_NAMES.of(memory) / NAME_BYTES,
            // Responses may take up to twice this number.
            bytes_max: XDS_BYTES.of(memory) / RESPONSES_FACTOR,
        }
    }

    /// The capacity of this process, derived from the memory limit of its cgroup if there is one.
    pub fn of_process() -> Self {
        Self::of_memory(process_memory())
    }
}

/// Limit on concurrent connections whose clients have not presented a certificate yet, if the process may use `memory`
/// bytes.
pub(crate) const fn handshakes_max(memory: usize) -> usize {
    at_most(XDS_HANDSHAKES.of(memory) / HANDSHAKE_BYTES, HANDSHAKES_MAX)
}

/// Limit on the memory of encoded resources that are kept for all clients, in bytes, if the process may use `memory`
/// bytes.
pub(crate) const fn kept_max_bytes(memory: usize) -> usize {
    XDS_RESOURCES.of(memory)
}
