//! Tells in the objects themselves what became of them: the statuses of routes and policies, for `kubectl get` and for
//! whoever waits for a condition.
//!
//! ```text
//! Judged -> wanted (pure: what each object's status is to say) -> merge (pure: into the status that is there) -> API server
//! ```
//!
//! The replica that leads writes, and writes only what is news. Of a route's status the entries of other controllers are not
//! ours, so a status is read before it is written, and a write that somebody else was faster than is made again.

mod merge;
mod wanted;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::index::{Kind, Name};
use crate::watch::resource;
pub(crate) use wanted::Judged;
use wanted::{Wanted, wanted};

/// How long to wait after a status could not be written.
const RETRY: Duration = Duration::from_secs(1);
/// HTTP's status for what is not there.
const NOT_FOUND: u16 = 404;

/// An object that has a status of ours.
type Place = (Kind, Name);

/// What came of looking at one object's status.
enum Written {
    /// It says what it should.
    Done,
    /// The object is another one now, or gone: what is known of it will change.
    Later,
}

/// Keeps the statuses true, for ever, while `leads` says that this is ours to do.
pub(crate) async fn keep_statuses(
    client: Client,
    mut leads: watch::Receiver<bool>,
    mut news: watch::Receiver<Judged>,
) -> Infallible {
    // What each status says, as far as we have written it or found it so.
    let mut said: BTreeMap<Place, Wanted> = BTreeMap::new();
    loop {
        let is_failing = if *leads.borrow_and_update() {
            let all = wanted(&news.borrow_and_update());
            say(&client, all, &mut said, &news).await.is_err()
        } else {
            // Who leads meanwhile may write something else.
            said.clear();
            false
        };
        tokio::select! {
            Ok(()) = leads.changed() => {}
            Ok(()) = news.changed() => {}
            () = sleep(RETRY), if is_failing => {}
        }
    }
}

/// A status could not be written; the log says which.
struct Failed;

/// Writes what is not said yet; stops early when more is known.
async fn say(
    client: &Client,
    all: BTreeMap<Place, Wanted>,
    said: &mut BTreeMap<Place, Wanted>,
    news: &watch::Receiver<Judged>,
) -> Result<(), Failed> {
    said.retain(|place, _| all.contains_key(place));
    let mut outcome = Ok(());
    for (place, wanted) in all {
        if news.has_changed().unwrap_or(false) {
            break;
        }
        if said.get(&place) == Some(&wanted) {
            continue;
        }
        match write(client, &place, &wanted).await {
            Ok(Written::Done) => drop(said.insert(place, wanted)),
            Ok(Written::Later) => {}
            Err(error) => {
                let (kind, name) = &place;
                tracing::debug!(%kind, %name, %error, "the status could not be written");
                outcome = Err(Failed);
            }
        }
    }
    outcome
}

async fn write(client: &Client, (kind, name): &Place, wanted: &Wanted) -> Result<Written, kube::Error> {
    let Some(resource) = resource(*kind) else { return Ok(Written::Done) };
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &name.namespace, &resource);
    let object = match objects.get(&name.name).await {
        Ok(object) => object,
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => return Ok(Written::Later),
        Err(error) => return Err(error),
    };
    if object.metadata.generation != Some(wanted.generation) {
        return Ok(Written::Later);
    }
    let Some(status) = merge::status(&object.data, wanted, Timestamp::now()) else {
        return Ok(Written::Done);
    };
    // With the version that was read, so that nobody's entry is lost.
    let change = json!({ "metadata": { "resourceVersion": object.metadata.resource_version }, "status": status });
    objects.patch_status(&name.name, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(Written::Done)
}
