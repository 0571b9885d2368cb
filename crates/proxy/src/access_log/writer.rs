//! The thread that writes the access log, and its buffer.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::Outlet;

/// Maximum size of the lines that wait for the writer, in bytes; further lines are dropped.
const MAX_PENDING_BYTES: usize = 2 << 20;

/// Time for which lines are collected, so that one system call writes many lines.
const GATHER: Duration = Duration::from_millis(20);

/// Maximum capacity in bytes of a buffer that is used again after writing. A larger buffer is freed.
const KEPT_BYTES: usize = 64 * 1024;

/// Shortest interval between two warnings that the access log cannot be written.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// Stack size of the thread.
const STACK_BYTES: usize = 128 * 1024;

/// The destination of the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// Standard error, mixed with the proxy's own log.
    Stderr,
    /// A file. The writer creates a missing file, and appends to an existing file. To rotate the file, copy and
    /// truncate it.
    File(PathBuf),
}

/// The writer thread of all workers' access logs.
#[derive(Debug)]
pub struct Writer(Arc<Pending>);

/// Lines that wait for the writer.
#[derive(Debug, Default)]
pub(super) struct Pending {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of lines that the writer lost to write errors, and that no worker has counted yet.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    text: Vec<u8>,
    /// Whether the log is closed. The writer then writes the remaining lines and ends.
    closed: bool,
    ended: bool,
}

/// The writer's output.
struct Output<W> {
    inner: W,
    /// Whether the output ends within a line, because a write failed after a part of a batch.
    is_cut: bool,
}

/// An error that ended the writing of a batch of lines.
#[derive(Debug)]
struct Loss {
    error: io::Error,
    /// Number of lines of the batch that are missing in the output, or of which the end is missing.
    lines: u64,
}

/// The result of offering lines to the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    /// The lines will be written.
    Taken,
    /// Another thread holds the lock: offer them again later.
    Busy,
    /// The buffer is full, or the log is closed.
    Full,
}

impl Writer {
    /// Opens the destination and starts the thread.
    ///
    /// # Errors
    /// If the destination cannot be opened, or the kernel refuses a thread.
    pub fn start(destination: &Destination) -> io::Result<Self> {
        let output = destination.open()?;
        let pending = Arc::new(Pending::default());
        let theirs = pending.clone();
        let thread = std::thread::Builder::new().name("access-log".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || theirs.write_all_to(output))?;
        Ok(Self(pending))
    }

    /// Returns the outlet by which a worker hands its lines to the writer.
    pub fn outlet(&self) -> Outlet {
        Outlet::to(self.0.clone())
    }

    /// Writes pending lines and ends the thread; gives up after `patience` if the destination does not accept them.
    pub fn finish(self, patience: Duration) {
        let mut state = self.0.lock();
        state.closed = true;
        self.0.changed.notify_all();
        let waited = self.0.changed.wait_timeout_while(state, patience, |state| !state.ended);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Destination {
    /// Opens the destination as an unbuffered `File`. Standard output and standard error are duplicated, because the
    /// `File` closes its descriptor.
    fn open(&self) -> io::Result<File> {
        match self {
            Self::Stdout => Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
            Self::Stderr => Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
            // The log contains clients' addresses and requests, so it must not be world-readable.
            Self::File(path) => OpenOptions::new().append(true).create(true).mode(0o640).open(path),
        }
    }
}

impl Pending {
    /// Takes the lines out of `text` if the lock is free and the lines fit into the buffer.
    pub(super) fn offer(&self, text: &mut Vec<u8>) -> Offer {
        match self.state.try_lock() {
            Ok(state) => self.add(state, text),
            Err(TryLockError::WouldBlock) => Offer::Busy,
            Err(TryLockError::Poisoned(poisoned)) => self.add(poisoned.into_inner(), text),
        }
    }

    /// Takes the last lines of a worker that ends; may wait.
    pub(super) fn take_last(&self, text: &mut Vec<u8>) -> Offer {
        self.add(self.lock(), text)
    }

    /// Returns the number of lines that the writer has lost since the previous call by any worker.
    pub(super) fn take_lost(&self) -> u64 {
        // Workers call this in every turn of their loops. A load needs no exclusive access to the cache line.
        if self.lost.load(Ordering::Relaxed) == 0 { 0 } else { self.lost.swap(0, Ordering::Relaxed) }
    }

    fn add(&self, mut state: MutexGuard<'_, State>, text: &mut Vec<u8>) -> Offer {
        if state.closed || state.text.len() + text.len() > MAX_PENDING_BYTES {
            return Offer::Full;
        }
        let was_empty = state.text.is_empty();
        state.text.append(text);
        drop(state);
        if was_empty {
            self.changed.notify_one();
        }
        Offer::Taken
    }

    /// Runs the thread: writes lines until the log is closed.
    fn write_all_to(&self, output: impl Write) {
        let mut output = Output { inner: output, is_cut: false };
        let (mut text, mut said_at) = (Vec::new(), None::<Instant>);
        while self.take(&mut text) {
            if let Err(Loss { error, lines }) = output.write_lines(&text) {
                self.lost.fetch_add(lines, Ordering::Relaxed);
                if said_at.is_none_or(|said_at| said_at.elapsed() >= SAY_EVERY) {
                    tracing::warn!("the access log cannot be written and lost lines: {error}; check its destination");
                    said_at = Some(Instant::now());
                }
            }
            text.clear();
            if text.capacity() > KEPT_BYTES {
                text = Vec::new();
            }
        }
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Waits for lines and moves them into `text`. Returns `false` once the log is closed and no lines are left.
    fn take(&self, text: &mut Vec<u8>) -> bool {
        let none_came = |state: &mut State| state.text.is_empty() && !state.closed;
        let state = self.changed.wait_while(self.lock(), none_came).unwrap_or_else(PoisonError::into_inner);
        let gathering = self.changed.wait_timeout_while(state, GATHER, |state| !state.closed);
        let (mut state, _) = gathering.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.text, text);
        !text.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write> Output<W> {
    /// Writes lines. If the output ends within a line, first ends this line, so that it does not damage the next line.
    fn write_lines(&mut self, lines: &[u8]) -> Result<(), Loss> {
        let mut line_end: &[u8] = if self.is_cut { b"\n" } else { b"" };
        let mut rest = lines;
        let written = self.write(&mut line_end).and_then(|()| self.write(&mut rest));
        // Each line ends with its only newline.
        let count = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count() as u64;
        written.map_err(|error| Loss { error, lines: count(rest) })
    }

    /// Writes `rest` and removes the written bytes from it. After an error, `rest` is what was not written.
    fn write(&mut self, rest: &mut &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match self.inner.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    let (written, unwritten) = rest.split_at_checked(count).unwrap_or((*rest, &[]));
                    self.is_cut = written.last() != Some(&b'\n');
                    *rest = unwritten;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
