//! The process: what is started, in which order, and what ends it.

use std::io;
use std::path::PathBuf;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::options::Options;
use crate::source::DirectorySource;

/// Why the control plane ended other than well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("--config {}: {source}; name a directory of Kubernetes manifests", path.display())]
    Config { path: PathBuf, source: io::Error },
    #[error("the control plane could not start: {0}")]
    Start(#[from] io::Error),
}

/// Runs the control plane until a signal ends it.
pub(crate) fn run(options: &Options) -> Result<(), RunError> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(start(options))
}

async fn start(options: &Options) -> Result<(), RunError> {
    let unreadable = |source| RunError::Config { path: options.config.clone(), source };
    let directory = DirectorySource::open(&options.config).map_err(unreadable)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        error = directory.run() => Err(unreadable(error)),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
