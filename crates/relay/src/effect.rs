//! Effects: the actions that the relay requests from the event loop. Only the event loop has sockets.

use std::net::SocketAddr;
use std::sync::Arc;

use leno_model::discovery::Subject;
use leno_model::spiffe::SpiffeId;

use crate::downstream::origin::Origin;
use crate::metrics::TcpMetrics;
use crate::pool::upstream::UpstreamId;
use crate::slots::Id;

/// Marks an [`Id`] as the id of a wire: a socket, with its TLS, that carries the bytes of one connection. Only the
/// event loop has a table of wires.
#[derive(Debug)]
pub enum Wire {}

/// Identifies a connection for the event loop, which chooses the id.
pub type WireId = Id<Wire>;

/// An action that the relay requests from the event loop. The event loop carries out the actions in the same turn, in
/// the order in which the relay has requested them.
#[derive(Debug)]
pub enum Effect {
    /// Open a connection to an endpoint. Afterwards, the event loop must call [`crate::Relay::connected`], or
    /// [`crate::Relay::end_upstream`] if it cannot connect.
    Connect {
        upstream: UpstreamId,
        address: SocketAddr,
        /// The TLS of the connection; `None` without TLS.
        tls: Option<ServerTls>,
        /// The port of our own inbound listener, if netfilter redirects connections to `address` to the endpoint's
        /// proxy. If `address` belongs to this machine, the endpoint's proxy is this proxy. In that case, connect to
        /// this port of `address`, because netfilter does not redirect connections from the proxy to itself.
        own_inbound_port: Option<u16>,
    },
    /// Read from a wire, even if its socket does not report that it is readable.
    ReadOn(WireId),
    /// The client of a wire has sent a request, or bytes of an opaque protocol. When the event loop must close a
    /// connection because of the limit on connections, it first closes connections without this mark.
    Settle(WireId),
    /// Count a wire's bytes in this series: the bytes that it has carried so far, and all further bytes.
    Count(WireId, Arc<TcpMetrics>),
    /// Write the bytes, as far as the socket accepts them now. The relay closes the wire directly afterwards.
    WriteLast(WireId, Vec<u8>),
    /// When the wire is closed, reset it. Otherwise, its peer would take the close for the end of the content, or the kernel
    /// would keep the port of a connection that clients can end as often as they like.
    Abort(WireId),
    /// Close a wire.
    Close(WireId),
    /// Ask the control plane about a subject. If that is not possible now, the event loop must call
    /// [`crate::Relay::refuse_question`].
    Ask(Subject),
    /// Detect the protocol of a client's wire again, because the relay has guessed it wrong. `first` are the bytes that
    /// the client has sent so far.
    Recall { wire: WireId, origin: Origin, first: Vec<u8> },
}

/// The TLS of a connection to an endpoint.
#[derive(Debug)]
pub struct ServerTls {
    /// The application's port, to which the server's proxy forwards the connection.
    pub target_port: u16,
    /// The identity that the server must prove.
    pub expected: SpiffeId,
}
