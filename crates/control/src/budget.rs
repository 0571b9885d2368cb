//! The control plane's memory, divided among everything that clients can make it hold.
//!
//! Each door derives its limits from its share, so that all doors at their worst, at the same time, fit into the memory
//! of the container, from 256 MiB on. Shares are fractions of that memory. With 256 MiB:
//!
//! | share | of 96 | MiB | bounds |
//! |---|---|---|---|
//! | [`XDS_STREAMS`] | 30 | 80 | 2,048 streams with their connections |
//! | [`XDS_NAMES`] | 24 | 64 | 209,715 subscriptions |
//! | [`XDS_BYTES`] | 8 | 21 | incomplete requests and unread responses |
//! | [`XDS_HANDSHAKES`] | 3 | 8 | 170 connections without a certificate |
//! | [`IDENTITY_SERVICE`] | 8 | 21 | 80 connections without a certificate, 40 with one, and 5 MiB of long requests |
//! | [`WEBHOOKS`] | 13 | 34 | 60 connections, 2 large reviews, one parsed review |
//! | [`MESH`] | 10 | 26 | no clients: the program, its admin pages, the cluster's objects and their resources |
//!
//! At doors that need no certificate, a connection costs what the worst client can make of it. An xDS stream costs what
//! was measured: its client is known, and its bytes in transit count apart.

/// What the shares are fractions of.
const WHOLE: usize = 96;

/// Streams of xDS clients, with their connections.
pub(crate) const XDS_STREAMS: Share = Share(30);
/// What xDS clients subscribe to.
pub(crate) const XDS_NAMES: Share = Share(24);
/// Bytes that xDS clients send and leave unread.
pub(crate) const XDS_BYTES: Share = Share(8);
/// Connections to xDS before their clients show a certificate.
pub(crate) const XDS_HANDSHAKES: Share = Share(3);
/// Everything at the door where workloads get their certificates.
pub(crate) const IDENTITY_SERVICE: Share = Share(8);
/// Everything at the door of the webhooks.
pub(crate) const WEBHOOKS: Share = Share(13);
/// The program, the mesh, and its resources: what clients cannot make larger.
const MESH: Share = Share(10);

const _: () = assert!(
    XDS_STREAMS.0 + XDS_NAMES.0 + XDS_BYTES.0 + XDS_HANDSHAKES.0 + IDENTITY_SERVICE.0 + WEBHOOKS.0 + MESH.0 <= WHOLE,
    "the shares of all doors fit into the memory"
);

/// The memory that a small control plane is limited to. Each door asserts what its share of this is enough for.
pub(crate) const SMALL: usize = 256 << 20;
/// Memory assumed for a process without a limit: enough for 16,000 xDS streams.
const UNLIMITED: usize = 2 << 30;
/// The least memory assumed; a lower limit is a mistake in a manifest.
const MIN: usize = 64 << 20;

/// A TLS connection, in bytes. An idle one with HTTP/2 was measured at 30 kB. A client can add an incomplete TLS record
/// or handshake message (32 KiB: `crate::accept::UNREAD_MAX_BYTES` in a buffer that grows by doubling).
pub(crate) const CONNECTION_BYTES: usize = 64 << 10;
/// A TLS connection before the end of its handshake, when it has no buffers of HTTP/2.
pub(crate) const HANDSHAKE_BYTES: usize = 48 << 10;

/// A part of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(usize);

impl Share {
    /// The share in bytes, if the process may use `memory` bytes.
    pub(crate) const fn of(self, memory: usize) -> usize {
        let memory = if memory < MIN { MIN } else { memory };
        memory / WHOLE * self.0 + memory % WHOLE * self.0 / WHOLE
    }
}

/// How many bytes this process may use: the memory limit of its cgroup, if there is one.
pub(crate) fn process_memory() -> usize {
    let memory = leno_accept::container_memory().and_then(|bytes| usize::try_from(bytes).ok());
    memory.unwrap_or(UNLIMITED).min(UNLIMITED)
}

/// The smaller number, in constants.
pub(crate) const fn at_most(number: usize, max: usize) -> usize {
    if number > max { max } else { number }
}
