//! The responses of one stream that its client has not read yet. They take memory, and may leave no room for responses
//! to other clients of the namespace. So the stream of a client that does not read must end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::body::Bytes;
use tokio::time::{Instant, sleep_until};

use super::accounts::Held;
use super::limits::UNREAD_MAX;

/// The times at which the unread responses of a stream were made, the oldest first.
#[derive(Debug, Default)]
pub(super) struct UnreadResponses(Mutex<VecDeque<Instant>>);

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
        self.responses.lock().pop_front();
    }
}

impl UnreadResponses {
    /// Counts a response as unread until the returned bytes are dropped. Drops `held` together with these bytes.
    pub(super) fn add(self: &Arc<Self>, response: Bytes, held: Option<Held>) -> Bytes {
        self.lock().push_back(Instant::now());
        Bytes::from_owner(Unread { response, responses: self.clone(), _held: held })
    }

    /// Waits until a response has been unread for [`UNREAD_MAX`].
    pub(super) async fn wait_until_late(&self) {
        loop {
            let now = Instant::now();
            let oldest = self.lock().front().copied();
            let due = oldest.unwrap_or(now) + UNREAD_MAX;
            if due <= now {
                return;
            }
            sleep_until(due).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
