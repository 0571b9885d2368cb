//! One exchange: a request and its response, and content that waits to be sent.

use leno_http2::{ContentQueue, FieldSection};

/// The progress of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// Before the final header section.
    Headers,
    /// Content, then perhaps trailers.
    Body,
    /// Complete.
    Closed,
}

/// The framing of our message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// No content: content from the owner is dropped.
    Nothing,
    /// Remaining bytes.
    Length(u64),
    /// In chunks.
    Chunked,
    /// Raw: the end of the connection is the end of the content.
    UntilClose,
    /// A tunnel was requested: content waits for the response.
    Awaited,
    /// Raw bytes of a tunnel. The end of the tunnel closes our side.
    Tunnel,
}

/// An exchange that is open in at least one direction.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: u32,
    /// The owner's token for the exchange.
    pub(crate) token: u32,
    pub(crate) receive: Half,
    pub(crate) send: Half,
    pub(crate) outgoing: Outgoing,
    /// Method is HEAD.
    pub(crate) head: bool,
    /// Method is CONNECT.
    pub(crate) connect: bool,
    /// Whether the client speaks HTTP/1.0.
    pub(crate) peer_is_1_0: bool,
    /// The protocols to which the client offers to switch.
    pub(crate) upgrade: Option<Vec<u8>>,
    /// Whether another exchange may follow on the connection.
    pub(crate) persistent: bool,
    /// Whether to end the connection after the response, because the owner needs no more of the request.
    pub(crate) stop_when_sent: bool,
    pub(crate) interim_responses: u32,
    /// Bytes of content passed on and not yet released.
    pub(crate) unreleased: usize,
    /// Chunk extensions read, in bytes.
    pub(crate) extension_bytes: usize,
    pub(crate) queue: ContentQueue,
    /// Whether the content ends after the queued content.
    pub(crate) end_after_queue: bool,
    /// Trailers to send after the queued content.
    pub(crate) trailers: Option<Box<FieldSection>>,
}

impl Exchange {
    pub(crate) fn new(id: u32, token: u32) -> Self {
        Self {
            id,
            token,
            receive: Half::Headers,
            send: Half::Headers,
            outgoing: Outgoing::Nothing,
            head: false,
            connect: false,
            peer_is_1_0: false,
            upgrade: None,
            persistent: true,
            stop_when_sent: false,
            interim_responses: 0,
            unreleased: 0,
            extension_bytes: 0,
            queue: ContentQueue::default(),
            end_after_queue: false,
            trailers: None,
        }
    }

    /// Whether more may be sent or queued: neither the end nor trailers have been sent or queued.
    pub(crate) fn takes_output(&self) -> bool {
        self.send != Half::Closed && !self.end_after_queue && self.trailers.is_none()
    }

    /// Whether the client requests a tunnel: CONNECT, or a switch of protocols.
    pub(crate) fn asks_for_tunnel(&self) -> bool {
        self.connect || self.upgrade.is_some()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.receive == Half::Closed && self.send == Half::Closed
    }
}
