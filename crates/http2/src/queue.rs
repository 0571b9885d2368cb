//! A queue of content: bytes are added at the end and sent from the front.

/// Queued content of one stream. An empty queue has no allocation.
#[derive(Debug, Default)]
pub struct ContentQueue {
    bytes: Vec<u8>,
    /// Position of the first byte that has not been sent.
    start: usize,
}

impl ContentQueue {
    /// The queued bytes.
    pub fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start >= self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Moves the bytes out of the queue, so that the caller can send the bytes while it changes the queue's stream.
    /// Returns the bytes and the position of the first queued byte. Give the bytes back with
    /// [`ContentQueue::give_back`].
    pub fn lend(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.bytes), self.start)
    }

    /// Takes the bytes back; the bytes before `start` have been sent. Frees the memory of the sent bytes when they are
    /// more than three quarters of all bytes.
    pub fn give_back(&mut self, bytes: Vec<u8>, start: usize) {
        if start > bytes.len() / 4 * 3 {
            self.bytes = bytes.get(start..).unwrap_or_default().to_vec();
            self.start = 0;
        } else {
            (self.bytes, self.start) = (bytes, start);
        }
    }

    /// The memory allocated for content, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
