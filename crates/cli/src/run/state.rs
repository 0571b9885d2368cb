//! The directory that the runs of one mesh share.
//!
//! ```text
//! lock            held while anything below is added or removed
//! manifests/      the manifests that every proxy reads
//! ca/             the certificate authority, unless --issuer names another
//! runs/<number>/  files of one run: its hosts file, its proxy's log and keys; its lock is held while the run lives
//! ```
//!
//! The kernel releases a lock when the process that holds it ends, for whatever reason. So a run whose lock is free is
//! dead.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::error::{Result, io};
use super::files;

const LOCK: &str = "lock";
/// Name of the file in a run's directory that records the name prefix of the manifests that the run added.
const CONFIG: &str = "config";
/// Name of the file in a run's directory that records the run's network namespace and service.
const ABOUT: &str = "about";

#[derive(Clone, Debug)]
pub(super) struct State(PathBuf);

impl State {
    /// Opens the directory at `path`, and creates it if necessary.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub(super) fn open(path: &Path) -> Result<Self> {
        files::make_directory(path)?;
        // Resolve symbolic links, so that every path to the directory results in the same text: the bridge's alias
        // contains it.
        let this = Self(path.canonicalize().map_err(io(format!("--state {}", path.display())))?);
        for directory in [this.manifests(), this.runs()] {
            files::make_directory(&directory)?;
        }
        Ok(this)
    }

    /// Opens the directory at `path` for a command that only reads. Creates nothing. `None` if the directory does not
    /// exist or the caller may not enter it.
    pub(super) fn existing(path: &Path) -> Option<Self> {
        path.canonicalize().ok().map(Self)
    }

    /// The path of the directory, without symbolic links.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Waits for exclusive access; the lock is held while the returned file is open.
    ///
    /// # Errors
    /// If the lock file cannot be created or locked.
    pub(super) fn lock(&self) -> Result<File> {
        let path = self.0.join(LOCK);
        let lock = || File::create(&path).and_then(|file| file.lock().map(|()| file));
        lock().map_err(io(format!("locking {}", path.display())))
    }

    pub(super) fn manifests(&self) -> PathBuf {
        self.0.join("manifests")
    }

    /// Directory of the authority that the runs share.
    pub(super) fn authority(&self) -> PathBuf {
        self.0.join("ca")
    }

    /// Directory of a run's own files.
    pub(super) fn run(&self, number: u16) -> PathBuf {
        self.runs().join(number.to_string())
    }

    /// Claims the lowest free number from `first` to `last`, for as long as the returned file is open. `None` if all
    /// numbers are taken.
    ///
    /// # Errors
    /// If the run's directory cannot be created.
    pub(super) fn claim(&self, first: u16, last: u16) -> Result<Option<(u16, File)>> {
        let Some(number) = (first..=last).find(|number| !self.run(*number).exists()) else {
            return Ok(None);
        };
        let directory = self.run(number);
        files::make_directory(&directory)?;
        let path = directory.join(LOCK);
        let lock = || File::create(&path).and_then(|file| file.lock().map(|()| file));
        Ok(Some((number, lock().map_err(io(format!("locking {}", path.display())))?)))
    }

    /// The numbers of all runs, including dead runs.
    ///
    /// # Errors
    /// If the directories of the runs cannot be listed.
    pub(super) fn numbers(&self) -> Result<Vec<u16>> {
        let entries = fs::read_dir(self.runs()).map_err(io(format!("listing {}", self.runs().display())))?;
        let number = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        Ok(entries.filter_map(number).collect())
    }

    /// Whether a run has ended or was killed, but its files remain.
    pub(super) fn is_dead(&self, number: u16) -> bool {
        match self.is_locked(number) {
            Ok(is_locked) => !is_locked,
            // Without a lock file, the run was killed before it created the file.
            Err(error) => error.kind() == std::io::ErrorKind::NotFound && self.run(number).exists(),
        }
    }

    /// Whether a run is alive. Also `false` if the user may not write the run's lock file: such a user cannot reach the
    /// run's proxy either.
    pub(super) fn is_alive(&self, number: u16) -> bool {
        self.is_locked(number).unwrap_or(false)
    }

    /// Whether a process holds the lock of a run. Does not create the lock file, because commands that must not change
    /// the directory call this function too.
    fn is_locked(&self, number: u16) -> std::io::Result<bool> {
        let file = File::options().write(true).open(self.run(number).join(LOCK))?;
        Ok(matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Records the name prefix of the manifests that a run added.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn set_config_prefix(&self, number: u16, prefix: &str) -> Result<()> {
        let path = self.run(number).join(CONFIG);
        fs::write(&path, prefix).map_err(io(format!("writing {}", path.display())))
    }

    /// The name prefix of the manifests that a run added, if it added any.
    pub(super) fn config_prefix(&self, number: u16) -> Option<String> {
        fs::read_to_string(self.run(number).join(CONFIG)).ok().filter(|prefix| !prefix.is_empty())
    }

    /// Records the line of a run, from which other commands read its network namespace and service.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn set_about(&self, number: u16, line: &str) -> Result<()> {
        let path = self.run(number).join(ABOUT);
        fs::write(&path, line).map_err(io(format!("writing {}", path.display())))
    }

    /// The recorded line of a run; `None` if the run is still starting and has recorded none.
    pub(super) fn about(&self, number: u16) -> Option<String> {
        fs::read_to_string(self.run(number).join(ABOUT)).ok()
    }

    /// Removes a run's own files.
    ///
    /// # Errors
    /// If the files cannot be removed.
    pub(super) fn forget(&self, number: u16) -> Result<()> {
        let path = self.run(number);
        fs::remove_dir_all(&path).map_err(io(format!("removing {}", path.display())))
    }

    fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
