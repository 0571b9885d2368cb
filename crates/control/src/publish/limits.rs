//! Limits on what clients may ask for. A client over a limit gets RESOURCE_EXHAUSTED or waits; other clients are not
//! affected.
//!
//! The cost of all clients together ([`Capacity`]) fits into the shares that `crate::budget` has for xDS. `accounts`
//! divides it by identity.

use std::time::Duration;

use crate::budget::{
    HANDSHAKE_BYTES, SMALL, XDS_BYTES, XDS_HANDSHAKES, XDS_NAMES, XDS_STREAMS, at_most, process_memory,
};

/// Most streams at once on one connection; a client needs one.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 8;
/// Most connections at once. A new connection replaces one of the identity with the most.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Most connections at once whose clients have not shown a certificate yet, with enough memory.
const HANDSHAKES_MAX: usize = 1_024;
/// Most resources of one kind that one client may subscribe to by name. A Leno proxy asks for at most 10,000 Services
/// and addresses, whose routes may lead to others.
pub const SUBSCRIPTIONS_MAX: usize = 20_000;
/// Longest request, in bytes. Its parsed form takes up to 12 times as much memory. 17,000 names of 60 bytes fit;
/// proxies send 500 at a time.
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
/// Counted like a request's bytes for the work of opening a stream and ending it.
pub const READ_BYTES_PER_STREAM: usize = 4 << 10;
/// Added to each request's bytes for the work of answering it.
pub const READ_BYTES_PER_REQUEST: usize = 256;
/// Added to a request's bytes for each name in it, for the work of looking it up.
pub const READ_BYTES_PER_NAME: usize = 64;
/// Bytes of resources that the clients of one identity at one address may ask for at once, beyond
/// [`ASKED_BYTES_PER_SECOND`]. A resource counts after each subscription, the first one included, and whenever a
/// state-of-the-world response repeats it. It counts, too, if a client has it from an earlier stream: it has to be
/// written to find that out. A newer version of a resource that the stream was sent does not count. Above the limit,
/// changes gather until they may be sent.
///
/// The whole state of an Envoy fits that knows 10,000 Services with 10 endpoints each: 49 MiB. A Service's four resources
/// were measured at 5.1 kB for a client with a certificate.
pub const ASKED_BURST_BYTES: u32 = 64 << 20;
/// Sustained bytes per second of the same resources.
pub const ASKED_BYTES_PER_SECOND: u32 = 4 << 20;
/// Bytes of resources in one response, except in responses that must be complete. One resource always fits.
pub const RESPONSE_BYTES: usize = 1 << 20;
/// Bytes that are kept of a client's description of itself and of its reason to reject a resource.
pub const TEXT_MAX_BYTES: usize = 256;
/// How many reasons a stream keeps for each kind of resources. A client gives one when it rejects a response; the latest stay.
pub const REASONS_MAX: usize = 4;
/// Silence after which a client gets a PING.
pub const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long it may take to answer.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Memory of a stream with its connection, in bytes: an idle TLS connection was measured at 30 kB.
const STREAM_BYTES: usize = 40 << 10;
/// Memory of one subscription, in bytes: one to a missing resource with a name of 108 bytes was measured at 280.
const NAME_BYTES: usize = 320;

// With 256 MiB, 2,000 proxies can have a stream each, and 1,000 of them can ask for 50 Services and addresses in four
// kinds of resources. One identity may have half of that. 100 clients can shake hands at once.
const LEAST: Capacity = Capacity::of_memory(SMALL);
const _: () = assert!(LEAST.streams_max >= 2_000 && LEAST.names_max >= 1_000 * 50 * 4 && handshakes_max(SMALL) >= 100);

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
        Self {
            streams_max: XDS_STREAMS.of(memory) / STREAM_BYTES,
            names_max: XDS_NAMES.of(memory) / NAME_BYTES,
            bytes_max: XDS_BYTES.of(memory),
        }
    }

    /// The capacity of this process, by the memory limit of its cgroup if there is one.
    pub fn of_process() -> Self {
        Self::of_memory(process_memory())
    }
}

/// Most connections at once whose clients have not shown a certificate yet, if the process may use `memory` bytes.
pub(crate) const fn handshakes_max(memory: usize) -> usize {
    at_most(XDS_HANDSHAKES.of(memory) / HANDSHAKE_BYTES, HANDSHAKES_MAX)
}
