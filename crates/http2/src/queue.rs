//! Content that waits for its turn to be written: bytes go in at the end and leave from the front.

/// Content of one stream that waits. An empty queue holds no memory.
#[derive(Debug, Default)]
pub struct ContentQueue {
    bytes: Vec<u8>,
    /// Everything before has gone.
    start: usize,
}

impl ContentQueue {
    /// What waits.
    pub fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Adds content.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start >= self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Lends the bytes out, so that they can be written from while their owner is changed, with the place where the waiting
    /// ones begin; give them back with [`ContentQueue::give_back`].
    pub fn lend(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.bytes), self.start)
    }

    /// Takes the bytes back, of which everything before `start` has gone.
    pub fn give_back(&mut self, bytes: Vec<u8>, start: usize) {
        let empty = start >= bytes.len();
        self.start = if empty { 0 } else { start };
        self.bytes = if empty { Vec::new() } else { bytes };
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
