//! The connection to a Kubernetes cluster, and the deletion of the namespaces that the lab has created in it. Each
//! failure is one line that names the action and its reason.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use leno_identity::innermost;
use tokio::time::{Instant, sleep};

use crate::error::{Error, Result};

/// Longest time without a byte from the API server.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Longest time for the API server to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Longest time for the cluster to delete namespaces with all their objects.
const DELETE_TIMEOUT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(200);

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

/// Deletes these namespaces, and waits until they are gone. If a deletion fails, requests the remaining deletions too,
/// and then returns without waiting.
///
/// # Errors
/// The first error, if the API server rejects a request or takes too long.
pub(crate) async fn delete_namespaces(client: &Client, names: &[impl AsRef<str>]) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut result = Ok(());
    for name in names.iter().map(AsRef::as_ref) {
        match namespaces.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => {
                result = result.and(deleted.map(drop).map_err(refused(format!("deleting the namespace {name}"))));
            }
        }
    }
    result?;
    let end = Instant::now() + DELETE_TIMEOUT;
    for name in names.iter().map(AsRef::as_ref) {
        let what = format!("deleting the namespace {name}");
        while namespaces.get_opt(name).await.map_err(refused(what.clone()))?.is_some() {
            if Instant::now() > end {
                let why = format!("it is still there; see kubectl describe namespace {name}");
                return Err(Error::Cluster { what, why });
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}
