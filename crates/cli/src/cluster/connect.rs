//! The way to a cluster's API server, and why there is none, in one line that says what to do.

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

use super::plain::line;

/// How long the API server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long it may say nothing.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Which cluster.
#[derive(Args, Default)]
pub(crate) struct Connect {
    /// The context of the kubeconfig, which KUBECONFIG names; without it, the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// A cluster that can be asked.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Where its API server is.
    server: String,
    /// The namespace that the kubeconfig says.
    pub(crate) namespace: String,
}

/// Why the cluster did not answer, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {fix}")]
pub(crate) struct ClusterError {
    pub(crate) what: String,
    pub(crate) fix: String,
}

impl ClusterError {
    /// Both may quote what a Pod or the API server said.
    pub(crate) fn new(what: impl AsRef<str>, fix: impl AsRef<str>) -> Self {
        Self { what: line(what.as_ref()), fix: line(fix.as_ref()) }
    }
}

impl Connect {
    /// Reads the kubeconfig, or within a Pod its service account; nobody is asked yet.
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
                "mend it, or name another",
            )
        };
        Ok(Cluster { client: Client::try_from(config).map_err(unusable)?, server, namespace })
    }
}

impl Cluster {
    /// The objects of a kind in one namespace.
    pub(crate) fn within<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The objects of a kind in one namespace, or without one in all of them.
    pub(crate) fn within_or_all<K>(&self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        namespace.map_or_else(|| Api::all(self.client.clone()), |namespace| self.within(namespace))
    }

    /// The objects of a kind that are in no namespace.
    pub(crate) fn global<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Api::all(self.client.clone())
    }

    /// One object, if it is there.
    pub(crate) async fn get<K>(&self, api: Api<K>, name: &str) -> Result<Option<K>, ClusterError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        api.get_opt(name).await.map_err(|error| self.explain(&error))
    }

    /// Every object that has these labels, as `a=b,c=d`; none if there is no such kind.
    pub(crate) async fn list<K>(&self, api: Api<K>, labels: &str) -> Result<Vec<K>, ClusterError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        match api.list(&ListParams::default().labels(labels)).await {
            Ok(list) => Ok(list.items),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// Why a question to this cluster was not answered.
    pub(crate) fn explain(&self, error: &kube::Error) -> ClusterError {
        explain(&self.server, error)
    }
}

fn explain(server: &str, error: &kube::Error) -> ClusterError {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => ClusterError::new(
                format!("the API server at {server} does not know who you are"),
                "log in again, or renew the kubeconfig's credentials",
            ),
            403 => ClusterError::new(
                format!("you may not do this: {}", status.message),
                "ask an administrator of the cluster for that right, or choose another --context",
            ),
            _ => ClusterError::new(
                format!("the API server refused: {}", status.message),
                "kubectl get --raw /readyz?verbose says how it is",
            ),
        },
        kube::Error::Service(_) | kube::Error::HyperError(_) => ClusterError::new(
            format!("the API server at {server} cannot be reached: {}", innermost(error)),
            "see whether the cluster runs and whether --context and KUBECONFIG mean it",
        ),
        kube::Error::Auth(_) => ClusterError::new(
            format!("the kubeconfig's way to log in failed: {}", innermost(error)),
            "kubectl get --raw /livez tries the same",
        ),
        _ => ClusterError::new(
            format!("the answer of {server} is not what was asked for: {}", innermost(error)),
            "see whether it is a Kubernetes API server of version 1.30 or newer",
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
            "kubectl config get-contexts lists those that it has",
        ),
        other => ClusterError::new(format!("the kubeconfig cannot be used: {}", other), "mend it, or name another"),
    }
}

/// Of the two reasons, that there is no kubeconfig and that this is no Pod, people can mend the first.
fn cannot_infer(error: &InferConfigError) -> ClusterError {
    match error.source().and_then(|source| source.downcast_ref()) {
        Some(kubeconfig) => no_config(kubeconfig),
        None => ClusterError::new(error.to_string(), "set KUBECONFIG to the file of a cluster"),
    }
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
