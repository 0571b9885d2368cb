//! How much clients may ask for. Whoever goes beyond is refused with RESOURCE_EXHAUSTED, and nobody else notices.

use std::time::Duration;

/// Streams at once, over all connections.
pub const STREAMS_MAX: usize = 20_000;
/// Streams at once on one connection; a client needs one.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 8;
/// Connections at once; a newcomer replaces one of the identity with the most.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Connections at once whose clients have not shown a certificate yet.
pub const HANDSHAKES_MAX: usize = 1_024;
/// Resources of one kind that one client may subscribe to by name.
pub const SUBSCRIPTIONS_MAX: usize = 20_000;
/// Bytes of one request; a full list of subscriptions fits in.
pub const REQUEST_MAX_BYTES: usize = 4 << 20;
/// Requests of one client at once, above what [`REQUESTS_PER_SECOND`] gives back.
pub const REQUESTS_BURST: u32 = 2_000;
/// Requests of one client per second, lasting.
pub const REQUESTS_PER_SECOND: u32 = 200;
/// Bytes of resources in one response, but for those that must be whole; one resource always fits.
pub const RESPONSE_BYTES: usize = 1 << 20;
/// Bytes that are kept of what a client says of itself or of a resource.
pub const TEXT_MAX_BYTES: usize = 256;
/// How long a client may send nothing at all before it is asked whether it is there.
pub const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long it may take to say so.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
