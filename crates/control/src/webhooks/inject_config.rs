//! What all proxies are set up with: a file, which is read again when it changes. In a cluster it is the ConfigMap
//! `leno-config`, mounted: the kubelet puts another in its place while we run.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leno_install::inject::Options;
use leno_install::yaml::{self, Fault};
use tokio::sync::watch;
use tokio::time::sleep;

/// How often to look whether the file says something else.
const CHECK: Duration = Duration::from_secs(2);

/// Why the file does not say what proxies are set up with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadConfig {
    #[error("{0}; mount the ConfigMap leno-config there, which leno install makes")]
    Unreadable(#[from] io::Error),
    #[error("{0}; compare it with the ConfigMap leno-config that leno install makes")]
    NotYaml(#[from] Fault),
    #[error("{0}; compare it with the ConfigMap leno-config that leno install makes")]
    NotOptions(#[from] serde_json::Error),
}

/// The file, and what it last said that was right.
pub(super) struct InjectConfig {
    path: PathBuf,
    /// What was read last, or why nothing could be, so that a mistake is told once.
    seen: Result<String, String>,
    options: watch::Sender<Arc<Options>>,
}

impl InjectConfig {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// [`BadConfig`], since nobody knows what else to set proxies up with.
    pub(super) fn open(path: &Path) -> Result<Self, BadConfig> {
        let text = fs::read_to_string(path)?;
        let options = parse(&text)?;
        Ok(Self { path: path.to_owned(), seen: Ok(text), options: watch::Sender::new(Arc::new(options)) })
    }

    /// What it says now, and whenever it says something else.
    pub(super) fn options(&self) -> watch::Receiver<Arc<Options>> {
        self.options.subscribe()
    }

    /// Follows the file, for ever.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            sleep(CHECK).await;
            self.check();
        }
    }

    fn check(&mut self) {
        // A file of a few hundred bytes, which is in memory: nobody waits for that.
        let read = fs::read_to_string(&self.path).map_err(|error| error.to_string());
        if read == self.seen {
            return;
        }
        let parsed = match &read {
            Ok(text) => parse(text).map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        match parsed {
            Ok(options) => {
                tracing::info!("{}: proxies are set up by what it says now", self.path.display());
                self.options.send_replace(Arc::new(options));
            }
            Err(error) => tracing::warn!("{}: {error}; until then what it said before holds", self.path.display()),
        }
        self.seen = read;
    }
}

fn parse(text: &str) -> Result<Options, BadConfig> {
    Ok(serde_json::from_value(yaml::read(text)?)?)
}

#[cfg(test)]
#[path = "inject_config_tests.rs"]
mod tests;
