//! Output: bytes in the order in which they leave, of which the socket takes as many as it likes.

use crate::limits::OUTPUT_HIGH_WATER_BYTES;

/// Bytes for the socket of one connection.
///
/// Invariant: `start <= bytes.len()`.
#[derive(Debug, Default)]
pub struct OutputBuffer {
    /// Append here. The front may have gone already; places stay what they are until [`OutputBuffer::advance`].
    pub bytes: Vec<u8>,
    /// Everything before has gone.
    start: usize,
}

impl OutputBuffer {
    /// What waits.
    pub fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// How many bytes wait.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The socket has taken the first `n` of the waiting bytes. Once none waits, the memory is kept for the next ones if it is
    /// at most `kept_bytes`.
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
