//! The mesh of a directory of manifests, for use without Kubernetes.

use std::io;
use std::path::Path;
use std::sync::Arc;

use leno_config::{Configuration, Directory, Watch};
use leno_model::mesh::Mesh;
use tokio::sync::watch;

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
    /// If the directory does not exist or cannot be watched.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // Start the watch before reading, so that no change is missed in between.
        let watch = Watch::new(path)?;
        let directory = Directory::open(path)?;
        let configuration = directory.configuration();
        configuration.log(None);
        let mesh = watch::Sender::new(configuration.mesh.clone());
        Ok(Self { watch, directory, configuration, mesh })
    }

    /// Returns a receiver of the current mesh, and of each mesh that replaces it.
    pub(crate) fn mesh(&self) -> watch::Receiver<Arc<Mesh>> {
        self.mesh.subscribe()
    }

    /// Applies every change; returns only when the directory can no longer be watched.
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
