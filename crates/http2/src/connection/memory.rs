//! Memory of a connection. Counts the allocated capacity of a buffer, not only the bytes in use, since the peer could
//! fill it at any time.

use std::collections::VecDeque;

use super::Connection;
use super::output::Drained;
use crate::stream::StreamKey;

impl Connection {
    /// Memory of buffers, tables and lists, in bytes, without the [`Connection`] itself and without
    /// [`Connection::queue_memory_bytes`]. The cost of a call does not depend on the number of open streams.
    pub fn memory_bytes(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| block.fragments.capacity());
        let lines = [&self.ready, &self.held_back, &self.collected].map(VecDeque::capacity);
        let places = lines.into_iter().fold(0, usize::saturating_add);
        [
            self.partial.capacity(),
            block,
            self.out.bytes.capacity(),
            self.decoder.memory_bytes(),
            self.encoder.memory_bytes(),
            self.streams.memory_bytes(),
            self.reset_by_us.memory_bytes(),
            places.saturating_mul(size_of::<StreamKey>()),
            self.drained.capacity().saturating_mul(size_of::<Drained>()),
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }

    /// Frees memory that only a busy connection needs. Call it when a connection has been idle for a while.
    pub fn rest(&mut self) {
        self.decoder.rest();
        self.encoder.rest();
    }

    /// Memory of DATA that waits for windows or for the socket, and of trailers that wait for DATA, in bytes.
    pub fn queue_memory_bytes(&self) -> usize {
        self.queue_memory_bytes
    }
}
