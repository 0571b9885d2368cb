//! Where the mesh comes from: a directory of manifests, or a control plane.

use std::io;
use std::path::Path;

use leno_config::{Configuration, Directory, Watch};

use super::ControlError;
use super::discovery::Discovery;
use super::shared::Shared;

/// Where the mesh comes from.
pub(super) enum Source {
    /// A directory, which has everything.
    Directory(Watch, Directory),
    /// A control plane, which is asked. Boxed, since it is far larger.
    ControlPlane(Box<Discovery>),
}

impl Source {
    /// Reads a directory for the first time.
    ///
    /// # Errors
    /// When there is no such directory, or it cannot be watched.
    pub(super) fn open(path: &Path) -> Result<Self, ControlError> {
        let unreadable = |source| ControlError::Config { path: path.to_owned(), source };
        // Watched before it is read, so that no change falls in between.
        let watch = Watch::new(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied => {
                unreadable(source)
            }
            _ => ControlError::Watch { path: path.to_owned(), source },
        })?;
        Ok(Self::Directory(watch, Directory::open(path).map_err(unreadable)?))
    }

    /// What is known at the start.
    pub(super) fn configuration(&self) -> Configuration {
        match self {
            Self::Directory(_, directory) => {
                let configuration = directory.configuration();
                configuration.log(None);
                configuration
            }
            Self::ControlPlane(discovery) => Configuration::of_mesh(discovery.mesh()),
        }
    }

    /// Gives workers each mesh that replaces theirs; ends only when a directory cannot be watched any more.
    pub(super) async fn run(self, shared: &Shared) -> io::Error {
        match self {
            Self::ControlPlane(discovery) => match discovery.run(shared).await {},
            Self::Directory(mut watch, mut directory) => loop {
                match watch.changed().await {
                    Ok(()) => shared.reload(&mut directory),
                    Err(error) => return error,
                }
            },
        }
    }
}
