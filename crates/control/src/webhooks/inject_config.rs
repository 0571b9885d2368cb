//! The injector's options for all proxies: a file that is read again when it changes. In a cluster, the file is an
//! annotation of our own Pod. So the options of a replica change only with its Pod: while an upgrade is stuck, the
//! replicas of the old version keep injecting the old proxy.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leno_install::inject::{BadOptions, BadSetting, Options};
use leno_model::problem::quoted;
use tokio::sync::watch;
use tokio::time::sleep;

/// Interval between checks whether the file has changed.
const CHECK: Duration = Duration::from_secs(2);

/// The reason why no options could be read from the file. The error's message names the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadConfig {
    #[error("{0}; mount the Pod's annotation control.leno.dev/inject.yaml there, as leno install does")]
    Unreadable(#[from] io::Error),
    #[error("{0}; compare it with the ConfigMap leno-config that leno install makes")]
    NotOptions(BadOptions),
    #[error(
        "{0}; set it with leno upgrade --set, or with helm upgrade leno charts/leno --namespace leno --reset-then-reuse-values --set"
    )]
    Setting(BadSetting),
}

impl From<BadOptions> for BadConfig {
    fn from(bad: BadOptions) -> Self {
        match bad {
            BadOptions::Setting(setting) => Self::Setting(setting),
            other => Self::NotOptions(other),
        }
    }
}

/// The file, and its last valid content.
pub(super) struct InjectConfig {
    path: PathBuf,
    /// The result of the last read: the text, or the error. If the next read has the same result, we neither parse nor
    /// log it.
    seen: Result<String, String>,
    options: watch::Sender<Arc<Options>>,
}

impl InjectConfig {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// [`BadConfig`] if it cannot be read or has an invalid value: there are no default options.
    pub(super) fn open(path: &Path) -> Result<Self, BadConfig> {
        let text = fs::read_to_string(path)?;
        let options = parse(path, &text)?;
        Ok(Self { path: path.to_owned(), seen: Ok(text), options: watch::Sender::new(Arc::new(options)) })
    }

    /// Returns a receiver of the current options, and of each change of them.
    pub(super) fn options(&self) -> watch::Receiver<Arc<Options>> {
        self.options.subscribe()
    }

    /// Watches the file, for ever.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            sleep(CHECK).await;
            self.check();
        }
    }

    fn check(&mut self) {
        // A blocking read is fine: the file has a few hundred bytes, in the page cache.
        let read = fs::read_to_string(&self.path).map_err(|error| error.to_string());
        if read == self.seen {
            return;
        }
        let parsed = match &read {
            Ok(text) => parse(&self.path, text).map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        match parsed {
            Ok(options) => {
                tracing::info!("{}: it has changed; new proxies get its options", self.path.display());
                self.options.send_replace(Arc::new(options));
            }
            Err(error) => tracing::warn!("{}: {error}; its last valid content stays in force", self.path.display()),
        }
        self.seen = read;
    }
}

/// Reads the options, and warns of unknown fields. Unknown fields are no error: the chart may be newer than this program,
/// if its value image.version names our version, and we must still be able to start.
fn parse(path: &Path, text: &str) -> Result<Options, BadConfig> {
    let (options, unknown) = Options::read_known(text)?;
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|name| quoted(name)).collect();
        tracing::warn!(
            "{}: this version does not know the fields {}, and ignores them; correct them, unless a newer version has \
             written them",
            path.display(),
            names.join(", ")
        );
    }
    Ok(options)
}

#[cfg(test)]
#[path = "inject_config_tests.rs"]
mod tests;
