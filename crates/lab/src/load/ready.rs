//! What is ready to be polled: one task polls thousands of calls, each only when something came for it.
//!
//! A task for each call would cost an allocation and a turn of the scheduler for every call. Here a call
//! has a waker for as long as its slot exists, and waking puts the slot in line.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Something that can be polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    /// The timer of an open loop.
    Timer,
    /// The connection of the channel with this index.
    Connection(usize),
    /// A call: the channel's index, the slot's.
    Call(usize, usize),
}

/// Calls that are polled before connections have their turn: their requests leave, and the far side works
/// on them while the next calls are polled here.
const CALLS_IN_A_ROW: u32 = 16;

/// The line of what is ready, first come first served; each thing is in it at most once.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    calls: VecDeque<Arc<Source>>,
    others: VecDeque<Arc<Source>>,
    calls_in_a_row: u32,
    /// Wakes the task that polls; none while it is awake.
    task: Option<Waker>,
}

/// Where wakes of one thing arrive.
#[derive(Debug)]
struct Source {
    queue: Arc<ReadyQueue>,
    what: Ready,
    in_line: AtomicBool,
}

impl ReadyQueue {
    /// A waker that puts `what` in line.
    pub(super) fn waker(self: &Arc<Self>, what: Ready) -> Waker {
        Arc::new(Source { queue: Arc::clone(self), what, in_line: AtomicBool::new(false) }).into()
    }

    /// Takes what is first in line.
    pub(super) fn next(&self) -> Option<Ready> {
        let source = self.line().next()?;
        // From here on a wake puts it in line again, also one that comes while it is polled.
        source.in_line.store(false, Ordering::Relaxed);
        Some(source.what)
    }

    /// Wakes `task` when something is put in line, or at once when something is there.
    pub(super) fn wake_when_ready(&self, task: &Waker) {
        let mut line = self.line();
        if line.calls.is_empty() && line.others.is_empty() {
            line.task = Some(task.clone());
        } else {
            task.wake_by_ref();
        }
    }

    /// The line is whole also after a panic: each change is one operation.
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
