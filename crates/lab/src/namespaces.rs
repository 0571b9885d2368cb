//! The namespaces that the lab creates in a cluster: which run has created a namespace, and the deletion of namespaces.
//!
//! Several runs may use a cluster, and their namespaces have the same names. So a name alone never identifies a
//! namespace that a run may delete. The namespace's label identifies the run. The deletion then names the UID of the
//! namespace with this label, because another namespace may get the same name in the meantime.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, Preconditions};
use kube::{Client, ResourceExt};
use tokio::time::{Instant, sleep};

use crate::error::{Error, Result};
use crate::kubernetes::refused;

/// The label of a namespace with the id of the run that created it.
const RUN_LABEL: &str = "leno.dev/lab-run";
/// Longest time for the cluster to delete namespaces with all their objects.
const DELETE_TIMEOUT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(200);

/// The id of a run of the lab.
#[derive(Debug, Clone)]
pub(crate) struct RunId(String);

impl RunId {
    /// A new id. It does not depend on the seed of the run, because two runs may have the same seed.
    pub(crate) fn random() -> Self {
        Self(format!("{:016x}", fastrand::u64(..)))
    }

    /// Labels a namespace that this run will create.
    pub(crate) fn mark(&self, mut namespace: Namespace) -> Namespace {
        namespace.labels_mut().insert(RUN_LABEL.to_owned(), self.0.clone());
        namespace
    }

    /// Returns whether this run has created the namespace.
    pub(crate) fn has_made(&self, namespace: &Namespace) -> bool {
        namespace.labels().get(RUN_LABEL) == Some(&self.0)
    }
}

/// Deletes the named namespaces, except those for which `may_delete` returns false, and waits until Kubernetes has
/// removed them. If a deletion fails, requests the remaining deletions too, and then returns without waiting.
///
/// # Errors
/// The first error, if the API server rejects a request or takes too long.
pub(crate) async fn delete_namespaces(
    client: &Client,
    names: &[impl AsRef<str>],
    may_delete: impl Fn(&Namespace) -> bool,
) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let (mut deleted, mut result) = (Vec::new(), Ok(()));
    for name in names.iter().map(AsRef::as_ref) {
        match request_deletion(&namespaces, name, &may_delete).await {
            Ok(uid) => deleted.extend(uid.map(|uid| (name, uid))),
            Err(error) => result = result.and(Err(error)),
        }
    }
    result?;
    let end = Instant::now() + DELETE_TIMEOUT;
    for (name, uid) in deleted {
        while find(&namespaces, name).await?.is_some_and(|found| found.uid().as_ref() == Some(&uid)) {
            if Instant::now() > end {
                let why = format!("it is still there; see kubectl describe namespace {name}");
                return Err(Error::Cluster { what: deleting(name), why });
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}

/// Requests the deletion of a namespace, and returns the UID of the namespace. `None` if there is no such namespace, or
/// if it must not be deleted.
async fn request_deletion(
    namespaces: &Api<Namespace>,
    name: &str,
    may_delete: impl Fn(&Namespace) -> bool,
) -> Result<Option<String>> {
    let Some(uid) = find(namespaces, name).await?.filter(may_delete).and_then(|found| found.uid()) else {
        return Ok(None);
    };
    let this_one = Preconditions { uid: Some(uid.clone()), resource_version: None };
    match namespaces.delete(name, &DeleteParams::default().preconditions(this_one)).await {
        // 404: the namespace is gone already. 409: the name has another UID now, or the deletion has begun before. In
        // each case, the caller only has to wait until no namespace has this UID.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Some(uid)),
        requested => requested.map(|_| Some(uid)).map_err(refused(deleting(name))),
    }
}

async fn find(namespaces: &Api<Namespace>, name: &str) -> Result<Option<Namespace>> {
    namespaces.get_opt(name).await.map_err(refused(deleting(name)))
}

fn deleting(name: &str) -> String {
    format!("deleting the namespace {name}")
}

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod tests;
