//! A directory of files that change together, with the layout of the kubelet's own volumes. Each file is a symbolic
//! link through `..data` to the current generation, and one rename replaces the whole generation. A reader never sees
//! half of a file.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The link to the current generation.
const DATA: &str = "..data";
const NEW_DATA: &str = "..data.new";
/// The prefix of the names of generations.
const GENERATION: &str = "..generation-";

/// Every user may read the files: the application's containers run as users that we cannot know, and only these
/// containers mount the volume.
const FILE_MODE: u32 = 0o444;
const DIRECTORY_MODE: u32 = 0o755;

#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Creates the directory if it is missing.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let path = fs::canonicalize(path)?;
        // Find an unwritable volume now, not when the first certificate arrives.
        let probe = path.join(NEW_DATA);
        remove_file(&probe)?;
        symlink(".", &probe)?;
        remove_file(&probe)?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces all files at once.
    ///
    /// # Errors
    /// If the new files cannot be written (the old files then stay in use), a link cannot be created, or the old files
    /// cannot be removed.
    pub(super) fn replace(&self, files: &[(&str, String)]) -> io::Result<()> {
        let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("{GENERATION}{}", age.as_nanos());
        let written = self.write(&name, files);
        if written.is_err() {
            // The partly written files are useless. Ignore an error of their removal, and report the first error.
            let _ = fs::remove_dir_all(self.path.join(&name));
        }
        written?;
        for (file, _) in files {
            self.link(file)?;
        }
        self.remove_others(&name)
    }

    fn write(&self, name: &str, files: &[(&str, String)]) -> io::Result<()> {
        let generation = self.path.join(name);
        DirBuilder::new().mode(DIRECTORY_MODE).create(&generation)?;
        fs::set_permissions(&generation, Permissions::from_mode(DIRECTORY_MODE))?;
        for (file, text) in files {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(generation.join(file))?;
            file.write_all(text.as_bytes())?;
            // Set the final mode here, because the umask may remove bits of the mode that `open` gets.
            file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        }
        remove_file(&self.path.join(NEW_DATA))?;
        symlink(name, self.path.join(NEW_DATA))?;
        fs::rename(self.path.join(NEW_DATA), self.path.join(DATA))
    }

    /// Creates the link by which readers find a file, unless the link exists. The link never changes afterwards.
    fn link(&self, file: &str) -> io::Result<()> {
        let (link, target) = (self.path.join(file), Path::new(DATA).join(file));
        if fs::read_link(&link).is_ok_and(|found| found == target) {
            return Ok(());
        }
        remove_file(&link)?;
        symlink(target, link)
    }

    fn remove_others(&self, current: &str) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(GENERATION) && name != current) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Removes a file that may be missing.
fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
