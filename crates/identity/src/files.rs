//! Writes files atomically. Only the owner of a private key can read it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The mode of a private key: only its owner may read it.
pub(crate) const PRIVATE: u32 = 0o600;
/// The mode of a certificate: every user may read it.
pub(crate) const PUBLIC: u32 = 0o644;

/// Replaces a file: writes a temporary file beside it, and renames the temporary file to the file's name. So a reader
/// sees either the old text or the new text.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    // Remove a temporary file that an interrupted write left: it may have another mode.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}
