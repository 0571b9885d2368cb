//! How much clients may ask for. Whoever goes beyond is refused with RESOURCE_EXHAUSTED, or waits, and nobody else notices.
//!
//! What clients cost is bounded by what the process may use ([`Capacity`]), and shared out by identity (`accounts`).

use std::time::Duration;

/// Streams at once on one connection; a client needs one.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 8;
/// Connections at once; a newcomer replaces one of the identity with the most.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Connections at once whose clients have not shown a certificate yet.
pub const HANDSHAKES_MAX: usize = 1_024;
/// Resources of one kind that one client may subscribe to by name. A Leno proxy asks about 10,000 Services and addresses at
/// most, and their routes may lead to others.
pub const SUBSCRIPTIONS_MAX: usize = 20_000;
/// Bytes of one request. What it says takes up to 12 times as much while it is read. 17,000 names of 60 bytes fit in; proxies
/// name 1,000 at a time.
pub const REQUEST_MAX_BYTES: usize = 1 << 20;
/// Requests of one stream at once, above what [`REQUESTS_PER_SECOND`] gives back; later ones are read later. A proxy whose application
/// calls one new address after another sends two requests for each.
pub const REQUESTS_BURST: u32 = 2_000;
/// The same per second, lasting.
pub const REQUESTS_PER_SECOND: u32 = 500;
/// Receive window of a stream and of its connection, in bytes: what a client may send that is read later. HTTP/2 has no smaller
/// one for a connection.
pub const WINDOW_BYTES: u32 = 65_535;
/// Bytes of requests that the clients of one identity at one address may send at once, above what [`READ_BYTES_PER_SECOND`] gives
/// back; later ones are read later. A thousand simulated proxies in one Pod fit in.
pub const READ_BURST_BYTES: u32 = 128 << 20;
/// The same per second, lasting: parsing them takes about a fifth of a processor.
pub const READ_BYTES_PER_SECOND: u32 = 8 << 20;
/// What each request counts beyond its bytes: it has to be answered.
pub const READ_BYTES_PER_REQUEST: usize = 256;
/// What each name in a request counts beyond its bytes: it has to be looked for.
pub const READ_BYTES_PER_NAME: usize = 64;
/// Bytes of resources that the clients of one identity at one address may be sent again at once, because they subscribe again to
/// what they have, or because state-of-the-world responses repeat all. Above it, changes gather until they may be sent.
pub const AGAIN_BURST_BYTES: u32 = 32 << 20;
/// The same per second, lasting.
pub const AGAIN_BYTES_PER_SECOND: u32 = 4 << 20;
/// Bytes of resources in one response, but for those that must be whole; one resource always fits.
pub const RESPONSE_BYTES: usize = 1 << 20;
/// Bytes that are kept of what a client says of itself or of a resource.
pub const TEXT_MAX_BYTES: usize = 256;
/// How long a client may send nothing at all before it is asked whether it is there.
pub const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long it may take to say so.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Memory of a stream with its connection, in bytes: 30 kB were measured of a TLS connection that says nothing.
const STREAM_BYTES: usize = 40 << 10;
/// Memory of one subscription, in bytes; 280 were measured of one to a name of 108 bytes that does not exist.
const NAME_BYTES: usize = 320;
/// The part of the process's memory that streams may take, as the divisor of a fraction.
const STREAMS_SHARE: usize = 3;
/// The part that subscriptions may take, likewise.
const NAMES_SHARE: usize = 4;
/// The part that requests may take which are not complete, and responses that were not read, likewise.
const BYTES_SHARE: usize = 12;
/// What a process may use that nobody limits: enough for 17,000 streams.
const MEMORY_UNLIMITED: usize = 2 << 30;
/// The least memory that is reckoned with; less is a mistake in a manifest.
const MEMORY_MIN: usize = 64 << 20;

// Streams, subscriptions and bytes on their way leave a third of the memory to the mesh, its resources, and everything else: of
// 256 MiB, 85.
const _: () = assert!(12 / STREAMS_SHARE + 12 / NAMES_SHARE + 12 / BYTES_SHARE <= 8);
const SMALL: Capacity = Capacity::of_memory(256 << 20);
const _: () =
    assert!(SMALL.streams_max * STREAM_BYTES + SMALL.names_max * NAME_BYTES + SMALL.bytes_max <= (256 << 20) / 3 * 2,);
// In 256 MiB, 2,000 proxies have a stream each, and 1,000 of them may ask about 50 Services and addresses in four kinds of
// resources. One identity may have half of that.
const _: () = assert!(SMALL.streams_max >= 2_000 && SMALL.names_max >= 1_000 * 50 * 4);

/// How much all clients together may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Streams at once, over all connections.
    pub streams_max: usize,
    /// Subscriptions of all kinds, over all streams.
    pub names_max: usize,
    /// Bytes of requests that are not complete, and of responses that were not read.
    pub bytes_max: usize,
}

impl Capacity {
    /// What fits into a process that may use `memory` bytes.
    pub const fn of_memory(memory: usize) -> Self {
        let memory = if memory < MEMORY_MIN { MEMORY_MIN } else { memory };
        Self {
            streams_max: memory / STREAMS_SHARE / STREAM_BYTES,
            names_max: memory / NAMES_SHARE / NAME_BYTES,
            bytes_max: memory / BYTES_SHARE,
        }
    }

    /// What fits into this process, by the limit of its control group, if there is one.
    pub fn of_process() -> Self {
        let memory = leno_accept::container_memory().and_then(|bytes| usize::try_from(bytes).ok());
        Self::of_memory(memory.unwrap_or(MEMORY_UNLIMITED).min(MEMORY_UNLIMITED))
    }
}
