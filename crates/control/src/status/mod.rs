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
//!
//! Each namespace has its own passes over its statuses, so that a write that hangs, for example because of an admission
//! webhook, delays no other namespace ([`Writes`]). Within its namespace, such a write ends the pass, and the other
//! statuses come first in the next pass.

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
use tokio::time::Instant;

use crate::index::{Kind, Name, Revision};
use crate::retry::{Writes, is_refusal, is_usual};
use crate::watch::resource;
pub(crate) use wanted::Judged;
use wanted::{Wanted, wanted};

/// The kind and name of an object whose status we write.
type Place = (Kind, Name);

/// The statuses that objects should have.
type Statuses = BTreeMap<Place, Wanted>;

/// Statuses to write, in this order.
type Due = Vec<(Place, Wanted)>;

/// Keeps the statuses up to date, for ever; writes only while `leads` is true.
pub(crate) async fn keep_statuses(
    client: Client,
    mut leads: watch::Receiver<bool>,
    mut news: watch::Receiver<Judged>,
) -> Infallible {
    let mut known = Known::default();
    let mut writes = Writes::default();
    loop {
        if *leads.borrow_and_update() {
            let all = wanted(&news.borrow_and_update());
            for namespace in known.update(all) {
                writes.hasten(&namespace);
            }
            writes.need(known.wanted.keys().cloned().collect());
        } else {
            // Cancel the writes, and forget the failures and what we wrote: the next leader may write other statuses,
            // and when this replica leads again, it must write at once.
            writes = Writes::default();
            known = Known::default();
        }
        while let Some((namespace, pass)) = writes
            .next_until(&mut leads, &mut news, |namespace| {
                let (due, newer) = known.due(namespace)?;
                Some(write_all(client.clone(), due, newer))
            })
            .await
        {
            match &pass.worst {
                Some(((kind, name), error)) => {
                    let others = match pass.failed.len() {
                        0 | 1 => String::new(),
                        2 => " and 1 other status".to_owned(),
                        statuses => format!(" and {} other statuses", statuses - 1),
                    };
                    writes.failed(&namespace, format_args!("the status of {kind} {name}{others}"), error);
                    if pass.is_outdated() {
                        writes.hasten(&namespace);
                    }
                }
                // The statuses that failed earlier may not have been checked, so the series of failures does not end.
                None if pass.is_cut_short => {}
                None => writes.succeeded(&namespace),
            }
            known.record(pass);
        }
    }
}

/// The statuses of all objects, and which of them need a write.
#[derive(Default)]
struct Known {
    /// The statuses that the objects of each namespace should have. Each namespace has its own channel, so that newer
    /// results for one namespace do not cut the passes of other namespaces short.
    wanted: BTreeMap<Box<str>, watch::Sender<Statuses>>,
    /// For each object, the status that needs no further write: the status that we last wrote or found, the status that
    /// the API server rejected, or the status of an object that has changed since.
    settled: Statuses,
    /// The objects whose latest write failed, each with the time of the failure.
    failed: BTreeMap<Place, Instant>,
}

impl Known {
    /// Replaces the statuses that all objects should have. Returns the namespaces whose statuses have changed.
    fn update(&mut self, all: Statuses) -> Vec<Box<str>> {
        self.settled.retain(|place, _| all.contains_key(place));
        self.failed.retain(|place, _| all.contains_key(place));
        let mut by_namespace: BTreeMap<Box<str>, Statuses> = BTreeMap::new();
        for (place, wanted) in all {
            by_namespace.entry(place.1.namespace.clone()).or_default().insert(place, wanted);
        }
        self.wanted.retain(|namespace, _| by_namespace.contains_key(namespace));
        let mut changed = Vec::new();
        for (namespace, statuses) in by_namespace {
            let is_news = self.wanted.entry(namespace.clone()).or_default().send_if_modified(|known| {
                let is_news = *known != statuses;
                *known = statuses;
                is_news
            });
            if is_news {
                changed.push(namespace);
            }
        }
        changed
    }

