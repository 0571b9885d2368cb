//! Effects: the actions that the relay requests from the event loop. The relay itself knows no socket.

use std::net::SocketAddr;
use std::sync::Arc;

use leno_model::discovery::Subject;
use leno_model::spiffe::SpiffeId;

use crate::downstream::origin::Origin;
use crate::metrics::TcpMetrics;
use crate::pool::upstream::UpstreamId;
use crate::slots::Id;

/// Marks an [`Id`] as the id of a wire. A wire carries the bytes of a connection; only the event loop has a table of
/// wires.
#[derive(Debug)]
pub enum Wire {}

/// Identifies a connection for the event loop, which chooses the id.
pub type WireId = Id<Wire>;

/// An action that the relay requests from the event loop. The event loop carries out the actions in the order of the
/// requests, in the same turn.
#[derive(Debug)]
pub enum Effect {
    /// Open a connection to an endpoint. [`crate::Relay::connected`] or [`crate::Relay::close_upstream`] must follow.
    Connect {
        upstream: UpstreamId,
        address: SocketAddr,
        /// The TLS of the connection; `None` without TLS.
        tls: Option<ServerTls>,
        /// Whether the server may leave its socket unread for an unlimited time.
        may_be_unread: bool,
        /// The port of our own inbound listener, if netfilter would redirect this connection to the endpoint's proxy.
        /// If the address belongs to this machine, connect to this port instead: no netfilter rule redirects
        /// connections from the proxy to itself.
        own_inbound_port: Option<u16>,
    },
    /// Read from a wire, even if its socket does not report that there is something to read.
    ReadOn(WireId),
    /// The client of a wire has sent a request, or bytes of an opaque protocol. From now on, if the listener is full,
    /// it first closes connections that have sent nothing.
    Settle(WireId),
    /// Count a wire's bytes in this series: the bytes that it has carried so far, and all further bytes.
    Count(WireId, Arc<TcpMetrics>),
    /// Write the bytes, as far as the socket accepts them now. The relay closes the wire directly afterwards.
    WriteLast(WireId, Vec<u8>),
    /// When the wire is closed, reset it. Otherwise, its peer would take the close for the end of the content.
    Abort(WireId),
    /// Close a wire.
    Close(WireId),
    /// Ask the control plane about a subject. If that is not possible now, [`crate::Relay::refuse_question`] must
    /// follow.
    Ask(Subject),
    /// The relay has guessed the protocol of a client's wire wrong. Detect the protocol again, beginning with the bytes
    /// that the client has sent.
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
