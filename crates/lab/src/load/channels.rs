//! The clients of a load, polled by one task.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::channel::{Channel, Ended};
use super::ready::{Ready, ReadyQueue};
use super::traffic::Traffic;
use super::{CONNECTING_AT_A_TIME, Client, Exchange};
use crate::error::Result;

/// Longest time for connections to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The channels, and the queue of items that are ready to be polled.
pub(super) struct Channels {
    all: Vec<Channel>,
    queue: Arc<ReadyQueue>,
    in_flight: usize,
}

impl Channels {
    /// Connects every client.
    ///
    /// # Errors
    /// The error of the first client that cannot connect.
    pub(super) async fn connect(clients: &[Client], exchange: &Exchange, traffic: &Traffic) -> Result<Self> {
        let queue = Arc::new(ReadyQueue::default());
        let opening = clients
            .iter()
            .enumerate()
            .map(|(index, client)| Channel::connect(client, index, (exchange, traffic), &queue));
        let all = stream::iter(opening).buffered(CONNECTING_AT_A_TIME).try_collect().await?;
        Ok(Self { all, queue, in_flight: 0 })
    }

    /// Waits for `until`, and drives the connections during the wait: a peer may close a connection whose PING frames
    /// get no answer.
    pub(super) async fn drive_until<T>(&mut self, until: impl Future<Output = T>) -> T {
        let (mut until, mut ended) = (pin!(until), Vec::new());
        poll_fn(|cx| {
            if let Poll::Ready(done) = until.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            while self.step(cx, &mut ended).is_some() {}
            Poll::Pending
        })
        .await
    }

    /// Sets the time after which bidirectional streams send no further message. Applies to streams that begin after
    /// this call.
    pub(super) fn end_streams_at(&mut self, until: Instant) {
        self.all.iter_mut().for_each(|channel| channel.end_streams_at(until));
    }

    /// Number of channels.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Number of unanswered calls.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Start times of the unanswered calls.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = Instant> {
        self.all.iter().flat_map(Channel::unanswered)
    }

    /// A waker that makes [`Channels::step`] return [`Ready::Timer`].
    pub(super) fn timer_waker(&self) -> Waker {
        self.queue.waker(Ready::Timer)
    }

    /// Sends a call on the channel with this index, timed from `since`. Adds ended calls to `ended`, as
    /// [`Channels::step`] does.
    pub(super) fn send(&mut self, channel: usize, since: Instant, ended: &mut Vec<Ended>) {
        self.in_flight += 1;
        let before = ended.len();
        self.all[channel].send(since, ended);
        self.in_flight -= ended.len() - before;
    }

    /// Polls the first ready item, and adds ended calls to `ended`. If nothing is ready, returns `None` and wakes the
    /// task of `cx` later.
    pub(super) fn step(&mut self, cx: &Context<'_>, ended: &mut Vec<Ended>) -> Option<Ready> {
        let Some(ready) = self.queue.next() else {
            self.queue.wake_when_ready(cx.waker());
            return None;
        };
        let before = ended.len();
        match ready {
            Ready::Timer => {}
            Ready::Connection(channel) => self.all[channel].drive(ended),
            Ready::Call(channel, slot) => self.all[channel].poll_call(slot, ended),
        }
        self.in_flight -= ended.len() - before;
        Some(ready)
    }

    /// Cancels all unanswered calls. Returns their number.
    pub(super) fn give_up(&mut self) -> usize {
        self.all.iter_mut().for_each(Channel::give_up);
        std::mem::take(&mut self.in_flight)
    }

    /// Closes all connections cleanly. Waits at most [`CLOSE_TIMEOUT`] until they are closed.
    pub(super) async fn close(mut self) {
        self.give_up();
        self.all.iter_mut().for_each(Channel::close);
        let closed = poll_fn(|cx| {
            while self.step(cx, &mut Vec::new()).is_some() {}
            if self.all.iter().all(Channel::is_closed) { Poll::Ready(()) } else { Poll::Pending }
        });
        // A server that stops reading must not delay the end.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
    }
}