    /// Returns the statuses of a namespace to write, and a receiver of its newer statuses; `None` if no status needs a
    /// write. Objects whose latest write failed come last, in the order of their failures: a write that hangs ends its
    /// pass, so the objects behind it must come before it in the next pass.
    fn due(&self, namespace: &str) -> Option<(Due, watch::Receiver<Statuses>)> {
        let newer = self.wanted.get(namespace)?.subscribe();
        let mut due: Due = {
            let all = newer.borrow();
            let unsettled = all.iter().filter(|(place, wanted)| self.settled.get(*place) != Some(*wanted));
            unsettled.map(|(place, wanted)| (place.clone(), wanted.clone())).collect()
        };
        due.sort_by_key(|(place, _)| self.failed.get(place).copied());
        (!due.is_empty()).then_some((due, newer))
    }

    fn record(&mut self, pass: Pass) {
        for (place, wanted) in pass.settled {
            self.failed.remove(&place);
            self.settled.insert(place, wanted);
        }
        self.failed.extend(pass.failed);
    }
}

/// The result of a pass over the statuses of one namespace.
struct Pass {
    /// The statuses that need no further write, as in [`Known::settled`].
    settled: Vec<(Place, Wanted)>,
    /// The objects whose statuses could not be written, each with the time of the failure.
    failed: Vec<(Place, Instant)>,
    /// The failure to report, and its object.
    worst: Option<(Place, kube::Error)>,
    /// Whether newer results ended the pass.
    is_cut_short: bool,
    newer: watch::Receiver<Statuses>,
}

impl Pass {
    fn fail(&mut self, place: Place, error: kube::Error) {
        self.failed.push((place.clone(), Instant::now()));
        // An answer that did not arrive is worse than a refusal, and some refusals are usual.
        let weight = |error: &kube::Error| (!is_refusal(error), !is_usual(error));
        if self.worst.as_ref().is_none_or(|(_, worst)| weight(worst) < weight(&error)) {
            self.worst = Some((place, error));
        }
    }

    /// Whether there are newer results for the namespace. If the namespace has no statuses any more, its channel is
    /// closed.
    fn is_outdated(&self) -> bool {
        self.newer.has_changed().unwrap_or(true)
    }
}

/// Writes the statuses of one namespace, one after the other. Stops early when newer results for the namespace arrive.
async fn write_all(client: Client, due: Due, newer: watch::Receiver<Statuses>) -> Pass {
    let mut pass = Pass { settled: Vec::new(), failed: Vec::new(), worst: None, is_cut_short: false, newer };
    for (place, wanted) in due {
        if pass.is_outdated() {
            pass.is_cut_short = true;
            break;
        }
        match write(&client, &place, &wanted).await {
            Ok(()) => pass.settled.push((place, wanted)),
            // The API server would reject this status again, so do not retry it: wait until the results for the object
            // change.
            Err(kube::Error::Api(status)) if status.code == StatusCode::UNPROCESSABLE_ENTITY => {
                let ((kind, name), error) = (&place, &status.message);
                let namespace = &*name.namespace;
                tracing::warn!(
                    namespace, %kind, %name, %error,
                    "the API server rejects the status; shorten or split the object"
                );
                pass.settled.push((place, wanted));
            }
            Err(error) => {
                let is_refusal = is_refusal(&error);
                pass.fail(place, error);
                // Without an answer, the other writes would probably fail too, each after a long time.
                if !is_refusal {
                    break;
                }
            }
        }
    }
    pass
}

/// Writes the status of an object. Writes nothing if the object has the status already. Also writes nothing if the
/// object has changed or was replaced by another object of the same name: newer results follow.
///
/// # Errors
/// Among others, the API server does not find the object. It may not know the object's kind yet, so the write is
/// repeated. If the object no longer exists, newer results end these attempts: they have no status for the object.
async fn write(client: &Client, (kind, name): &Place, wanted: &Wanted) -> Result<(), kube::Error> {
    let Some(resource) = resource(*kind) else { return Ok(()) };
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &name.namespace, &resource);
    let object = objects.get(&name.name).await?;
    let found = Revision {
        uid: object.metadata.uid.as_deref().unwrap_or_default().into(),
        generation: object.metadata.generation.unwrap_or_default(),
    };
    if found != wanted.revision {
        return Ok(());
    }
    let Some(status) = merge::status(&object.data, wanted, Timestamp::now()) else {
        return Ok(());
    };
    // With the resource version, the write fails if another client has changed or replaced the object since we read it.
    let change = json!({ "metadata": { "resourceVersion": object.metadata.resource_version }, "status": status });
    objects.patch_status(&name.name, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
