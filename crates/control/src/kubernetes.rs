//! Where the mesh comes from in a cluster: its objects, which are watched.
//!
//! Nothing is published before every kind has been listed once, and from then on something always is: while the API
//! server is away, what was known last stays in force.

mod state;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use leno_model::mesh::Mesh;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

pub(crate) use state::State;
use state::kinds;

use crate::index::{Change, Index, Joined, Kind, News};
use crate::watch::{self as watches, CHANGES_MAX};

/// How long changes are gathered before they are published: a rollout makes one mesh of many changes.
const GATHER: Duration = Duration::from_millis(10);

/// A cluster that is watched.
pub(crate) struct KubernetesSource {
    index: Index,
    changes: mpsc::Receiver<(Kind, Change)>,
    mesh: watch::Sender<Arc<Mesh>>,
    state: watch::Sender<Arc<State>>,
    namespaces: watch::Sender<BTreeSet<Box<str>>>,
    /// They end with the source.
    _watches: JoinSet<()>,
}

impl KubernetesSource {
    /// Starts to watch; the API server need not be there yet. Needs a tokio runtime.
    pub(crate) fn start(client: &Client) -> Self {
        let (sender, changes) = mpsc::channel(CHANGES_MAX);
        Self {
            index: Index::new(),
            changes,
            mesh: watch::Sender::new(Arc::new(Mesh::empty())),
            state: watch::Sender::default(),
            namespaces: watch::Sender::default(),
            _watches: watches::start(client, &sender),
        }
    }

    /// Waits until all that there is is known: before that the mesh is empty, and nobody should be told so.
    pub(crate) async fn listed(&mut self) {
        while !self.index.is_complete() {
            self.gather().await;
            self.publish();
        }
    }

    /// The mesh now, and each that replaces it.
    pub(crate) fn mesh(&self) -> watch::Receiver<Arc<Mesh>> {
        self.mesh.subscribe()
    }

    /// What is known now, and at each later moment.
    pub(crate) fn state(&self) -> watch::Receiver<Arc<State>> {
        self.state.subscribe()
    }

    /// The namespaces that proxies run in or may be put into.
    pub(crate) fn meshed_namespaces(&self) -> watch::Receiver<BTreeSet<Box<str>>> {
        self.namespaces.subscribe()
    }

    /// Takes in each change, for ever.
    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            self.gather().await;
            self.publish();
        }
    }

    /// Waits for a change, and takes it in with those that come right after it.
    async fn gather(&mut self) {
        let Some(first) = self.changes.recv().await else {
            // The watches never end before the source does.
            return std::future::pending().await;
        };
        self.take(first);
        let latest = tokio::time::Instant::now() + GATHER;
        while let Ok(Some(change)) = timeout_at(latest, self.changes.recv()).await {
            self.take(change);
        }
    }

    fn take(&mut self, (kind, change): (Kind, Change)) {
        let News { problems, is_mended } = self.index.take(kind, change);
        for problem in &problems {
            tracing::warn!("{problem}; until then it counts as it last was right");
        }
        if is_mended {
            tracing::info!(%kind, "an object that had a mistake has none now");
        }
    }

    fn publish(&mut self) {
        let before = self.state.borrow().clone();
        let mut state = State {
            kinds: kinds(&self.index),
            problems: self.index.problems().cloned().collect(),
            notices: self.index.notices().cloned().collect(),
            translations: before.translations,
            ..State::default()
        };
        if self.index.is_complete() {
            let start = Instant::now();
            let Joined { mesh, problems, notices, routes } = self.index.translate();
            state.translation_us = start.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
            state.translations += 1;
            for problem in problems.iter().filter(|problem| !before.problems.contains(problem)) {
                tracing::warn!("{problem}");
            }
            state.problems.extend(problems);
            state.notices.extend(notices);
            state.routes = routes;
            state.mesh = Some(mesh.clone());
            self.mesh.send_replace(mesh);
        }
        self.state.send_replace(Arc::new(state));
        let namespaces = self.index.meshed_namespaces();
        self.namespaces.send_if_modified(|known| {
            let is_news = *known != namespaces;
            *known = namespaces;
            is_news
        });
    }
}
