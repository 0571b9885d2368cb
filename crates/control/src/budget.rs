//! Divides the control plane's memory into shares, one for each kind of data that clients can make it store.
//!
//! Each listener (xDS, the identity service, the webhooks) derives its limits from its shares, which are fractions of
//! the container's memory. So a container with at least 256 MiB does not run out of memory, even if all listeners reach
//! their limits at the same time. With 256 MiB:
//!
//! | share | of 96 | MiB | bounds |
//! |---|---|---|---|
//! | [`XDS_STREAMS`] | 30 | 80 | 2,048 streams with their connections |
//! | [`XDS_NAMES`] | 24 | 64 | 209,715 subscriptions |
//! | [`XDS_BYTES`] | 8 | 21 | incomplete requests and unread responses |
//! | [`XDS_HANDSHAKES`] | 3 | 8 | 170 connections without a certificate |
//! | [`IDENTITY_SERVICE`] | 8 | 21 | 80 connections without and 40 with a certificate, and 5 MiB of long requests |
//! | [`WEBHOOKS`] | 13 | 34 | 60 connections, 2 large reviews, one parsed review |
//! | [`XDS_RESOURCES`] | 3 | 8 | encoded resources, kept for all clients |
//! | [`MESH`] | 7 | 18 | the program, its admin pages and the cluster's objects; clients cannot make it larger |
//!
//! Connections to listeners that require no client certificate are counted with the maximum memory that a client can
//! make them use. An xDS stream is counted with the memory that streams were measured to use: its client has a
//! certificate, and its bytes in transit are counted separately ([`XDS_BYTES`]).

/// The denominator of all shares: a share of 1 is 1/96 of the memory.
const WHOLE: usize = 96;

/// Streams of xDS clients, with their connections.
pub(crate) const XDS_STREAMS: Share = Share(30);
/// Subscriptions of xDS clients.
pub(crate) const XDS_NAMES: Share = Share(24);
/// Incomplete requests of xDS clients, and responses that the clients have not read yet.
pub(crate) const XDS_BYTES: Share = Share(8);
/// Connections to xDS before their clients show a certificate.
pub(crate) const XDS_HANDSHAKES: Share = Share(3);
/// Connections and requests of the identity service, where workloads get their certificates.
pub(crate) const IDENTITY_SERVICE: Share = Share(8);
/// Connections and reviews of the webhooks.
pub(crate) const WEBHOOKS: Share = Share(13);
/// Encoded xDS resources that are kept for all clients.
pub(crate) const XDS_RESOURCES: Share = Share(3);
/// The program itself and the mesh, which clients cannot make larger. On a small cluster, the program used 15 MB.
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

/// The memory limit of a small control plane, in bytes. Each listener asserts at compile time that its share of this
/// memory is enough for a certain number of clients.
pub(crate) const SMALL: usize = 256 << 20;
/// Memory, in bytes, that is divided if the process has no limit or a higher limit: enough for 16,000 xDS streams.
const UNLIMITED: usize = 2 << 30;
/// Minimum memory that is divided, in bytes, even if the process has a lower limit, which must be a mistake in a
/// manifest.
const MIN: usize = 64 << 20;

/// Maximum memory of a TLS connection with HTTP/2, in bytes. An idle connection was measured at 30 kB. In addition, a
/// client can send an incomplete TLS record or handshake message of up to `crate::accept::UNREADABLE_MAX_BYTES`, for
/// which the buffer grows to 32 KiB by doubling.
pub(crate) const CONNECTION_BYTES: usize = 64 << 10;
/// Maximum memory of a TLS connection during its handshake, in bytes: less, because it has no HTTP/2 buffers yet.
pub(crate) const HANDSHAKE_BYTES: usize = 48 << 10;

/// A share of the memory, in 96ths ([`WHOLE`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(usize);

impl Share {
    /// Returns the share in bytes, if the process may use `memory` bytes.
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

/// Returns the smaller number. Replaces `Ord::min`, which cannot be called in constants.
pub(crate) const fn at_most(number: usize, max: usize) -> usize {
    if number > max { max } else { number }
}
