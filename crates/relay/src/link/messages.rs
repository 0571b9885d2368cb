//! Counts the messages of a gRPC stream by their length prefixes (the gRPC protocol's "PROTOCOL-HTTP2" page,
//! Length-Prefixed-Message), however the stream is divided into DATA frames.

/// Bytes before each message: one for flags, four for its length.
const PREFIX_BYTES: usize = 5;
/// Number of new messages at which [`Messages::read`] asks its caller to count them.
const MANY: u32 = 64;

/// A parser's position in one direction of a gRPC stream, and the number of messages so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Messages {
    /// Number of messages whose prefix is complete.
    begun: u32,
    /// Number of messages that [`Messages::take_new`] has returned.
    counted: u32,
    /// Number of bytes of the latest message that have not arrived.
    left: u32,
    /// Number of bytes of the next message's prefix that have arrived.
    prefix: u8,
    /// The part of the next message's length that has arrived.
    length: u32,
}

impl Messages {
    /// Returns how many messages have begun: their length prefixes have arrived.
    #[inline]
    pub fn begun(&self) -> u32 {
        self.begun
    }

    /// Returns how many messages have begun since the last call of this function.
    pub fn take_new(&mut self) -> u32 {
        self.begun - std::mem::replace(&mut self.counted, self.begun)
    }

    /// Returns whether messages have begun since the last call of [`Messages::take_new`].
    #[inline]
    pub fn has_new(&self) -> bool {
        self.begun > self.counted
    }

    /// Reads the next bytes of the stream. Returns whether there are so many new messages that the caller should count
    /// them now.
    #[inline]
    pub fn read(&mut self, bytes: &[u8]) -> bool {
        if self.left == 0 && self.prefix == 0 && is_one_message(bytes) {
            self.begun = self.begun.saturating_add(1);
        } else {
            self.read_parts(bytes);
        }
        self.begun - self.counted >= MANY
    }

    fn read_parts(&mut self, mut bytes: &[u8]) {
        loop {
            let skipped = bytes.len().min(self.left as usize);
            self.left -= u32::try_from(skipped).unwrap_or(self.left);
            bytes = bytes.get(skipped..).unwrap_or_default();
            if let Some((&[_, ref length @ ..], rest)) = bytes.split_first_chunk::<PREFIX_BYTES>()
                && self.prefix == 0
            {
                self.begin(u32::from_be_bytes(*length));
                bytes = rest;
                continue;
            }
            let Some((&byte, rest)) = bytes.split_first() else { break };
            // The first byte of the prefix has the flags, and is not a part of the length.
            if self.prefix > 0 {
                self.length = (self.length << 8) | u32::from(byte);
            }
            self.prefix += 1;
            bytes = rest;
            if usize::from(self.prefix) == PREFIX_BYTES {
                self.begin(self.length);
                (self.prefix, self.length) = (0, 0);
            }
        }
    }

    fn begin(&mut self, length: u32) {
        self.begun = self.begun.saturating_add(1);
        self.left = length;
    }
}

/// Returns whether the bytes are exactly one message.
#[inline]
fn is_one_message(bytes: &[u8]) -> bool {
    bytes
        .split_first_chunk::<PREFIX_BYTES>()
        .is_some_and(|(&[_, ref length @ ..], message)| u32::from_be_bytes(*length) as usize == message.len())
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
