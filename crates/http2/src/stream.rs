//! One stream: its states (RFC 9113 section 5.1), windows (section 5.2) and queued DATA.

use crate::error::ErrorCode;
use crate::fields::FieldSection;
use crate::queue::ContentQueue;
use crate::stream_index::StreamIndex;

/// Identifies a stream of one connection. Identifiers are never reused, so a stale key finds no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKey {
    pub(crate) slot: u32,
    /// The stream identifier (RFC 9113 section 5.1.1).
    pub id: u32,
}

impl StreamKey {
    /// The key of a stream on a connection that has one stream at a time. The caller chooses the number.
    pub fn numbered(id: u32) -> Self {
        Self { slot: 0, id }
    }
}

/// The progress of a stream in one direction: sending or receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Half {
    /// The final header section has not been sent or received yet.
    #[default]
    Headers,
    /// DATA, then perhaps trailers.
    Body,
    /// After END_STREAM.
    Closed,
}

/// An open stream.
///
/// Invariants: `send_window <= 2^31-1`, negative only after a SETTINGS change (section 6.9.2); `receive_window +
/// unreleased + credit == receive_target` while the peer respects its window.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    /// The caller's token for the stream.
    pub(crate) token: u32,
    pub(crate) receive: Half,
    pub(crate) send: Half,
    /// Whether the peer opened the stream, so that it counts against our announced limit.
    pub(crate) by_peer: bool,
    /// Whether the method is HEAD. The response to HEAD may have a content-length although it has no content.
    pub(crate) head: bool,
    /// Whether the method is CONNECT: a successful response then starts a tunnel.
    pub(crate) connect: bool,
    /// Whether the stream has an entry in `Connection::ready`.
    pub(crate) in_ready: bool,
    /// Whether the stream has an entry in `Connection::collected`.
    pub(crate) in_collected: bool,
    /// Whether END_STREAM follows the queued DATA.
    pub(crate) end_after_queue: bool,
    /// The code of the RST_STREAM that follows the queued DATA, if one follows.
    pub(crate) reset_after_queue: Option<ErrorCode>,
    /// Whether to reset the stream after the response, because the caller needs no more of the request.
    pub(crate) stop_when_sent: bool,
    /// When the stream was opened, in milliseconds after the connection's start.
    pub(crate) opened_ms: u32,
    pub(crate) send_window: i64,
    pub(crate) sent_bytes: u64,
    /// Bytes that the peer may still send.
    pub(crate) receive_window: i64,
    /// Bytes that the caller has released, and for which we have not yet sent a WINDOW_UPDATE.
    pub(crate) credit: u32,
    /// Bytes received, and not yet released by the caller.
    pub(crate) unreleased: u32,
    pub(crate) receive_target: u32,
    /// Bytes by which `receive_target` has grown, less those by which it has shrunk again.
    grown_bytes: u32,
    /// Remaining bytes of content according to content-length.
    pub(crate) content_left: Option<u64>,
    pub(crate) queue: ContentQueue,
    /// Trailers to send after the queued DATA.
    pub(crate) trailers: Option<Box<FieldSection>>,
}

impl Stream {
    pub(crate) fn new(id: u32, opened_ms: u32, send_window: u32, receive_window: u32) -> Self {
        Self {
            id,
            opened_ms,
            send_window: i64::from(send_window),
            receive_window: i64::from(receive_window),
            receive_target: receive_window,
            ..Self::default()
        }
    }

    /// Bytes by which the receive window is larger than its initial size.
    pub(crate) fn grown_bytes(&self) -> u32 {
        self.grown_bytes
    }

    /// Whether the caller may send more: neither END_STREAM, trailers nor RST_STREAM have been sent or queued.
    pub(crate) fn takes_output(&self) -> bool {
        let ends_after_queue = self.end_after_queue || self.reset_after_queue.is_some();
        self.send != Half::Closed && !ends_after_queue && self.trailers.is_none()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.receive == Half::Closed && self.send == Half::Closed
    }
}

