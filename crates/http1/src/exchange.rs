//! One exchange: a request and its response, and content that waits to be sent.

use leno_http2::{ContentQueue, FieldSection};

/// The progress of an exchange in one direction: sending or receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// The final header section has not been sent or received yet.
    Headers,
    /// Content, then perhaps trailers.
    Body,
    /// Complete.
    Closed,
}

/// The framing of our message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// The message has no content: content from the caller is dropped.
    Nothing,
    /// Remaining bytes.
    Length(u64),
    /// In chunks.
    Chunked,
    /// Raw: the end of the connection is the end of the content.
    UntilClose,
    /// A tunnel was requested: content from the caller waits until the response accepts or rejects the tunnel.
    Awaited,
    /// Raw bytes of a tunnel. After the caller's last byte, we close our side of the connection.
    Tunnel,
}

/// An exchange that is open in at least one direction.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: u32,
    /// The caller's token for the exchange.
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
    /// Whether the client may send no content at all (server only): it sent `Expect: 100-continue`, and neither a 100
    /// response nor a byte of the content has followed. After another response, the two sides may disagree whether the
    /// next bytes are the content (RFC 9110 section 10.1.1), so the connection carries no further exchange.
    pub(crate) awaits_continue: bool,
    /// Whether to end the connection after the response, because the caller needs no more of the request.
    pub(crate) stop_when_sent: bool,
    pub(crate) interim_responses: u32,
    /// Content that was passed to the caller and is not yet released, in bytes.
    pub(crate) unreleased: usize,
    /// Chunk extensions read, in bytes.
    pub(crate) extension_bytes: usize,
    pub(crate) queue: ContentQueue,
    /// Whether the caller has ended the content. The end is then sent after the queued content.
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
            awaits_continue: false,
            stop_when_sent: false,
            interim_responses: 0,
            unreleased: 0,
            extension_bytes: 0,
            queue: ContentQueue::default(),
            end_after_queue: false,
            trailers: None,
        }
    }

    /// Whether the caller may send more: neither the end of the message nor trailers have been sent or queued.
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
