//! Where the mesh comes from when there is no Kubernetes: a directory of manifests.

use std::io;
use std::path::Path;
use std::sync::Arc;

use leno_config::{Configuration, Directory, Watch};
use leno_model::mesh::Mesh;
use tokio::sync::watch;

/// A directory that is read and watched.
pub(crate) struct DirectorySource {
    watch: Watch,
    directory: Directory,
    configuration: Configuration,
    mesh: watch::Sender<Arc<Mesh>>,
}

impl DirectorySource {
    /// Reads a directory for the first time. Needs a tokio runtime.
    ///
    /// # Errors
    /// When there is no such directory, or it cannot be watched.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // Watched before it is read, so that no change falls in between.
        let watch = Watch::new(path)?;
        let directory = Directory::open(path)?;
        let configuration = directory.configuration();
        configuration.log(None);
        let mesh = watch::Sender::new(configuration.mesh.clone());
        Ok(Self { watch, directory, configuration, mesh })
    }

    /// The mesh now, and each that replaces it.
    pub(crate) fn mesh(&self) -> watch::Receiver<Arc<Mesh>> {
        self.mesh.subscribe()
    }

    /// Takes in each change; ends only when the directory cannot be watched any more.
    pub(crate) async fn run(mut self) -> io::Error {
        loop {
            if let Err(error) = self.watch.changed().await {
                return error;
            }
            if self.directory.refresh() {
                let configuration = self.directory.configuration();
                configuration.log(Some(&self.configuration));
                self.mesh.send_replace(configuration.mesh.clone());
                self.configuration = configuration;
            }
        }
    }
}
