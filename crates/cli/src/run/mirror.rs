//! Copies of a directory's files that follow it: the proxy's user may not read what the caller keeps to itself.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::files;

/// A directory, and where its files are copied to.
#[derive(Debug)]
pub(super) struct Mirror {
    /// Where they come from.
    pub(super) from: PathBuf,
    /// Where they go.
    pub(super) to: PathBuf,
    /// What their names begin with there; no other file of `to` does.
    pub(super) prefix: String,
    /// Which of them.
    pub(super) takes: fn(&Path) -> bool,
    /// Who may read the copies.
    pub(super) mode: u32,
    /// Whose they are, unless root's.
    pub(super) owner: Option<u32>,
}

impl Mirror {
    /// Copies what is new, and removes copies of what is gone.
    ///
    /// # Errors
    /// When something cannot be read or written; what came before it is done.
    pub(super) fn refresh(&self) -> io::Result<()> {
        let mut kept = Vec::new();
        for source in files::list(&self.from)?.into_iter().filter(|path| (self.takes)(path)) {
            let copy = self.to.join(self.copy_name(&source));
            let content = fs::read(&source)?;
            if fs::read(&copy).ok().as_ref() != Some(&content) {
                files::replace(&copy, &content, self.mode, self.owner)?;
            }
            kept.push(copy);
        }
        remove(&self.to, &self.prefix, |copy| !kept.iter().any(|path| path == copy))
    }

    fn copy_name(&self, source: &Path) -> OsString {
        let mut name = OsString::from(&self.prefix);
        name.push(source.file_name().unwrap_or_default());
        name
    }
}

/// Removes the files of `directory` whose names begin with `prefix`, if `is_due` says so.
///
/// # Errors
/// When one cannot be removed.
pub(super) fn remove(directory: &Path, prefix: &str, is_due: impl Fn(&Path) -> bool) -> io::Result<()> {
    let has_prefix =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
    let due = files::list(directory)?.into_iter().filter(|path| has_prefix(path) && is_due(path));
    due.into_iter().try_for_each(|path| files::remove_if_there(&path))
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
