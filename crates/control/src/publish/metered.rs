//! The body of a stream of requests. This body counts the buffered bytes of each request until the request is complete.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame};
use tonic::{Status, body};

use super::accounts::Held;

/// Requests up to this size are not counted: the fixed memory of each stream already covers them.
const SMALL_BYTES: usize = 16 << 10;

pub(super) struct Metered {
    body: body::Body,
    meter: Arc<Meter>,
}

/// The buffered bytes of one stream's requests.
#[derive(Debug)]
pub(super) struct Meter {
    /// Bytes of the incomplete request.
    pending: AtomicUsize,
    /// The memory for the longest request so far, counted against the client for the life of the stream, since the
    /// stream's buffer does not shrink.
    held: Mutex<Held>,
}

impl Metered {
    /// Counts the buffered bytes of `body` against `held`.
    pub(super) fn new(body: body::Body, held: Held) -> Self {
        Self { body, meter: Arc::new(Meter { pending: AtomicUsize::new(0), held: Mutex::new(held) }) }
    }

    pub(super) fn meter(&self) -> Arc<Meter> {
        self.meter.clone()
    }
}

impl Meter {
    /// Records that a request is complete: the next bytes belong to another request.
    pub(super) fn taken(&self) {
        self.pending.store(0, Ordering::Relaxed);
    }

    fn came(&self, bytes: usize) -> Result<(), Status> {
        let pending = self.pending.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if pending <= SMALL_BYTES {
            return Ok(());
        }
        // The decoder doubles its buffer when the buffer is full, so count twice the bytes.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.grow(pending.saturating_mul(2)).map_err(|exhausted| Status::resource_exhausted(exhausted.to_string()))
    }
}

impl Body for Metered {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(status) = self.meter.came(data.len())
        {
            return Poll::Ready(Some(Err(status)));
        }
        Poll::Ready(frame)
    }
}
