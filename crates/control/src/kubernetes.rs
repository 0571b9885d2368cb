//! Publishes the mesh of a cluster, which is translated from the cluster's watched objects.
//!
//! [`KubernetesSource`] publishes no mesh before every kind has been listed once. While the API server is unreachable,
//! the last known state stays in force.

mod state;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_install::inject::Options as InjectOptions;
use leno_model::mesh::Mesh;
use leno_model::problem::Problem;
use leno_model::route::status::ParentStatus;
use leno_model::traffic::status::TargetStatus;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

pub(crate) use state::State;
use state::kinds;

use crate::api_server::ApiServer;
use crate::index::{Change, Index, Joined, Kind, Namespace, News, Unmeshed};
use crate::status::Judged;
use crate::watch::{self as watches, CHANGES_MAX};

/// Time for which changes are collected before a mesh is published, so that the many changes of a rollout make one
/// mesh.
const GATHER: Duration = Duration::from_millis(10);
/// Longest pause after a mesh was made. The pause lasts as long as it took to make the mesh, up to this time. So the
/// objects of one namespace may change all the time, and meshes still take at most half a processor, unless making one
/// takes longer than this. A change that arrives after the pause does not wait.
const PAUSE_MAX: Duration = Duration::from_secs(1);

pub(crate) struct KubernetesSource {
    index: Index,
    /// Whether the index has applied changes that the published mesh may lack.
    is_behind: bool,
    /// The end of the pause after the latest mesh.
    paused_until: tokio::time::Instant,
    /// The control plane's own namespace.
    own: Box<str>,
    /// The injector's options, which name the namespaces without injection; `None` without an injector.
    options: Option<watch::Receiver<Arc<InjectOptions>>>,
    changes: mpsc::Receiver<(Kind, Change)>,
    sender: mpsc::Sender<(Kind, Change)>,
    mesh: watch::Sender<Arc<Mesh>>,
    state: watch::Sender<Arc<State>>,
    judged: watch::Sender<Judged>,
    namespaces: watch::Sender<Arc<BTreeMap<Box<str>, Namespace>>>,
    trusting: watch::Sender<BTreeSet<Box<str>>>,
    unmeshed: watch::Sender<BTreeMap<Box<str>, Vec<Unmeshed>>>,
    /// The watches end when the source is dropped.
    _watches: JoinSet<()>,
}

impl KubernetesSource {
    /// Starts the watches; the API server need not be reachable yet. `own` is the control plane's namespace. Needs a
    /// tokio runtime.
    pub(crate) fn start(api_server: &ApiServer, own: &str) -> Self {
        let (sender, changes) = mpsc::channel(CHANGES_MAX);
        Self {
            index: Index::new(),
            is_behind: false,
            paused_until: tokio::time::Instant::now(),
            own: own.into(),
            options: None,
            changes,
            mesh: watch::Sender::new(Arc::new(Mesh::empty())),
            state: watch::Sender::default(),
            judged: watch::Sender::default(),
            namespaces: watch::Sender::default(),
            trusting: watch::Sender::default(),
            unmeshed: watch::Sender::default(),
            _watches: watches::start(api_server, &sender),
            sender,
        }
    }

