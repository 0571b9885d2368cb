//! A buffer of output bytes, in the order of sending. The socket may accept any number of bytes at a time.

use crate::limits::OUTPUT_HIGH_WATER_BYTES;

/// Bytes for the socket of one connection.
///
/// Invariant: `start <= bytes.len()`.
#[derive(Debug, Default)]
pub struct OutputBuffer {
    /// Append bytes to send here. The bytes before `start` have been sent already. Indices into this vector stay valid
    /// until the next [`OutputBuffer::advance`].
    pub bytes: Vec<u8>,
    /// Position of the first unsent byte.
    start: usize,
    saves_memory: bool,
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

    /// Records whether the process is short of memory. If it is, the buffer frees its allocation whenever it is empty.
    pub fn save_memory(&mut self, on: bool) {
        self.saves_memory = on;
        self.advance(0, usize::MAX);
    }

    /// Returns whether the process is short of memory ([`OutputBuffer::save_memory`]).
    pub fn saves_memory(&self) -> bool {
        self.saves_memory
    }

    /// Records that the socket accepted the first `n` unsent bytes. Once all bytes are sent, the buffer frees its
    /// allocation if this has more than `kept_bytes`, or if the process is short of memory.
    pub fn advance(&mut self, n: usize, kept_bytes: usize) {
        self.start += n;
        if self.start >= self.bytes.len() {
            self.start = 0;
            let is_kept = self.bytes.capacity() <= kept_bytes && !self.saves_memory;
            if is_kept { self.bytes.clear() } else { self.bytes = Vec::new() }
        } else if self.start > OUTPUT_HIGH_WATER_BYTES {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
