//! Passes incoming content to the caller as it arrives, as long as the caller holds less unreleased content than the
//! window allows.

use leno_http2::{Event, StreamKey};

use super::{Connection, Input};

impl Connection {
    /// Passes on the available part of the remaining `left` bytes of content, up to the window.
    pub(super) fn read_content<'a>(&mut self, left: u64, input: &mut &'a [u8]) -> Option<Event<'a>> {
        let left_here = usize::try_from(left).unwrap_or(usize::MAX);
        let n = input.len().min(left_here).min(self.content_room());
        let (bytes, rest) = input.split_at_checked(n)?;
        if n == 0 {
            return None;
        }
        *input = rest;
        let exchange = self.exchange.as_deref_mut()?;
        exchange.unreleased += n;
        exchange.awaits_continue = false;
        let (stream, token) = (StreamKey::numbered(exchange.id), exchange.token);
        let left = left - n as u64;
        let end_stream = self.input == Input::Length(n as u64);
        match self.input {
            Input::Length(_) if end_stream => self.end_receiving(),
            Input::Length(_) => self.input = Input::Length(left),
            Input::ChunkData(_) => self.input = if left == 0 { Input::ChunkEnd } else { Input::ChunkData(left) },
            _ => {}
        }
        Some(Event::Data { stream, token, bytes, end_stream })
    }

    /// Sets how much content the caller may hold unreleased from now on, in bytes. The window is at least one byte, and at
    /// most [`Limits::content_window_bytes`](crate::Limits::content_window_bytes).
    pub fn limit_content(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.content_window_bytes = bytes.min(self.limits.content_window_bytes).max(1);
    }

    /// Releases `bytes` of content that the caller has received and processed.
    pub fn release(&mut self, stream: StreamKey, bytes: usize) {
        if let Some(exchange) = self.exchange_mut(stream) {
            exchange.unreleased = exchange.unreleased.saturating_sub(bytes);
        }
    }
}
