//! The connection to a Kubernetes cluster. Each failure is one line that names the action and its reason.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use leno_identity::innermost;

use crate::error::{Error, Result};

/// Longest time without a byte from the API server.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Longest time for the API server to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Reads a kubeconfig: the file `kubeconfig`, or the file that KUBECONFIG names, or `~/.kube/config`. Selects the
/// context of this name, or the current context. Sends no request yet.
///
/// # Errors
/// If the file cannot be used, or has no such context.
pub(crate) async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client> {
    let unusable = |why: String| match kubeconfig {
        Some(path) => Error::Usage(format!("--kubeconfig {}: {why}", path.display())),
        None => {
            Error::Usage(format!("the kubeconfig cannot be used: {why}; name a cluster with --kubeconfig or --context"))
        }
    };
    let read = kubeconfig.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let read = read.map_err(|error| unusable(error.to_string()))?;
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(read, &options).await;
    let mut config = config.map_err(|error| unusable(error.to_string()))?;
    config.connect_timeout = Some(CONNECT_MAX);
    config.read_timeout = Some(SILENCE_MAX);
    Client::try_from(config).map_err(|error| unusable(error.to_string()))
}

/// Turns an error of the API server into ours; `what` is the rejected action.
pub(crate) fn refused(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
    move |error| Error::Cluster { what: what.into(), why: innermost(&error) }
}