    /// Waits until every kind has been listed and the future `other` is complete; meanwhile, applies changes. Returns
    /// the output of `other`. Before every kind has been listed, the mesh is empty, and no client may get it.
    pub(crate) async fn listed_and<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = pin!(other);
        let mut output = None;
        loop {
            if self.index.is_complete()
                && let Some(output) = output.take()
            {
                // When `other` completed, `select!` may have cancelled `gather_and_publish` with changes that were
                // applied but not published. Do not wait for the end of a pause: the first clients get this mesh.
                self.publish_namespaces();
                self.publish_if_behind();
                return output;
            }
            tokio::select! {
                value = &mut other, if output.is_none() => output = Some(value),
                () = self.gather_and_publish() => {}
            }
        }
    }

    /// Returns a receiver of the current mesh, and of each mesh that replaces it.
    pub(crate) fn mesh(&self) -> watch::Receiver<Arc<Mesh>> {
        self.mesh.subscribe()
    }

    /// Returns a receiver of the state that the admin endpoint shows: the current one, and each that replaces it.
    pub(crate) fn state(&self) -> watch::Receiver<Arc<State>> {
        self.state.subscribe()
    }

    /// Returns a receiver of the validation results for routes and policies, from which their statuses are written.
    pub(crate) fn judged(&self) -> watch::Receiver<Judged> {
        self.judged.subscribe()
    }

    /// Returns a receiver of all namespaces.
    pub(crate) fn namespaces(&self) -> watch::Receiver<Arc<BTreeMap<Box<str>, Namespace>>> {
        self.namespaces.subscribe()
    }

    /// Returns a receiver of the namespaces that need the trust bundle: our own namespace, and the namespaces whose
    /// Pods have, or will get, a proxy or the gRPC sidecar.
    pub(crate) fn trusting_namespaces(&self) -> watch::Receiver<BTreeSet<Box<str>>> {
        self.trusting.subscribe()
    }

    /// Returns a receiver of the Pods that run without a proxy or the gRPC sidecar, although they or their namespace
    /// ask for it. The Pods are listed by namespace.
    pub(crate) fn unmeshed(&self) -> watch::Receiver<BTreeMap<Box<str>, Vec<Unmeshed>>> {
        self.unmeshed.subscribe()
    }

    /// Sets the injector's options. The reports about Pods without a proxy leave out the namespaces that these options
    /// exclude.
    pub(crate) fn follow_options(&mut self, options: watch::Receiver<Arc<InjectOptions>>) {
        self.options = Some(options);
    }

    /// Returns a sender for changes that the control plane knows before the API server reports them.
    pub(crate) fn changes(&self) -> mpsc::Sender<(Kind, Change)> {
        self.sender.clone()
    }

    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            self.gather_and_publish().await;
        }
    }

    /// Waits for a change, applies it together with the changes that follow within [`GATHER`], and publishes the
    /// result. In a pause, publishes only what new Pods wait for; the mesh follows at the end of the pause.
    async fn gather_and_publish(&mut self) {
        let first = tokio::select! {
            first = self.changes.recv() => first,
            () = sleep_until(self.paused_until), if self.is_behind => return self.publish_if_behind(),
            () = changed(&mut self.options) => {
                self.is_behind = true;
                return self.publish_taken();
            }
        };
        let Some(first) = first else {
            // `self` holds a sender, so the channel never closes.
            return std::future::pending().await;
        };
        self.take(first);
        let latest = tokio::time::Instant::now() + GATHER;
        while let Ok(Some(change)) = timeout_at(latest, self.changes.recv()).await {
            self.take(change);
        }
        self.publish_taken();
    }

    /// Publishes the result of all changes that were applied so far, except the mesh if there is a pause.
    fn publish_taken(&mut self) {
        self.publish_namespaces();
        if self.paused_until <= tokio::time::Instant::now() {
            self.publish_if_behind();
        }
    }

    /// Publishes the mesh if changes were applied since the last one, and begins a pause.
    fn publish_if_behind(&mut self) {
        if std::mem::take(&mut self.is_behind) {
            let start = Instant::now();
            self.publish();
            self.paused_until = tokio::time::Instant::now() + start.elapsed().min(PAUSE_MAX);
        }
    }

    /// Applies a change. Most events of a busy cluster change nothing that the mesh depends on, so they must not cause
    /// work for the whole mesh.
    fn take(&mut self, (kind, change): (Kind, Change)) {
        let News { is_change, problems, until_then, mended } = self.index.take(kind, change);
        self.is_behind |= is_change;
        for problem in &problems {
            tracing::warn!(namespace = problem.place.namespace(), "{problem}; until then {until_then}");
        }
        if let Some(namespace) = mended {
            tracing::info!(%kind, %namespace, "an invalid object is valid again");
        }
    }

    fn publish(&mut self) {
        let before = self.state.borrow().clone();
        let mut state = State {
            kinds: kinds(&self.index),
            problems: self.index.problems().cloned().collect(),
            translations: before.translations,
            ..State::default()
        };
        if self.index.is_complete() {
            let options = self.options.as_ref().map(|options| options.borrow().clone()).unwrap_or_default();
            let unmeshed = self.index.unmeshed(&options.excluded_namespaces);
            state.unmeshed_pods = unmeshed.iter().map(|(namespace, pods)| (namespace.clone(), pods.len())).collect();
            replace(&self.unmeshed, unmeshed);
            let start = Instant::now();
            let Joined { mesh, problems, notices, routes, traffic } = self.index.translate();
            state.translation_us = start.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
            state.translations += 1;
            let known: HashSet<&Problem> = before.problems.iter().collect();
            for problem in problems.iter().filter(|problem| !known.contains(problem)) {
                tracing::warn!(namespace = problem.place.namespace(), "{problem}");
            }
            state.problems.extend(problems);
            state.notices.extend(notices);
            self.publish_judged(&routes, &traffic);
            (state.routes, state.traffic) = (routes, traffic);
            state.mesh = Some(mesh.clone());
            self.mesh.send_replace(mesh);
        }
        // Collect the index's notices after the translation, which adds some: for example, notices about missing names.
        state.notices.extend(self.index.notices());
        self.state.send_replace(Arc::new(state));
    }

    /// Publishes the validation results for routes and policies if they differ from the last results. Most changes
    /// concern only endpoints, so these results usually stay the same.
    fn publish_judged(&self, routes: &[ParentStatus], traffic: &[TargetStatus]) {
        let observed = self.index.observed();
        self.judged.send_if_modified(|known| {
            let is_news = known.routes != routes || known.traffic != traffic || known.observed != observed;
            if is_news {
                *known = Judged { routes: routes.to_vec(), traffic: traffic.to_vec(), observed };
            }
            is_news
        });
    }

    /// Publishes two values: all namespaces, and the namespaces that need the trust bundle. Call it before translating
    /// the mesh, which may take longer: new Pods wait for these values, but not for the mesh.
    fn publish_namespaces(&self) {
        let mut trusting = self.index.meshed_namespaces();
        trusting.insert(self.own.clone());
        replace(&self.trusting, trusting);
        if !Arc::ptr_eq(&self.namespaces.borrow(), self.index.namespaces()) {
            self.namespaces.send_replace(self.index.namespaces().clone());
        }
    }
}

/// Waits until the injector's options change; for ever without an injector.
async fn changed(options: &mut Option<watch::Receiver<Arc<InjectOptions>>>) {
    let is_changed = match options {
        Some(options) => options.changed().await.is_ok(),
        None => false,
    };
    if !is_changed {
        std::future::pending::<()>().await;
    }
}

/// Sends a value to its receivers if it differs from the last value.
fn replace<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|known| {
        let is_news = *known != value;
        *known = value;
        is_news
    });
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
