//! The source of the mesh: a directory of manifests, or a control plane.

use std::io;
use std::path::Path;

use leno_config::{Configuration, Directory, Watch};

use super::ControlError;
use super::discovery::Discovery;
use super::shared::Shared;

/// The source of the mesh.
pub(super) enum Source {
    /// A directory, which contains the whole mesh.
    Directory(Box<(Watch, Directory)>),
    /// A control plane. The proxy asks it about a subject when a call needs this subject.
    ControlPlane(Box<Discovery>),
}

impl Source {
    /// Reads a directory for the first time.
    ///
    /// # Errors
    /// If the directory does not exist, or cannot be watched.
    pub(super) fn open(path: &Path) -> Result<Self, ControlError> {
        let unreadable = |source| ControlError::Config { path: path.to_owned(), source };
        // Start the watch before reading, so that no change is missed in between.
        let watch = Watch::new(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied => {
                unreadable(source)
            }
            _ => ControlError::Watch { path: path.to_owned(), source },
        })?;
        Ok(Self::Directory(Box::new((watch, Directory::open(path).map_err(unreadable)?))))
    }

    /// The configuration at the start.
    pub(super) fn configuration(&self) -> Configuration {
        match self {
            Self::Directory(watched) => {
                let (_, directory) = &**watched;
                let configuration = directory.configuration();
                configuration.log(None);
                configuration
            }
            Self::ControlPlane(discovery) => Configuration::of_mesh(discovery.mesh()),
        }
    }

    /// Gives workers each new mesh; returns only if a directory cannot be watched any more.
    pub(super) async fn run(self, shared: &Shared) -> io::Error {
        match self {
            Self::ControlPlane(discovery) => match discovery.run(shared).await {},
            Self::Directory(watched) => {
                let (mut watch, mut directory) = *watched;
                loop {
                    match watch.changed().await {
                        Ok(()) => shared.reload(&mut directory),
                        Err(error) => return error,
                    }
                }
            }
        }
    }
}
