//! Limits on what clients may ask for. A client over a limit gets RESOURCE_EXHAUSTED or waits; other clients are not
//! affected.
//!
//! The process's memory bounds the cost of all clients ([`Capacity`]), which `accounts` divides by identity.

use std::time::Duration;

/// Most streams at once on one connection; a client needs one.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 8;
/// Most connections at once. A new connection replaces one of the identity with the most.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Most connections at once whose clients have not shown a certificate yet.
pub const HANDSHAKES_MAX: usize = 1_024;
/// Most resources of one kind that one client may subscribe to by name. A Leno proxy asks for at most 10,000 Services
/// and addresses, whose routes may lead to others.
pub const SUBSCRIPTIONS_MAX: usize = 20_000;
/// Longest request, in bytes. Its parsed form takes up to 12 times as much memory. 17,000 names of 60 bytes fit;
/// proxies send 1,000 at a time.
pub const REQUEST_MAX_BYTES: usize = 1 << 20;
/// Requests that one stream may send at once, beyond [`REQUESTS_PER_SECOND`]; later ones are read later. A proxy sends
/// two requests for each new address that its application calls.
pub const REQUESTS_BURST: u32 = 2_000;
/// Sustained requests per second of one stream.
pub const REQUESTS_PER_SECOND: u32 = 500;
/// Receive window of a stream and of its connection, in bytes: how much a client may send before it is read. HTTP/2
/// allows no smaller window for a connection.
pub const WINDOW_BYTES: u32 = 65_535;
/// Bytes of requests that the clients of one identity at one address may send at once, beyond
/// [`READ_BYTES_PER_SECOND`]; later ones are read later. The requests of a thousand simulated proxies in one Pod fit.
pub const READ_BURST_BYTES: u32 = 128 << 20;
/// Sustained bytes per second of the same requests: parsing them takes about a fifth of a processor.
pub const READ_BYTES_PER_SECOND: u32 = 8 << 20;
/// Added to each request's bytes for the work of answering it.
pub const READ_BYTES_PER_REQUEST: usize = 256;
/// Added to a request's bytes for each name in it, for the work of looking it up.
pub const READ_BYTES_PER_NAME: usize = 64;
/// Bytes of resources that the clients of one identity at one address may be sent again at once: after they subscribe
/// again to what they have, or since a state-of-the-world response repeats every resource. Above the limit, changes
/// gather until they may be sent.
pub const AGAIN_BURST_BYTES: u32 = 32 << 20;
/// Sustained bytes per second of the same resources.
pub const AGAIN_BYTES_PER_SECOND: u32 = 4 << 20;
/// Bytes of resources in one response, except in responses that must be complete. One resource always fits.
pub const RESPONSE_BYTES: usize = 1 << 20;
/// Bytes that are kept of a client's description of itself and of its reason to reject a resource.
pub const TEXT_MAX_BYTES: usize = 256;
/// Silence after which a client gets a PING.
pub const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long it may take to answer.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Memory of a stream with its connection, in bytes: an idle TLS connection was measured at 30 kB.
const STREAM_BYTES: usize = 40 << 10;
/// Memory of one subscription, in bytes: one to a missing resource with a name of 108 bytes was measured at 280.
const NAME_BYTES: usize = 320;
/// Streams may take 1/3 of the process's memory.
const STREAMS_SHARE: usize = 3;
/// Subscriptions may take 1/4 of the process's memory.
const NAMES_SHARE: usize = 4;
/// Incomplete requests and unread responses may take 1/12 of the process's memory.
const BYTES_SHARE: usize = 12;
/// Memory assumed for a process without a limit: enough for 17,000 streams.
const MEMORY_UNLIMITED: usize = 2 << 30;
/// The least memory assumed; a lower limit is a mistake in a manifest.
const MEMORY_MIN: usize = 64 << 20;

// Streams, subscriptions and bytes in transit leave a third of the memory (85 of 256 MiB) to the mesh, its resources
// and everything else.
const _: () = assert!(12 / STREAMS_SHARE + 12 / NAMES_SHARE + 12 / BYTES_SHARE <= 8);
const SMALL: Capacity = Capacity::of_memory(256 << 20);
const _: () =
    assert!(SMALL.streams_max * STREAM_BYTES + SMALL.names_max * NAME_BYTES + SMALL.bytes_max <= (256 << 20) / 3 * 2,);
// With 256 MiB, 2,000 proxies can have a stream each, and 1,000 of them can ask for 50 Services and addresses in four
// kinds of resources. One identity may have half of that.
const _: () = assert!(SMALL.streams_max >= 2_000 && SMALL.names_max >= 1_000 * 50 * 4);

/// How much all clients together may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Streams at once, over all connections.
    pub streams_max: usize,
    /// Subscriptions of all kinds, over all streams.
    pub names_max: usize,
    /// Bytes of incomplete requests, and of responses that clients have not read.
    pub bytes_max: usize,
}

impl Capacity {
    /// The capacity of a process that may use `memory` bytes.
    pub const fn of_memory(memory: usize) -> Self {
        let memory = if memory < MEMORY_MIN { MEMORY_MIN } else { memory };
        Self {
            streams_max: memory / STREAMS_SHARE / STREAM_BYTES,
            names_max: memory / NAMES_SHARE / NAME_BYTES,
            bytes_max: memory / BYTES_SHARE,
        }
    }

    /// The capacity of this process, by the memory limit of its cgroup if there is one.
    pub fn of_process() -> Self {
        let memory = leno_accept::container_memory().and_then(|bytes| usize::try_from(bytes).ok());
        Self::of_memory(memory.unwrap_or(MEMORY_UNLIMITED).min(MEMORY_UNLIMITED))
    }
}
