//! Reports Pods that run without a proxy or the gRPC sidecar, although the Pod or its namespace asks for it. Writes an
//! Event for each Pod, and a log line for each namespace.
//!
//! The chart's guard rejects such Pods at their creation. The Pods reported here are older than the namespace's
//! annotation or than Leno, have another mesh's proxy, or were created without the guard. Only the leading replica
//! reports.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;

use hyper::StatusCode;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use leno_install::annotations::INJECT;
use leno_install::names::CONTROL;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::index::{Lacking, Unmeshed};
use crate::retry::{Writes, is_refusal};

/// Limit on Pods per namespace that get an Event. All these Events name the same remedy, and the metric has the number
/// of all Pods.
const EVENTS_PER_NAMESPACE_MAX: usize = 20;
/// Maximum length of the part of a Pod's name that goes into its Event's name, in bytes. The Event's name may have 253
/// bytes.
const NAME_MAX_BYTES: usize = 200;

/// Pods by namespace.
type ByNamespace = BTreeMap<Box<str>, Vec<Unmeshed>>;

/// Identifies an Event: the UID of its Pod, and what the Pod lacks.
type Key = (Box<str>, Lacking);

/// Reports each Pod once. Runs for ever; writes only while `leads` is true.
pub(crate) async fn report_unmeshed(
    client: Client,
    mut leads: watch::Receiver<bool>,
    mut unmeshed: watch::Receiver<ByNamespace>,
) -> Infallible {
    let mut reported = Reported::default();
    // The Pods that needed an Event when `unmeshed` last changed.
    let mut due = ByNamespace::new();
    let mut writes = Writes::default();
    loop {
        if *leads.borrow_and_update() {
            let all = unmeshed.borrow_and_update().clone();
            for (namespace, count) in reported.rises(&all) {
                tracing::warn!(
                    %namespace,
                    "Pods of namespace {namespace} that run without the proxy or gRPC sidecar that {INJECT} asks for: {count}; leno \
                     check --proxy names them"
                );
            }
            due = reported.due(&all);
            writes.need(due.keys().cloned().collect());
        } else {
            // Cancel the writes, and forget the failures: when this replica leads again, it must write at once.
            writes = Writes::default();
        }
        while let Some((namespace, written)) = writes
            .next_until(&mut leads, &mut unmeshed, |namespace| {
                let pods = reported.without_event(due.get(namespace)?);
                (!pods.is_empty()).then(|| report(client.clone(), namespace.into(), pods))
            })
            .await
        {
            match &written.worst {
                None => writes.succeeded(&namespace),
                Some((pod, error)) => writes.failed(&namespace, format_args!("the Event of Pod {pod}"), error),
            }
            reported.record(written);
        }
    }
}

/// The reports so far. Pods that no longer exist are removed from them.
#[derive(Debug, Default)]
struct Reported {
    /// The Events that exist.
    events: BTreeSet<Key>,
    /// The Events whose latest write failed, each with the time of the failure.
    failed: BTreeMap<Key, Instant>,
    /// Number of Pods without a proxy at the last report, by namespace.
    counts: BTreeMap<Box<str>, usize>,
}

impl Reported {
    /// Returns the Pods that still need an Event. Forgets Pods that no longer exist.
    fn due(&mut self, all: &ByNamespace) -> ByNamespace {
        let present: HashSet<&str> = all.values().flat_map(|pods| shown(pods)).map(|pod| &*pod.uid).collect();
        self.events.retain(|(uid, _)| present.contains(&**uid));
        self.failed.retain(|(uid, _), _| present.contains(&**uid));
        let due = all.iter().map(|(namespace, pods)| (namespace.clone(), self.without_event(shown(pods))));
        due.filter(|(_, pods)| !pods.is_empty()).collect()
    }

