//! Divides the control plane's memory among everything that clients can make it store.
//!
//! Each listener (xDS, the identity service, the webhooks) derives its limits from its shares. So a container with 256
//! MiB or more has enough memory for the control plane, even if all listeners reach their limits at the same time.
//! Shares are fractions of the container's memory. With 256 MiB:
//!
//! | share | of 96 | MiB | bounds |
//! |---|---|---|---|
//! | [`XDS_STREAMS`] | 30 | 80 | 2,048 streams with their connections |
//! | [`XDS_NAMES`] | 24 | 64 | 209,715 subscriptions |
//! | [`XDS_BYTES`] | 8 | 21 | incomplete requests and unread responses |
//! | [`XDS_HANDSHAKES`] | 3 | 8 | 170 connections without a certificate |
//! | [`IDENTITY_SERVICE`] | 8 | 21 | 80 connections without and 40 with a certificate, and 5 MiB of long requests |
//! | [`WEBHOOKS`] | 13 | 34 | 60 connections, 2 large reviews, one parsed review |
//! | [`XDS_RESOURCES`] | 3 | 8 | written resources, kept for all clients |
//! | [`MESH`] | 7 | 18 | the program, its admin pages and the cluster's objects; clients cannot make it larger |
//!
//! On listeners that need no certificate, each connection is counted with the maximum memory that its client can make
//! the connection use. An xDS stream is counted with its measured memory, because its client is known, and because its
//! bytes in transit are counted separately ([`XDS_BYTES`]).

/// The denominator of the shares.
const WHOLE: usize = 96;

/// Streams of xDS clients, with their connections.
pub(crate) const XDS_STREAMS: Share = Share(30);
/// Subscriptions of xDS clients.
pub(crate) const XDS_NAMES: Share = Share(24);
/// Incomplete requests of xDS clients, and responses that they have not read.
pub(crate) const XDS_BYTES: Share = Share(8);
/// Connections to xDS before their clients show a certificate.
pub(crate) const XDS_HANDSHAKES: Share = Share(3);
/// Connections and requests of the identity service, where workloads get their certificates.
pub(crate) const IDENTITY_SERVICE: Share = Share(8);
/// Connections and reviews of the webhooks.
pub(crate) const WEBHOOKS: Share = Share(13);
/// Written xDS resources that are kept for all clients.
pub(crate) const XDS_RESOURCES: Share = Share(3);
/// The program and the mesh: clients cannot make them larger. On a small cluster, the program was measured at 15 MB.
const MESH: Share = Share(7);

const _: () = assert!(
    XDS_STREAMS.0
        + XDS_NAMES.0
        + XDS_BYTES.0
        + XDS_HANDSHAKES.0
        + IDENTITY_SERVICE.0
        + WEBHOOKS.0
        + XDS_RESOURCES.0
        + MESH.0
        <= WHOLE,
    "the shares of all doors fit into the memory"
);

/// The memory limit of a small control plane, in bytes. The code of each listener asserts that the listener's share of
/// this memory is enough for a certain number of clients.
pub(crate) const SMALL: usize = 256 << 20;
/// Memory assumed for a process without a limit, or with a higher limit, in bytes: enough for 16,000 xDS streams.
const UNLIMITED: usize = 2 << 30;
/// Minimum of the assumed memory, in bytes: a lower limit is a mistake in a manifest.
const MIN: usize = 64 << 20;

/// Memory of a TLS connection, in bytes. An idle connection with HTTP/2 was measured at 30 kB. A client can add an
/// incomplete TLS record or handshake message (32 KiB: `crate::accept::UNREADABLE_MAX_BYTES` in a buffer that grows by
/// doubling).
pub(crate) const CONNECTION_BYTES: usize = 64 << 10;
/// Memory of a TLS connection before the end of its handshake, in bytes: it has no HTTP/2 buffers yet.
pub(crate) const HANDSHAKE_BYTES: usize = 48 << 10;

/// A share of the memory, in 96ths ([`WHOLE`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(usize);

impl Share {
    /// The share in bytes, if the process may use `memory` bytes.
    pub(crate) const fn of(self, memory: usize) -> usize {
        let memory = if memory < MIN { MIN } else { memory };
        memory / WHOLE * self.0 + memory % WHOLE * self.0 / WHOLE
    }
}

/// The memory that this process may use, in bytes: the memory limit of its cgroup, but at most [`UNLIMITED`].
pub(crate) fn process_memory() -> usize {
    let memory = leno_accept::container_memory().and_then(|bytes| usize::try_from(bytes).ok());
    memory.unwrap_or(UNLIMITED).min(UNLIMITED)
}

/// Returns the smaller number. Constants can use this function, but not `Ord::min`.
pub(crate) const fn at_most(number: usize, max: usize) -> usize {
    if number > max { max } else { number }
}
