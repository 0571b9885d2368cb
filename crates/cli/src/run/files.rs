//! Replaces files atomically while other processes read them.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::error::{Result, io as io_error};

/// Mode of files without secrets.
pub(super) const PUBLIC: u32 = 0o644;
/// Mode of keys.
pub(super) const PRIVATE: u32 = 0o600;

/// Replaces a file: writes a new file and renames it over the old one. The new file belongs to `owner`, or to root if
/// `owner` is `None`.
///
/// # Errors
/// If the system refuses a step.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32, owner: Option<u32>) -> io::Result<()> {
    // Write to a hidden file first: the proxy does not read hidden files.
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    let aside = path.with_file_name(name);
    remove_if_there(&aside)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&aside)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(content)?;
    if owner.is_some() {
        chown(&aside, owner, owner)?;
    }
    fs::rename(&aside, path)
}

/// Creates a world-readable directory, whatever the umask.
///
/// # Errors
/// If the system refuses to create the directory.
pub(super) fn make_directory(path: &Path) -> Result<()> {
    let make = || fs::create_dir_all(path).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)));
    make().map_err(io_error(format!("making the directory {}", path.display())))
}

/// Removes a file. A missing file is not an error.
///
/// # Errors
/// If the system refuses to remove the file.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The files of a directory except hidden files, sorted.
///
/// # Errors
/// If the directory cannot be listed.
pub(super) fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Whether the proxy reads a file as manifests.
pub(super) fn is_manifest(path: &Path) -> bool {
    matches!(path.extension().and_then(|extension| extension.to_str()), Some("yaml" | "yml" | "json"))
}
