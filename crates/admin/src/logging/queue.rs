//! Log lines that wait for the thread that writes them.
//!
//! A worker must not stand still because the reader of its log does: standard error is a pipe, and a container runtime that
//! lags lets it fill up. So a line is queued, and dropped when the queue is full; the writer says how many were dropped.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines that wait for the writer, in bytes; further lines are dropped.
pub(super) const QUEUE_MAX_BYTES: usize = 1 << 20;
/// How long the end of the process waits until the last lines are written.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// How often the writer looks for lines that [`super::limit`] left out.
const TICK: Duration = Duration::from_secs(1);
/// Memory for lines that is kept after they are written, in bytes.
const KEPT_BYTES: usize = 16 << 10;
/// The writer thread's own stack, in bytes.
const STACK_BYTES: usize = 128 << 10;

/// A bounded queue of lines. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    text: Vec<u8>,
    /// Lines that found no room since the writer last said so.
    dropped: u64,
    /// The writer has taken lines that it has not written yet.
    is_writing: bool,
}

impl Queue {
    /// Starts the thread that writes to `output`, and calls `every_tick` about once a second.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub(super) fn start(
        output: impl Write + Send + 'static,
        every_tick: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Self::default();
        let theirs = queue.clone();
        let thread = std::thread::Builder::new().name("log".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || theirs.write_all_to(output, every_tick))?;
        Ok(queue)
    }

    /// Waits until the lines so far are written, for [`FLUSH_MAX`] at most.
    pub(super) fn flush(&self) {
        let is_unwritten = |state: &mut State| state.is_writing || !state.text.is_empty();
        let waited = self.0.changed.wait_timeout_while(self.lock(), FLUSH_MAX, is_unwritten);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.text.len() + line.len() > QUEUE_MAX_BYTES {
            state.dropped += 1;
            return;
        }
        let was_empty = state.text.is_empty();
        state.text.extend_from_slice(line);
        drop(state);
        if was_empty {
            self.0.changed.notify_all();
        }
    }

    /// The thread's loop, which lasts as long as the process.
    fn write_all_to(&self, mut output: impl Write, every_tick: impl Fn()) {
        let mut text = Vec::new();
        let mut next_tick = Instant::now() + TICK;
        loop {
            let dropped = self.take(&mut text, next_tick);
            // A log whose reader has gone must not end the program.
            let _ = output.write_all(&text).and_then(|()| output.flush());
            text.clear();
            if text.capacity() > KEPT_BYTES {
                text = Vec::new();
            }
            if dropped > 0 {
                tracing::warn!(
                    "{dropped} log lines were lost: the reader of standard error is too slow; log less, or read faster"
                );
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                every_tick();
            }
        }
    }

    /// Waits for lines, until `latest`, and takes them. Returns how many were dropped.
    fn take(&self, text: &mut Vec<u8>, latest: Instant) -> u64 {
        let mut state = self.lock();
        state.is_writing = false;
        self.0.changed.notify_all();
        let patience = latest.saturating_duration_since(Instant::now());
        let waited = self.0.changed.wait_timeout_while(state, patience, |state| state.text.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.text, text);
        state.is_writing = !text.is_empty();
        std::mem::take(&mut state.dropped)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line on its way into the queue: it goes in whole.
#[derive(Debug)]
pub(super) struct Line<'a>(&'a Queue);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Queue {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
