//! Where the mesh comes from in a cluster: its objects, which are watched.
//!
//! Nothing is published before every kind has been listed once, and from then on something always is: while the API
//! server is away, what was known last stays in force.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use leno_model::mesh::Mesh;
use leno_model::problem::{Notice, Problem};
use leno_model::route::status::ParentStatus;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

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

/// What is known of the cluster, and what is wrong with it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct State {
    /// What is published; nothing before every kind has been listed.
    pub(crate) mesh: Option<Arc<Mesh>>,
    /// Every mistake in the objects as they are now.
    pub(crate) problems: Vec<Problem>,
    /// What is worth knowing about them.
    pub(crate) notices: Vec<Notice>,
    /// What became of each route at each Service that it is for.
    pub(crate) routes: Vec<ParentStatus>,
    /// What is watched.
    pub(crate) kinds: BTreeMap<Kind, KindState>,
    /// How often a mesh was made.
    pub(crate) translations: u64,
    /// How long the last one took to make, in microseconds.
    pub(crate) translation_us: u64,
}

/// How far one kind is known.
#[derive(Debug, Serialize)]
pub(crate) struct KindState {
    listed: bool,
    installed: bool,
    objects: usize,
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
            kinds: self.kinds(),
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

    fn kinds(&self) -> BTreeMap<Kind, KindState> {
        let state = |kind| KindState {
            listed: !self.index.unlisted().contains(&kind),
            installed: !self.index.absent().contains(&kind),
            objects: self.index.count(kind),
        };
        Kind::ALL.into_iter().map(|kind| (kind, state(kind))).collect()
    }
}
