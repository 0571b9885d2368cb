//! The connection to a cluster's API server. Each error message is one line that names the remedy.

use std::error::Error as _;
use std::fmt::Debug;
use std::time::Duration;

use clap::Args;
use kube::api::{Api, ListParams};
use kube::config::{InferConfigError, KubeConfigOptions, KubeconfigError};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Client, Config, Resource};
use leno_identity::innermost;
use serde::de::DeserializeOwned;

use super::forbidden::Forbidden;
use super::printable::line;

/// Maximum time for the API server to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Maximum time for which we wait for the next byte from the API server.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The options with which the user selects a cluster.
#[derive(Args, Default)]
pub(crate) struct Connect {
    /// Context of the kubeconfig, which KUBECONFIG names; default: the current context
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// A configured cluster.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// The URL of its API server.
    server: String,
    /// The default namespace of the kubeconfig's context.
    pub(crate) namespace: String,
}

/// The error of a request to the cluster: the reason for the failure, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {fix}")]
pub(crate) struct ClusterError {
    pub(crate) what: String,
    pub(crate) fix: String,
}

impl ClusterError {
    /// Creates an error from the reason and the remedy. Sanitizes both texts, because they may quote a Pod or the API
    /// server.
    pub(crate) fn new(what: impl AsRef<str>, fix: impl AsRef<str>) -> Self {
        Self { what: line(what.as_ref()), fix: line(fix.as_ref()) }
    }
}

impl Connect {
    /// Whether the user chose a cluster.
    pub(crate) fn is_explicit(&self) -> bool {
        self.context.is_some()
    }

    /// Returns the given options, each after a space, to append to a `leno` command that a message suggests.
    pub(crate) fn options(&self) -> String {
        self.context.as_ref().map(|context| format!(" --context {context}")).unwrap_or_default()
    }

    /// Reads the kubeconfig or, within a Pod, the Pod's service account. Sends no request yet.
    pub(crate) async fn cluster(&self) -> Result<Cluster, ClusterError> {
        let mut config = match &self.context {
            Some(context) => {
                let options = KubeConfigOptions { context: Some(context.clone()), ..Default::default() };
                Config::from_kubeconfig(&options).await.map_err(|error| no_config(&error))?
            }
            None => Config::infer().await.map_err(|error| cannot_infer(&error))?,
        };
        config.connect_timeout = Some(CONNECT_MAX);
        config.read_timeout = Some(SILENCE_MAX);
        let (server, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let unusable = |error: kube::Error| {
            ClusterError::new(
                format!("the kubeconfig cannot be used: {}", innermost(&error)),
                "correct it, or name another one",
            )
        };
        Ok(Cluster { client: Client::try_from(config).map_err(unusable)?, server, namespace })
    }
}

impl Cluster {
    /// Returns a client for the objects of a kind in one namespace.
    pub(crate) fn within<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Returns a client for the objects of a kind in one namespace, or in all namespaces if `namespace` is `None`.
    pub(crate) fn within_or_all<K>(&self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        namespace.map_or_else(|| Api::all(self.client.clone()), |namespace| self.within(namespace))
    }

    /// Returns a client for the objects of a cluster-wide kind.
    pub(crate) fn global<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Api::all(self.client.clone())
    }

    /// Reads one object, if it exists.
    pub(crate) async fn get<K>(&self, api: Api<K>, name: &str) -> Result<Option<K>, ClusterError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        api.get_opt(name).await.map_err(|error| self.explain(&error))
    }

    /// Lists every object that the label selector `labels`, for example `a=b,c=d`, matches. Returns an empty list if
    /// the cluster does not know the kind.
    pub(crate) async fn list<K>(&self, api: Api<K>, labels: &str) -> Result<Vec<K>, ClusterError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        list(api, labels).await.map_err(|error| self.explain(&error))
    }

    /// Like [`Self::list`], but returns `None` if the user lacks the right to list the kind.
    pub(crate) async fn list_if_allowed<K>(&self, api: Api<K>, labels: &str) -> Result<Option<Vec<K>>, ClusterError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        self.if_allowed(list(api, labels).await)
    }

    /// Returns the answer to a request that only reads; `None` if the user lacks the right for the request. Admission
    /// does not apply to such a request, so the status 403 suffices.
    pub(crate) fn if_allowed<T>(&self, answer: Result<T, kube::Error>) -> Result<Option<T>, ClusterError> {
        match answer {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
            answer => answer.map(Some).map_err(|error| self.explain(&error)),
        }
    }

    /// Explains why a request to this cluster failed.
    pub(crate) fn explain(&self, error: &kube::Error) -> ClusterError {
        explain(&self.server, error)
    }
}

async fn list<K>(api: Api<K>, labels: &str) -> Result<Vec<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    match api.list(&ListParams::default().labels(labels)).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn explain(server: &str, error: &kube::Error) -> ClusterError {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => ClusterError::new(
                format!("the API server at {server} does not know who you are"),
                "log in again, or renew the kubeconfig's credentials",
            ),
            403 => Forbidden::of(&status.message).explain(&status.message),
            code => ClusterError::new(
                format!("the API server answered {code}: {}", status.message),
                "run the command again; kubectl get --raw /readyz?verbose shows the state of the API server",
            ),
        },
        kube::Error::Service(_) | kube::Error::HyperError(_) => ClusterError::new(
            format!("the API server at {server} cannot be reached: {}", innermost(error)),
            "check that the cluster runs and that --context and KUBECONFIG select it",
        ),
        kube::Error::Auth(_) => ClusterError::new(
            format!("the login that the kubeconfig describes failed: {}", innermost(error)),
            "kubectl get --raw /livez uses the same login",
        ),
        _ => ClusterError::new(
            format!("{server} sent an unexpected answer: {}", innermost(error)),
            "check that it is a Kubernetes API server of version 1.30 or newer",
        ),
    }
}

fn no_config(error: &KubeconfigError) -> ClusterError {
    let set = "set KUBECONFIG to the file of a cluster";
    match error {
        KubeconfigError::ReadConfig(source, path) => {
            ClusterError::new(format!("the kubeconfig {} cannot be read: {source}", path.display()), set)
        }
        KubeconfigError::FindPath => ClusterError::new("there is no kubeconfig", set),
        KubeconfigError::CurrentContextNotSet => ClusterError::new(
            "the kubeconfig has no current context",
            "choose one with --context; kubectl config get-contexts lists them",
        ),
        KubeconfigError::LoadContext(name) => ClusterError::new(
            format!("the kubeconfig has no context {name}"),
            "kubectl config get-contexts lists its contexts",
        ),
        other => {
            ClusterError::new(format!("the kubeconfig cannot be used: {}", other), "correct it, or name another one")
        }
    }
}

/// Explains why no cluster was found. `error` contains two failures: no usable kubeconfig, and no service account of a
/// Pod. Reports only the first, because it is the one that the user can correct.
fn cannot_infer(error: &InferConfigError) -> ClusterError {
    match error.source().and_then(|source| source.downcast_ref()) {
        Some(kubeconfig) => no_config(kubeconfig),
        None => ClusterError::new(error.to_string(), "set KUBECONFIG to the file of a cluster"),
    }
}

#[cfg(test)]
#[path = "connect_tests.rs"]
pub(super) mod tests;
