//! The responses of one stream that its client has not read yet. They take memory, and may leave no room for responses
//! to other clients. So the stream of a client that does not read must end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::time::{Instant, sleep_until};

use super::accounts::Held;
use super::limits::{RESPONSE_BYTES, UNREAD_FACTOR_MAX, UNREAD_MAX};

/// The unread responses of a stream, the oldest first.
#[derive(Debug, Default)]
pub(super) struct UnreadResponses(Mutex<VecDeque<Deadline>>);

/// When a client must have read a response.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    /// The time at which the response became the oldest. Until then, the client can only read the responses before it.
    since: Instant,
    /// The time to read the response, at least [`UNREAD_MAX`].
    most: Duration,
}

/// The bytes of an unread response. HTTP/2 drops them when they are written to the connection.
struct Unread {
    response: Bytes,
    responses: Arc<UnreadResponses>,
    _held: Option<Held>,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.response
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // A client reads the responses of a stream in the order in which they were made.
        let mut responses = self.responses.lock();
        responses.pop_front();
        if let Some(oldest) = responses.front_mut() {
            oldest.since = Instant::now();
        }
    }
}

impl UnreadResponses {
    /// Counts a response as unread until the returned bytes are dropped. Drops `held` together with these bytes.
    pub(super) fn add(self: &Arc<Self>, response: Bytes, held: Option<Held>) -> Bytes {
        self.lock().push_back(Deadline { since: Instant::now(), most: time_to_read(response.len()) });
        Bytes::from_owner(Unread { response, responses: self.clone(), _held: held })
    }

    /// Waits until the client has not read a response in time. Returns the time that the client had.
    pub(super) async fn wait_until_late(&self) -> Duration {
        loop {
            let now = Instant::now();
            let oldest = self.lock().front().copied();
            // The client may read the oldest response before its time is over, and the next response may have less
            // time, but at least this.
            let mut look_at = now + UNREAD_MAX;
            if let Some(Deadline { since, most }) = oldest {
                let due = since + most;
                if due <= now {
                    return most;
                }
                look_at = look_at.min(due);
            }
            sleep_until(look_at).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Deadline>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time that a client has to read a response of this size.
fn time_to_read(bytes: usize) -> Duration {
    let full = u32::try_from(bytes / RESPONSE_BYTES).unwrap_or(u32::MAX);
    UNREAD_MAX * full.clamp(1, UNREAD_FACTOR_MAX)
}

#[cfg(test)]
#[path = "unread_tests.rs"]
mod tests;
