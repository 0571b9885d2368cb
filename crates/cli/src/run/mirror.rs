//! Copies a directory's files and keeps the copies up to date. The proxy reads the copies, because its user may lack
//! the right to read the originals.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::files;

#[derive(Debug)]
pub(super) struct Mirror {
    /// Source directory.
    pub(super) from: PathBuf,
    /// Destination directory.
    pub(super) to: PathBuf,
    /// Prefix of the names of the copies. No other file in `to` may have it, because outdated files with it are
    /// removed.
    pub(super) prefix: String,
    /// Selects the files to copy.
    pub(super) takes: fn(&Path) -> bool,
    /// Mode of the copies.
    pub(super) mode: u32,
    /// Owner of the copies; root if `None`.
    pub(super) owner: Option<u32>,
}

impl Mirror {
    /// Copies new and changed files, and removes the copies of removed files.
    ///
    /// # Errors
    /// If a file cannot be read or written. The copies that were made before the error remain.
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

/// Removes the files of `directory` that have the prefix and for which `is_due` returns true.
///
/// # Errors
/// If a file cannot be removed.
pub(super) fn remove(directory: &Path, prefix: &str, is_due: impl Fn(&Path) -> bool) -> io::Result<()> {
    let has_prefix =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
    let due = files::list(directory)?.into_iter().filter(|path| has_prefix(path) && is_due(path));
    due.into_iter().try_for_each(|path| files::remove_if_there(&path))
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
