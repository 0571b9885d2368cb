//! Writes the trust bundle to a file, for the proxy in this replica's own Pod.
//!
//! Other Pods mount the ConfigMap with the bundle, so Kubernetes starts them only once it exists. The Pod of the
//! control plane cannot wait for the ConfigMap, because the control plane itself writes it.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::signing::Signing;

/// Delay after a failed write.
const RETRY: Duration = Duration::from_secs(2);

/// Writes the trust bundle to `path` now and after every change; does nothing if `path` is `None`. Never returns.
pub(crate) async fn keep_bundle_file(path: Option<&Path>, mut signing: watch::Receiver<Arc<Signing>>) -> Infallible {
    let Some(path) = path else { return pending().await };
    loop {
        let anchors = signing.borrow_and_update().anchors_pem.clone();
        match write(path, &anchors) {
            Ok(()) => match signing.changed().await {
                Ok(()) => {}
                Err(_) => pending().await,
            },
            Err(error) => {
                tracing::warn!("--trust-bundle {}: {error}; the proxy in this Pod waits for it", path.display());
                sleep(RETRY).await;
            }
        }
    }
}

/// Writes a new file and renames it, so that no reader sees an incomplete file.
fn write(path: &Path, anchors: &str) -> io::Result<()> {
    let aside = path.with_extension("new");
    std::fs::write(&aside, anchors)?;
    std::fs::rename(&aside, path)
}

#[cfg(test)]
#[path = "bundle_file_tests.rs"]
mod tests;
