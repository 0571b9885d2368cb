//! Effects: what the relay asks of the event loop. The relay itself knows no socket.

use std::net::SocketAddr;
use std::sync::Arc;

use leno_model::discovery::Subject;
use leno_model::spiffe::SpiffeId;

use crate::downstream::origin::Origin;
use crate::metrics::TcpMetrics;
use crate::pool::upstream::UpstreamId;
use crate::slots::Id;

/// Marker of the ids of wires. A wire carries the bytes of a connection; only the event loop has a table of wires.
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
        /// `None` without TLS.
        tls: Option<ServerTls>,
        /// Whether the server may leave its socket unread for any time.
        may_be_unread: bool,
        /// The port of our own inbound listener, if netfilter would redirect this connection to the endpoint's proxy.
        /// Connect to this port instead if the address is one of this machine: no rule redirects connections from the
        /// proxy to the proxy.
        own_inbound_port: Option<u16>,
    },
    /// Read from a wire, whether or not its socket reports that there is something to read.
    ReadOn(WireId),
    /// The client of a wire has sent something complete.
    Settle(WireId),
    /// Count a wire's bytes in this series: the bytes that it has carried so far, and all further bytes.
    Count(WireId, Arc<TcpMetrics>),
    /// Write as many of these bytes as the socket accepts: the wire is closed directly afterwards.
    WriteLast(WireId, Vec<u8>),
    /// Close a wire in such a way that its peer does not take the close for the end of the content.
    Abort(WireId),
    /// Close a wire.
    Close(WireId),
    /// Ask the control plane about a subject. If that is not possible now, [`crate::Relay::refuse_question`] must
    /// follow.
    Ask(Subject),
    /// The protocol of a client's wire was guessed wrong: detect it, beginning with the bytes that the client has sent.
    Recall { wire: WireId, origin: Origin, first: Vec<u8> },
}

/// The TLS of a connection to an endpoint.
#[derive(Debug)]
pub struct ServerTls {
    /// The port that the connection is for.
    pub target_port: u16,
    /// The identity that the server must prove.
    pub expected: SpiffeId,
}
