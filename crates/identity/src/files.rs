//! Files that are whole or not there, and secret where they must be.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Who may read a private key: its owner.
pub(crate) const PRIVATE: u32 = 0o600;
/// Who may read a certificate: everybody.
pub(crate) const PUBLIC: u32 = 0o644;

/// Writes a file through a temporary one beside it, so that a reader sees the old text or the new.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    // One that an interrupted write left behind may have another mode.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}
