//! The messages of an answer, taken out of the bytes of its body.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;

use super::call::PREFIX_BYTES;
use super::exchange::NAMELESS;
use super::failure::Failure;

/// Longest message that is read; a little more than the longest payload.
const MESSAGE_MAX_BYTES: usize = 17 << 20;

/// The received part of an answer's body.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Received bytes that [`Inbox::take_message`] has not taken.
    bytes: Bytes,
    /// Number of whole messages so far.
    messages: u32,
    /// The server's name in the last message.
    server: Bytes,
    is_nameless: bool,
}

/// The part of `leno.echo.v1.EchoResponse` that the load reads. The rest is skipped, not copied.
#[derive(Message)]
struct ServerName {
    #[prost(bytes = "bytes", tag = "1")]
    server: Bytes,
}

impl Inbox {
    /// An inbox for messages of any type, whose server is [`NAMELESS`].
    pub(super) fn nameless() -> Self {
        Self { server: Bytes::from_static(NAMELESS.as_bytes()), is_nameless: true, ..Self::default() }
    }

    /// Adds a received part of the body. Usually a body has only one part, which is not copied.
    pub(super) fn add(&mut self, chunk: Bytes) {
        if self.bytes.is_empty() {
            self.bytes = chunk;
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        let mut joined = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        joined.extend_from_slice(&chunk);
        self.bytes = joined.freeze();
    }

    /// Takes the next message if all its bytes have arrived. Returns whether it took a message.
    ///
    /// # Errors
    /// If the message is compressed or too long, or if an echo server sent a message that is not an `EchoResponse`.
    pub(super) fn take_message(&mut self) -> Result<bool, Failure> {
        let Some((prefix, rest)) = self.bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(false) };
        let [compressed, length @ ..] = *prefix;
        if compressed != 0 {
            let why = "the answer's message is compressed, although compression was not negotiated";
            return Err(Failure::protocol(why));
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > MESSAGE_MAX_BYTES {
            let why = format!("the answer's message has {length} bytes; the limit is {MESSAGE_MAX_BYTES}");
            return Err(Failure::protocol(why));
        }
        if rest.len() < length {
            return Ok(false);
        }
        self.bytes.advance(PREFIX_BYTES);
        let message = self.bytes.split_to(length);
        if !self.is_nameless {
            self.server = ServerName::decode(message).map_err(Failure::protocol)?.server;
        }
        self.messages += 1;
        Ok(true)
    }

    /// Ends the answer, which must have `wanted` messages. Returns the server's name.
    ///
    /// # Errors
    /// If the number of messages differs, or the last message is incomplete.
    pub(super) fn finish(self, wanted: u32) -> Result<Bytes, Failure> {
        let Self { bytes, messages, server, .. } = self;
        if !bytes.is_empty() {
            return Err(Failure::protocol(format!("the answer ended within a message, after {} bytes", bytes.len())));
        }
        if messages != wanted {
            return Err(Failure::protocol(format!("the answer should have {wanted} messages, and has {messages}")));
        }
        Ok(server)
    }
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
