//! Writes the statuses of routes and policies, for `kubectl get` and for programs that wait for a condition.
//!
//! ```text
//! Judged -> wanted (pure: what each object's status should be)
//!        -> merge (pure: into the object's current status) -> API server
//! ```
//!
//! Only the leading replica writes, and it writes only statuses that have changed. The status of a route, a
//! TrafficPolicy or an XBackendTrafficPolicy also has entries of other controllers, which must stay. So we read a
//! status before we write it, and repeat a write that conflicts with the write of another client.

mod merge;
mod wanted;

use std::collections::BTreeMap;
use std::convert::Infallible;

use hyper::StatusCode;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::json;
use tokio::sync::watch;

use crate::index::{Kind, Name, Revision};
use crate::issuer::while_leading;
use crate::retry::Retry;
use crate::watch::resource;
pub(crate) use wanted::Judged;
use wanted::{Wanted, wanted};

/// The kind and name of an object whose status we write.
type Place = (Kind, Name);

/// The result of checking one object's status.
enum Written {
    /// The status is as it should be.
    Done,
    /// The object has changed, no longer exists, or was replaced by another object of the same name: wait for the next
    /// results.
    Later,
}

/// The result of a pass over all statuses without failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Every status was checked.
    Complete,
    /// Newer results arrived before every status was checked.
    CutShort,
}

/// Keeps the statuses up to date, for ever; writes only while `leads` is true.
pub(crate) async fn keep_statuses(
    client: Client,
    mut leads: watch::Receiver<bool>,
    mut news: watch::Receiver<Judged>,
) -> Infallible {
    // For each object, the status that we last wrote or found.
    let mut said: BTreeMap<Place, Wanted> = BTreeMap::new();
    let mut retry = Retry::default();
    loop {
        leads.mark_unchanged();
        let saying = async {
            let all = wanted(&news.borrow_and_update());
            say(&client, all, &mut said, &news).await
        };
        match while_leading(leads.clone(), saying).await {
            Some(Ok(Pass::Complete)) => retry = Retry::default(),
            // The statuses that failed earlier may not have been checked, so the series of failures does not end.
            Some(Ok(Pass::CutShort)) => {}
            Some(Err(failed)) => retry.failed(|| failed.log()),
            None => {
                // Forget what we wrote: the next leader may write other statuses.
                said.clear();
                retry = Retry::default();
            }
        }
        tokio::select! {
            Ok(()) = leads.changed() => {}
            Ok(()) = news.changed() => {}
            () = retry.due() => {}
        }
    }
}

/// Statuses that could not be written.
#[derive(Default)]
struct Failed {
    /// Number of statuses that could not be written. Conflicts with the write of another client do not count.
    statuses: usize,
    /// The object whose status was the first that could not be written, and the reason.
    first: Option<(Place, kube::Error)>,
}

impl Failed {
    fn add(&mut self, place: Place, error: kube::Error) {
        if matches!(&error, kube::Error::Api(status) if status.code == StatusCode::CONFLICT) {
            return;
        }
        self.statuses += 1;
        self.first.get_or_insert((place, error));
    }

    /// Logs how many statuses could not be written. Logs nothing, and returns `false`, if all failures were conflicts.
    fn log(&self) -> bool {
        let Some(((kind, name), error)) = &self.first else { return false };
        tracing::warn!(
            statuses = self.statuses,
            "the status of {kind} {name} could not be written: {error}; it is tried again until it succeeds"
        );
        true
    }
}

/// Writes the statuses that differ; stops early when newer results arrive.
async fn say(
    client: &Client,
    all: BTreeMap<Place, Wanted>,
    said: &mut BTreeMap<Place, Wanted>,
    news: &watch::Receiver<Judged>,
) -> Result<Pass, Failed> {
    said.retain(|place, _| all.contains_key(place));
    let mut failed: Option<Failed> = None;
    let mut pass = Pass::Complete;
    for (place, wanted) in all {
        if news.has_changed().unwrap_or(false) {
            pass = Pass::CutShort;
            break;
        }
        if said.get(&place) == Some(&wanted) {
            continue;
        }
        match write(client, &place, &wanted).await {
            Ok(Written::Done) => drop(said.insert(place, wanted)),
            Ok(Written::Later) => {}
            // The API server would reject this status again, so do not retry it: wait until the results for the object
            // change.
            Err(kube::Error::Api(status)) if status.code == StatusCode::UNPROCESSABLE_ENTITY => {
                let ((kind, name), error) = (&place, &status.message);
                tracing::warn!(%kind, %name, %error, "the API server rejects the status; shorten or split the object");
                said.insert(place, wanted);
            }
            Err(error) => failed.get_or_insert_default().add(place, error),
        }
    }
    failed.map_or(Ok(pass), Err)
}

async fn write(client: &Client, (kind, name): &Place, wanted: &Wanted) -> Result<Written, kube::Error> {
    let Some(resource) = resource(*kind) else { return Ok(Written::Done) };
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &name.namespace, &resource);
    let object = match objects.get(&name.name).await {
        Ok(object) => object,
        // The object no longer exists.
        Err(kube::Error::Api(status)) if status.code == StatusCode::NOT_FOUND => return Ok(Written::Later),
        Err(error) => return Err(error),
    };
    let found = Revision {
        uid: object.metadata.uid.as_deref().unwrap_or_default().into(),
        generation: object.metadata.generation.unwrap_or_default(),
    };
    if found != wanted.revision {
        return Ok(Written::Later);
    }
    let Some(status) = merge::status(&object.data, wanted, Timestamp::now()) else {
        return Ok(Written::Done);
    };
    // With the resource version, the write fails if another client has changed or replaced the object since we read it.
    let change = json!({ "metadata": { "resourceVersion": object.metadata.resource_version }, "status": status });
    objects.patch_status(&name.name, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(Written::Done)
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
