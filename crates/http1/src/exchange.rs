//! One exchange: a request and its response, and the content that waits to leave.

use leno_http2::FieldSection;

/// How far one direction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// The final header section has not passed.
    Headers,
    /// Content, then perhaps trailers.
    Body,
    /// All has passed.
    Closed,
}

/// How what we send is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// There is no content: what the owner sends all the same goes nowhere.
    Nothing,
    /// So many bytes are still owed.
    Length(u64),
    /// In chunks.
    Chunked,
    /// As it is; the end of the connection ends it.
    UntilClose,
    /// A tunnel was asked for: content waits for the answer.
    Awaited,
    /// A tunnel, as it is; the end closes our side.
    Tunnel,
}

/// An exchange that is open in some direction.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: u32,
    /// The owner's name for it.
    pub(crate) token: u32,
    pub(crate) receive: Half,
    pub(crate) send: Half,
    pub(crate) outgoing: Outgoing,
    /// Method is HEAD.
    pub(crate) head: bool,
    /// Method is CONNECT.
    pub(crate) connect: bool,
    /// The client speaks HTTP/1.0.
    pub(crate) peer_is_1_0: bool,
    /// The protocols that the client offers to change to.
    pub(crate) upgrade: Option<Vec<u8>>,
    /// Another exchange may follow on the connection.
    pub(crate) persistent: bool,
    /// The owner wants no more of the request once the answer is out.
    pub(crate) stop_when_sent: bool,
    pub(crate) interim_responses: u32,
    /// Content that was handed out and not yet released, in bytes.
    pub(crate) unreleased: usize,
    /// Chunk extensions read, in bytes.
    pub(crate) extension_bytes: usize,
    queue: Vec<u8>,
    queue_start: usize,
    /// The owner ends the queue with the end of the content.
    pub(crate) end_after_queue: bool,
    /// Trailers that wait for the queue.
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
            queue: Vec::new(),
            queue_start: 0,
            end_after_queue: false,
            trailers: None,
        }
    }

    /// Content that waits.
    pub(crate) fn queued(&self) -> &[u8] {
        self.queue.get(self.queue_start..).unwrap_or_default()
    }

    pub(crate) fn enqueue(&mut self, bytes: &[u8]) {
        if self.queue_start > 0 && self.queue_start >= self.queue.len() / 2 {
            self.queue.drain(..self.queue_start);
            self.queue_start = 0;
        }
        self.queue.extend_from_slice(bytes);
    }

    /// Lends the queue out, so that it can be written from; give it back with [`Exchange::return_queue`].
    pub(crate) fn lend_queue(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.queue), self.queue_start)
    }

    /// Takes the queue back, of which everything before `start` has gone. An empty queue holds no memory.
    pub(crate) fn return_queue(&mut self, queue: Vec<u8>, start: usize) {
        let empty = start >= queue.len();
        self.queue_start = if empty { 0 } else { start };
        self.queue = if empty { Vec::new() } else { queue };
    }

    /// Whether anything may still be sent or queued: neither the end nor trailers have been.
    pub(crate) fn takes_output(&self) -> bool {
        self.send != Half::Closed && !self.end_after_queue && self.trailers.is_none()
    }

    /// Whether the client asks for a tunnel: CONNECT, or a change of protocol.
    pub(crate) fn asks_for_tunnel(&self) -> bool {
        self.connect || self.upgrade.is_some()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.receive == Half::Closed && self.send == Half::Closed
    }
}
