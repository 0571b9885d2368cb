//! Notices changes of the configuration directory.
//!
//! [`Watch`] watches the directory itself, not the targets of the links in it. This is enough: editors write a new file
//! and rename it, and Kubernetes swaps the link `..data` of a mounted ConfigMap, so in both cases the directory
//! changes.
//!
//! The path may later lead to another directory, because the first one was removed or renamed, or because the path is a
//! link that was changed. The watch then moves to the new directory.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout};

/// Time for which the directory must stay unchanged before it is read, so that no half-written file is read.
const QUIET: Duration = Duration::from_millis(50);

/// Maximum time for which continuing changes delay reading the directory.
const QUIET_AT_MOST: Duration = Duration::from_secs(1);

/// Interval between checks whether the path still leads to the watched directory.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A watch on the configuration directory.
pub struct Watch {
    path: PathBuf,
    inotify: AsyncFd<OwnedFd>,
    /// The watched directory; `None` once it has been removed, moved or unmounted.
    watched: Option<Identity>,
}

/// Identifies a directory by its device and inode.
type Identity = (u64, u64);

impl Watch {
    /// Starts the watch. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the directory does not exist, or the system allows no more watches.
    pub fn new(path: &Path) -> io::Result<Self> {
        // Read the identity before opening the watch. If the path changes to another directory in between, the next
        // check notices that the identities differ.
        let watched = Some(identity(path)?);
        Ok(Self { path: path.to_owned(), inotify: open(path)?, watched })
    }

    /// Waits until the content may have changed, and then until it has stayed unchanged for a moment. If changes
    /// continue, stops waiting after `QUIET_AT_MOST`.
    ///
    /// Not cancel safe: if the future is dropped while it waits for the content to stay unchanged, the change is lost.
    ///
    /// # Errors
    /// If the events of the watch cannot be read. A removed directory is no error.
    pub async fn changed(&mut self) -> io::Result<()> {
        loop {
            match timeout(RECHECK_INTERVAL, self.event()).await {
                Ok(event) => break event?,
                Err(_) if self.watch_again() => break,
                Err(_) => {}
            }
        }
        let latest = Instant::now() + QUIET_AT_MOST;
        while Instant::now() < latest {
            match timeout(QUIET, self.event()).await {
                Ok(event) => event?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Waits for an event in the directory.
    async fn event(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            if let Ok(events) = ready.try_io(|inotify| drain(inotify.get_ref())) {
                if is_gone(events?) {
                    self.watched = None;
                }
                return Ok(());
            }
        }
    }

    /// If the path now leads to another directory, watches that directory and returns `true`.
    fn watch_again(&mut self) -> bool {
        let named = identity(&self.path).ok();
        if named.is_none() || named == self.watched {
            return false;
        }
        let Ok(inotify) = open(&self.path) else {
            return false;
        };
        self.inotify = inotify;
        self.watched = named;
        true
    }
}

#[allow(deprecated, reason = "the constructor that replaces it is unsafe; an OwnedFd keeps the promise it asks for")]
fn open(path: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let contents = WatchFlags::CREATE | WatchFlags::MOVE | WatchFlags::DELETE;
    let files = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB;
    let itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
    inotify::add_watch(&inotify, path, contents | files | itself)?;
    AsyncFd::with_interest(inotify, Interest::READABLE)
}

fn identity(path: &Path) -> io::Result<Identity> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Reads all pending events, and returns their flags. Ignores which files they name, because the caller checks every
/// file again.
fn drain(inotify: &OwnedFd) -> io::Result<ReadFlags> {
    let mut buffer = [MaybeUninit::uninit(); 4_096];
    let mut reader = inotify::Reader::new(inotify, &mut buffer);
    let mut seen = ReadFlags::empty();
    loop {
        match reader.next() {
            Ok(event) => seen |= event.events(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if !seen.is_empty() => return Ok(seen),
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_gone(events: ReadFlags) -> bool {
    events.intersects(ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT)
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
