//! The queue of items that are ready to be polled.
//!
//! One task polls thousands of calls, but polls a call only after data for this call has arrived.
//! A task for each call would cost an allocation and a scheduler pass for every call. Here each slot has a permanent
//! waker, and waking puts the slot into the queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// An item to poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    /// The timer of an open loop.
    Timer,
    /// The connection of the channel with this index.
    Connection(usize),
    /// The call in a slot: the channel's index and the slot's index.
    Call(usize, usize),
}

/// Maximum number of calls that are polled before a connection is polled. Polling the connection sends the requests of
/// the polled calls, so that the server can process them while the next calls are polled.
const CALLS_IN_A_ROW: u32 = 16;

/// The queue of ready items. Calls come before connections and the timer, but at most [`CALLS_IN_A_ROW`] calls in a
/// row; within each group, first come, first served. Each item is in the queue at most once.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    calls: VecDeque<Arc<Source>>,
    others: VecDeque<Arc<Source>>,
    calls_in_a_row: u32,
    /// Wakes the task that polls the items; `None` while this task is awake.
    task: Option<Waker>,
}

/// The waker of one item: waking it puts the item into the queue.
#[derive(Debug)]
struct Source {
    queue: Arc<ReadyQueue>,
    what: Ready,
    in_line: AtomicBool,
}

impl ReadyQueue {
    /// A waker that puts `what` into the queue.
    pub(super) fn waker(self: &Arc<Self>, what: Ready) -> Waker {
        Arc::new(Source { queue: Arc::clone(self), what, in_line: AtomicBool::new(false) }).into()
    }

    /// Takes the first item of the queue.
    pub(super) fn next(&self) -> Option<Ready> {
        let source = self.line().next()?;
        // Clear the flag before the item is polled, so that a wake during the poll queues the item again.
        source.in_line.store(false, Ordering::Relaxed);
        Some(source.what)
    }

    /// Wakes `task` when an item enters the queue, or at once if the queue is not empty.
    pub(super) fn wake_when_ready(&self, task: &Waker) {
        let mut line = self.line();
        if line.calls.is_empty() && line.others.is_empty() {
            line.task = Some(task.clone());
        } else {
            task.wake_by_ref();
        }
    }

    /// Locks the queue. The queue is consistent even after a panic: each change is one operation.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn next(&mut self) -> Option<Arc<Source>> {
        if self.calls_in_a_row < CALLS_IN_A_ROW
            && let Some(call) = self.calls.pop_front()
        {
            self.calls_in_a_row += 1;
            return Some(call);
        }
        self.calls_in_a_row = 0;
        self.others.pop_front().or_else(|| self.calls.pop_front())
    }
}

impl Wake for Source {
    fn wake(self: Arc<Self>) {
        if self.in_line.swap(true, Ordering::Relaxed) {
            return;
        }
        let queue = Arc::clone(&self.queue);
        let task = {
            let mut line = queue.line();
            match self.what {
                Ready::Call(..) => line.calls.push_back(self),
                Ready::Connection(_) | Ready::Timer => line.others.push_back(self),
            }
            line.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
#[path = "ready_tests.rs"]
mod tests;