/// The open streams of a connection, by identifier and by slot.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    slots: Vec<Option<Stream>>,
    free: Vec<u32>,
    by_id: StreamIndex,
    by_peer: u32,
    grown_bytes: u32,
    /// Received and unreleased bytes of all streams.
    held_bytes: u64,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The memory allocated for streams, in bytes, without their queues.
    pub(crate) fn memory_bytes(&self) -> usize {
        let slots = self.slots.capacity().saturating_mul(size_of::<Option<Stream>>());
        let free = self.free.capacity().saturating_mul(size_of::<u32>());
        slots.saturating_add(free).saturating_add(self.by_id.memory_bytes())
    }

    /// Number of streams that the peer opened.
    pub(crate) fn opened_by_peer(&self) -> u32 {
        self.by_peer
    }

    /// Total growth of all receive windows, in bytes.
    pub(crate) fn grown_bytes(&self) -> u32 {
        self.grown_bytes
    }

    /// Received content of all streams that the caller has not released, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Records `bytes` of content for the caller. Returns the stream's token.
    pub(crate) fn count_received(&mut self, key: StreamKey, bytes: u32) -> Option<u32> {
        let stream = self.get_mut(key)?;
        stream.unreleased += bytes;
        let token = stream.token;
        self.held_bytes += u64::from(bytes);
        Some(token)
    }

    /// Records that the caller releases `bytes` of content, limited to the content that the caller has not released
    /// yet.
    pub(crate) fn count_released(&mut self, key: StreamKey, bytes: usize) {
        let Some(stream) = self.get_mut(key) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(stream.unreleased);
        stream.unreleased -= bytes;
        stream.credit = stream.credit.saturating_add(bytes);
        self.held_bytes -= u64::from(bytes);
    }

    /// Records that a stream's receive window has grown by `bytes`.
    pub(crate) fn count_growth(&mut self, key: StreamKey, bytes: u32) {
        if let Some(stream) = self.get_mut(key) {
            stream.grown_bytes += bytes;
            self.grown_bytes += bytes;
        }
    }

    /// Records that a stream's receive window has shrunk by `bytes`, which is at most its growth.
    pub(crate) fn count_shrinkage(&mut self, key: StreamKey, bytes: u32) {
        if let Some(stream) = self.get_mut(key) {
            stream.grown_bytes -= bytes;
            self.grown_bytes -= bytes;
        }
    }

    pub(crate) fn insert(&mut self, stream: Stream) -> StreamKey {
        let id = stream.id;
        self.by_peer += u32::from(stream.by_peer);
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
        };
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(stream);
        }
        self.by_id.insert(id, slot);
        StreamKey { slot, id }
    }

    pub(crate) fn find(&self, id: u32) -> Option<StreamKey> {
        self.by_id.get(id).map(|slot| StreamKey { slot, id })
    }

    pub(crate) fn get(&self, key: StreamKey) -> Option<&Stream> {
        self.slots.get(key.slot as usize)?.as_ref().filter(|stream| stream.id == key.id)
    }

    pub(crate) fn get_mut(&mut self, key: StreamKey) -> Option<&mut Stream> {
        self.slots.get_mut(key.slot as usize)?.as_mut().filter(|stream| stream.id == key.id)
    }

    pub(crate) fn remove(&mut self, key: StreamKey) -> Option<Stream> {
        self.get(key)?;
        let stream = self.slots.get_mut(key.slot as usize)?.take()?;
        self.by_id.remove(key.id);
        self.by_peer -= u32::from(stream.by_peer);
        self.grown_bytes -= stream.grown_bytes;
        self.held_bytes -= u64::from(stream.unreleased);
        self.free.push(key.slot);
        // Free the memory of a burst as soon as the connection is idle.
        if self.by_id.len() == 0 && self.slots.len() > 16 {
            *self = Self::default();
        }
        Some(stream)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamKey, &Stream)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(slot, place)| place.as_ref().map(|s| (StreamKey { slot: slot as u32, id: s.id }, s)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamKey, &mut Stream)> {
        self.slots
            .iter_mut()
            .enumerate()
            .filter_map(|(slot, place)| place.as_mut().map(|s| (StreamKey { slot: slot as u32, id: s.id }, s)))
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
