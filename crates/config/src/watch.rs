//! Notices changes of the configuration directory.
//!
//! The directory is watched, not what its links point to: editors that write a new file and rename it, and
//! Kubernetes, which swaps the link `..data` of a mounted ConfigMap, both change the directory itself. When
//! the directory is removed, renamed or, being a link, pointed elsewhere, the one of that name is watched next.

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

/// How long nothing may happen before a change counts as finished: files are not read half written.
const QUIET: Duration = Duration::from_millis(50);

/// After this long a change is taken in even if more keep coming.
const QUIET_AT_MOST: Duration = Duration::from_secs(1);

/// How often to look whether the path still names the directory that is watched.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Watches one directory.
pub struct Watch {
    path: PathBuf,
    inotify: AsyncFd<OwnedFd>,
    /// The directory being watched; `None` once it is gone.
    watched: Option<Identity>,
}

/// A directory's device and inode.
type Identity = (u64, u64);

impl Watch {
    /// Starts to watch. Needs a tokio runtime.
    ///
    /// # Errors
    /// When there is no such directory, or the system allows no more watches.
    pub fn new(path: &Path) -> io::Result<Self> {
        // Looked at first: if the path is pointed elsewhere in between, the next check sees a difference.
        let watched = Some(identity(path)?);
        Ok(Self { path: path.to_owned(), inotify: open(path)?, watched })
    }

    /// Returns after the directory's content may have changed and a moment passed without further changes.
    ///
    /// Not cancel safe: the change that a dropped future was waiting out is forgotten.
    ///
    /// # Errors
    /// When the system takes the watch away.
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

    /// Waits for something to happen in the directory.
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

    /// Watches the directory that the path names now, if it is another one.
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

/// Reads all events there are. Which files they name does not matter: all are looked at again.
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
