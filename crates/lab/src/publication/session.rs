//! A publication that is being measured: its description, and the report of what has been measured so far.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::record::{self, Description, State};
use super::report;
use crate::error::{Error, Result};
use crate::experiment::started;
use crate::report::Written;

/// The directory and the description. Clones share one session.
#[derive(Debug, Clone)]
pub(super) struct Session {
    dir: PathBuf,
    description: Arc<Mutex<Description>>,
}

impl Session {
    /// Creates the directory, and writes the description into it.
    ///
    /// # Errors
    /// If the directory cannot be written to, or if it already holds a publication. A new measurement would overwrite
    /// those results or mix with them.
    pub(super) fn begin(dir: &Path, description: Description) -> Result<Self> {
        if report::is_publication(dir) {
            let what =
                format!("--out {} already holds a publication; use another directory or remove it", dir.display());
            return Err(Error::Usage(what));
        }
        fs::create_dir_all(dir).map_err(|error| {
            let what = format!(
                "--out {}: the directory cannot be created: {error}; choose a place that you can write to",
                dir.display()
            );
            Error::Usage(what)
        })?;
        record::write(dir, &description)?;
        Ok(Self { dir: dir.to_owned(), description: Arc::new(Mutex::new(description)) })
    }

    /// Records the new state of the experiment with the index `step`, and writes the report.
    pub(super) fn note(&self, step: usize, state: State) -> Result<()> {
        let mut description = self.lock();
        if let Some(step) = description.steps.get_mut(step) {
            step.state = state;
        }
        self.write(&description).map(drop)
    }

    /// Records that the measurement has ended, and writes the report.
    pub(super) fn end(&self) -> Result<Written> {
        let mut description = self.lock();
        description.ended = Some(started());
        self.write(&description)
    }

    /// Records the interruption, writes the report, and calls `last` with the result of writing. `last` must end the
    /// process. The session stays locked while `last` runs, so that no other thread can change the description.
    pub(super) fn interrupt(&self, last: impl FnOnce(Result<Written>)) {
        let mut description = self.lock();
        description.ended = Some(started());
        description.is_interrupted = true;
        last(self.write(&description));
    }

    fn write(&self, description: &Description) -> Result<Written> {
        record::write(&self.dir, description)?;
        report::write(&self.dir)
    }

    fn lock(&self) -> MutexGuard<'_, Description> {
        self.description.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
