//! Log lines that wait for the writer thread.
//!
//! Standard error is a pipe, which fills up if the container runtime reads it too slowly. A worker thread that logs
//! must not block even then, so it adds each line to a queue, or drops the line if the queue is full. The writer thread
//! logs the number of dropped lines.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum size of all waiting lines together, in bytes; further lines are dropped.
pub(super) const QUEUE_MAX_BYTES: usize = 1 << 20;
/// Maximum time for which an ending process waits for its last lines to be written.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// Interval between calls of `every_tick`, which logs the number of lines that [`super::limit`] left out.
const TICK: Duration = Duration::from_secs(1);
/// Maximum memory that the line buffer keeps after a write, in bytes; a larger buffer is freed.
const KEPT_BYTES: usize = 16 << 10;
/// Stack size of the writer thread, in bytes.
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
    /// Number of lines dropped since the writer last logged this number.
    dropped: u64,
    /// Whether the writer thread has taken lines from the queue that it has not written yet.
    is_writing: bool,
}

impl Queue {
    /// Starts the thread that writes to `output`, and calls `every_tick` about once a second.
    ///
    /// # Errors
    /// If the kernel refuses a thread.
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

    /// Waits, for at most [`FLUSH_MAX`], until every line that was queued before is written.
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

    /// Runs the loop of the writer thread, for as long as the process runs.
    fn write_all_to(&self, mut output: impl Write, every_tick: impl Fn()) {
        let mut text = Vec::new();
        let mut next_tick = Instant::now() + TICK;
        loop {
            let dropped = self.take(&mut text, next_tick);
            // Ignore an error: the program must not end if the log's reader is gone.
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

    /// Waits for lines, but not beyond `latest`, and moves them from the queue to `text`. Returns the number of lines
    /// dropped since the last call to this method.
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

/// The writer for one log line. Adds the whole line to the queue; the writer thread writes it to the output later.
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
