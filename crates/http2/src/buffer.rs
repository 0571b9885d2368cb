//! Output bytes in the order of sending. The socket may accept any number of them at a time.

use crate::limits::OUTPUT_HIGH_WATER_BYTES;

/// Bytes for the socket of one connection.
///
/// Invariant: `start <= bytes.len()`.
#[derive(Debug, Default)]
pub struct OutputBuffer {
    /// Bytes to send are appended here. The first ones may have been sent already. Positions stay valid until
    /// [`OutputBuffer::advance`].
    pub bytes: Vec<u8>,
    /// Position of the first unsent byte.
    start: usize,
}

impl OutputBuffer {
    /// The unsent bytes.
    pub fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Number of unsent bytes.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Records that the socket accepted the first `n` unsent bytes. Once all bytes are sent, the buffer keeps its
    /// memory if that is at most `kept_bytes`.
    pub fn advance(&mut self, n: usize, kept_bytes: usize) {
        self.start += n;
        if self.start >= self.bytes.len() {
            self.start = 0;
            if self.bytes.capacity() > kept_bytes { self.bytes = Vec::new() } else { self.bytes.clear() }
        } else if self.start > OUTPUT_HIGH_WATER_BYTES {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
