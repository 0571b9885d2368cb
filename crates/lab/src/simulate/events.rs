//! The queue of events, ordered by time. Events at the same time are processed in the order of their creation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event. `call` is a call's key in the engine's slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The next call of an open loop arrives.
    Arrival,
    /// A server's worker has finished a call.
    WorkDone { call: u32 },
    /// A client receives a call's answer, or the first answer of a stream.
    Answer { call: u32 },
    /// An answered stream ends.
    StreamEnd { call: u32 },
    /// A client receives the answer to a probe.
    ProbeAnswer { client: u32, server: u32 },
}

/// The pending events.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
}

impl Events {
    pub(super) fn push(&mut self, at_ns: u64, event: Event) {
        self.number += 1;
        self.heap.push(Reverse((at_ns, self.number, event)));
    }

    /// Removes and returns the next event, or `None` if it is due after `end_ns`.
    pub(super) fn pop_until(&mut self, end_ns: u64) -> Option<(u64, Event)> {
        let Reverse((at_ns, _, _)) = self.heap.peek()?;
        if *at_ns > end_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((at_ns, _, event))| (at_ns, event))
    }
}
