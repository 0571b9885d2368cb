//! A client: one connection at a time, reopened after a loss, and the calls on it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;

use super::call::{Answer, Call, CallRequest};
use super::failure::Failure;
use super::open::{Driver, open};
use super::ready::{Ready, ReadyQueue};
use super::traffic::Traffic;
use super::{Client, Exchange, RETRY_GAP};
use crate::error::{Error, Result};

/// Shortest time between two connections, so that a server that closes connections at once is not flooded.
const REOPEN_GAP: Duration = Duration::from_millis(10);

type Opening = Pin<Box<dyn Future<Output = std::result::Result<(SendRequest<Bytes>, Driver), String>> + Send>>;

/// A client and its calls.
pub(super) struct Channel {
    index: usize,
    address: SocketAddr,
    request: CallRequest,
    queue: Arc<ReadyQueue>,
    waker: Waker,
    link: Link,
    /// Earliest time for the next connection.
    reopen_from: Instant,
    /// The open connection, and earlier connections that still wait for their last answers.
    drivers: Vec<Driver>,
    /// Start times of the calls that wait for the connection, or for a free stream on it.
    waiting: VecDeque<Instant>,
    slots: Vec<Slot>,
    free: Vec<usize>,
}

enum Link {
    Up(SendRequest<Bytes>),
    Opening(Opening),
    Down,
}

/// A slot holds one call at a time, and has its own waker.
struct Slot {
    waker: Waker,
    call: Option<Call>,
}

/// A call that has ended.
pub(super) struct Ended {
    /// The index of the call's channel.
    pub(super) channel: usize,
    /// Time from which the call's latency counts.
    pub(super) since: Instant,
    /// The result of the call.
    pub(super) answer: Answer,
}

impl Channel {
    /// Opens the first connection of `client`.
    ///
    /// # Errors
    /// [`Error::Connect`] if the connection cannot be opened, or the authority is invalid.
    pub(super) async fn connect(
        client: &Client,
        index: usize,
        (exchange, traffic): (&Exchange, &Traffic),
        queue: &Arc<ReadyQueue>,
    ) -> Result<Self> {
        let cannot_connect = |why| Error::Connect { target: client.authority.clone(), address: client.address, why };
        let request = CallRequest::new(&client.authority, exchange, traffic);
        let request = request.map_err(|error| cannot_connect(error.to_string()))?;
        let (sender, driver) = open(client.address, index).await.map_err(cannot_connect)?;
        let waker = queue.waker(Ready::Connection(index));
        // The socket would still wake only the task that opened the connection. So wake `waker` once. The load's loop
        // then polls the connection with `waker`, and from then on the socket wakes `waker`.
        waker.wake_by_ref();
        Ok(Self {
            index,
            address: client.address,
            request,
            queue: Arc::clone(queue),
            waker,
            link: Link::Up(sender),
            reopen_from: Instant::now() + REOPEN_GAP,
            drivers: vec![driver],
            waiting: VecDeque::new(),
            slots: Vec::new(),
            free: Vec::new(),
        })
    }

    /// Start times of the unanswered calls.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = Instant> {
        let sent = self.slots.iter().filter_map(|slot| Some(slot.call.as_ref()?.since));
        self.waiting.iter().copied().chain(sent)
    }

    /// Sets the time after which bidirectional streams send no further message. Applies to streams that begin after
    /// this call.
    pub(super) fn end_streams_at(&mut self, until: Instant) {
        self.request.end_streams_at(until);
    }

    /// Sends a call whose latency counts from `since`.
    pub(super) fn send(&mut self, since: Instant, ended: &mut Vec<Ended>) {
        self.waiting.push_back(since);
        self.send_waiting(ended);
    }

    /// Moves bytes between the sockets and the calls, and opens a connection if calls wait for one.
    pub(super) fn drive(&mut self, ended: &mut Vec<Ended>) {
        let mut cx = Context::from_waker(&self.waker);
        if let Link::Opening(opening) = &mut self.link {
            match opening.as_mut().poll(&mut cx) {
                Poll::Pending => {}
                Poll::Ready(Ok((sender, driver))) => {
                    self.link = Link::Up(sender);
                    self.drivers.push(driver);
                }
                Poll::Ready(Err(why)) => {
                    self.link = Link::Down;
                    self.reopen_from = Instant::now() + RETRY_GAP;
                    self.fail_waiting(&why, ended);
                }
            }
        }
        self.send_waiting(ended);
        let mut cx = Context::from_waker(&self.waker);
        // Ignore the connection's error: its calls report it too.
        self.drivers.retain_mut(|driver| Pin::new(driver).poll(&mut cx).is_pending());
    }

    /// Processes data for the call in `slot`.
    pub(super) fn poll_call(&mut self, slot: usize, ended: &mut Vec<Ended>) {
        // The slot is empty if the call was cancelled after its waker had queued the slot.
        let Some(Slot { waker, call }) = self.slots.get_mut(slot) else { return };
        let Some(waiting) = call else { return };
        if let Poll::Ready(answer) = waiting.poll(&mut Context::from_waker(waker)) {
            ended.push(Ended { channel: self.index, since: waiting.since, answer });
            *call = None;
            self.free.push(slot);
        }
    }

    /// Cancels all calls, and resets the streams of the calls that were sent.
    pub(super) fn give_up(&mut self) {
        self.waiting.clear();
        self.slots.clear();
        self.free.clear();
        self.waker.wake_by_ref();
    }

    /// Begins to close the connection. [`Channel::drive`] completes the close.
    pub(super) fn close(&mut self) {
        self.link = Link::Down;
        self.waker.wake_by_ref();
    }

    /// Returns whether the channel has no connection.
    pub(super) fn is_closed(&self) -> bool {
        self.drivers.is_empty()
    }

    fn send_waiting(&mut self, ended: &mut Vec<Ended>) {
        while let Some(&since) = self.waiting.front() {
            match &mut self.link {
                Link::Opening(_) => return,
                Link::Up(sender) => {
                    let sent = match sender.poll_ready(&mut Context::from_waker(&self.waker)) {
                        Poll::Pending => return,
                        Poll::Ready(ready) => ready.and_then(|()| self.request.send(sender, since)),
                    };
                    match sent {
                        Ok(call) => {
                            self.waiting.pop_front();
                            self.start(call, ended);
                        }
                        // The call was not sent, and stays in `waiting` for the next connection.
                        Err(_) => self.link = Link::Down,
                    }
                }
                Link::Down => {
                    self.link = Link::Opening(self.open_again());
                    self.waker.wake_by_ref();
                    return;
                }
            }
        }
    }

    /// Puts a call that was just sent into a slot. The call's answer wakes the slot's waker.
    fn start(&mut self, call: Call, ended: &mut Vec<Ended>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            let waker = self.queue.waker(Ready::Call(self.index, self.slots.len()));
            self.slots.push(Slot { waker, call: None });
            self.slots.len() - 1
        });
        self.slots[slot].call = Some(call);
        self.poll_call(slot, ended);
    }

    fn open_again(&mut self) -> Opening {
        let start = self.reopen_from.max(Instant::now());
        self.reopen_from = start + REOPEN_GAP;
        let (address, index) = (self.address, self.index);
        Box::pin(async move {
            tokio::time::sleep_until(start.into()).await;
            open(address, index).await
        })
    }

    fn fail_waiting(&mut self, why: &str, ended: &mut Vec<Ended>) {
        let channel = self.index;
        let failure = || Failure::connection(format!("cannot connect again: {why}"));
        let failed = |since| Ended { channel, since, answer: Err(failure()) };
        ended.extend(self.waiting.drain(..).map(failed));
    }
}