    /// Returns the Pods of `pods` that still need an Event. Pods whose latest write failed come last, in the order of
    /// their failures: a write that hangs ends its pass, so the Pods behind it must come before it in the next pass.
    fn without_event<'a>(&self, pods: impl IntoIterator<Item = &'a Unmeshed>) -> Vec<Unmeshed> {
        let without = pods.into_iter().filter(|pod| !self.events.contains(&pod.key()));
        let mut without: Vec<Unmeshed> = without.cloned().collect();
        without.sort_by_key(|pod| self.failed.get(&pod.key()).copied());
        without
    }

    fn record(&mut self, written: Written) {
        for event in written.events {
            self.failed.remove(&event);
            self.events.insert(event);
        }
        self.failed.extend(written.failed);
    }

    /// Counts the Pods without a proxy in each namespace. Returns the namespaces whose count has risen since the last
    /// call, each with its count.
    fn rises(&mut self, all: &ByNamespace) -> Vec<(Box<str>, usize)> {
        let counts: BTreeMap<Box<str>, usize> =
            all.iter().map(|(namespace, pods)| (namespace.clone(), pods.len())).collect();
        let before = std::mem::replace(&mut self.counts, counts);
        // A namespace that asks for proxies is in `all` even if no Pod lacks one.
        let has_risen = |namespace: &str, count: usize| count > before.get(namespace).copied().unwrap_or(0);
        let rises = self.counts.iter().filter(|(namespace, count)| has_risen(namespace, **count));
        rises.map(|(namespace, count)| (namespace.clone(), *count)).collect()
    }
}

/// The Pods of a namespace that get an Event.
fn shown(pods: &[Unmeshed]) -> impl Iterator<Item = &Unmeshed> {
    pods.iter().take(EVENTS_PER_NAMESPACE_MAX)
}

impl Unmeshed {
    fn key(&self) -> Key {
        (self.uid.clone(), self.lacking)
    }
}

/// The result of writing the Events of one namespace.
struct Written {
    /// The Events that exist now.
    events: Vec<Key>,
    /// The Events that could not be written, each with the time of the failure.
    failed: Vec<(Key, Instant)>,
    /// The Pod whose failure to report, and the reason.
    worst: Option<(Box<str>, kube::Error)>,
}

/// Writes an Event for each Pod of a namespace.
async fn report(client: Client, namespace: Box<str>, pods: Vec<Unmeshed>) -> Written {
    let events: Api<Event> = Api::namespaced(client, &namespace);
    let mut written = Written { events: Vec::new(), failed: Vec::new(), worst: None };
    for pod in pods {
        match events.create(&PostParams::default(), &event(&namespace, &pod, Timestamp::now())).await {
            Ok(_) => written.events.push(pod.key()),
            // Another replica has written this Event.
            Err(kube::Error::Api(status)) if status.code == StatusCode::CONFLICT => written.events.push(pod.key()),
            Err(error) => {
                written.failed.push((pod.key(), Instant::now()));
                // Without an answer, the other Events would probably fail too, each after a long time. An answer that did
                // not arrive is worse than a refusal: the delay before the next pass depends on the failure.
                if !is_refusal(&error) {
                    written.worst = Some((pod.name, error));
                    break;
                }
                written.worst.get_or_insert((pod.name, error));
            }
        }
    }
    written
}

/// Makes the Event for a Pod. Every replica uses the same name for the Event, so that only one Event can be written.
fn event(namespace: &str, pod: &Unmeshed, now: Timestamp) -> Event {
    let Unmeshed { name, uid, lacking } = pod;
    let (reason, suffix, sidecar, effect) = match lacking {
        Lacking::Proxy => ("WithoutProxy", "", "a proxy", "no policy protects it and its calls are not encrypted"),
        Lacking::GrpcSidecar => {
            ("WithoutGrpcSidecar", "-grpc", "the gRPC sidecar", "its gRPC programs have no identity")
        }
    };
    // The name and the UID are ASCII, so a character is a byte.
    let short: String = name.chars().take(NAME_MAX_BYTES).collect();
    let distinct: String = uid.chars().take(8).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{short}.leno-{distinct}{suffix}")),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_string()),
            uid: Some(uid.to_string()),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(format!(
            "it runs without {sidecar}, although its annotation {INJECT} or its namespace's asks for it: {effect}; leno check --proxy \
             says why, and what to type"
        )),
        source: Some(EventSource { component: Some(CONTROL.to_owned()), ..EventSource::default() }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

#[cfg(test)]
#[path = "unmeshed_tests.rs"]
mod tests;
