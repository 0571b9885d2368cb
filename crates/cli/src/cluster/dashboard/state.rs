//! The state of the dashboard. All tasks run on one thread, so the state has no locks.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::configuration::Configurations;
use super::denials::Denials;
use super::earlier::EarlierCalls;
use super::history::History;
use super::mesh::Mesh;
use super::problems::Problem;
use crate::cluster::readings::Readings;
use crate::cluster::source::Proxies;

/// Time constant of the moving means that the page shows.
const MEAN_OVER: Duration = Duration::from_secs(10);

pub(super) struct State {
    pub(super) proxies: Proxies,
    /// See [`Facts::options`](super::problems::Facts::options).
    pub(super) options: Option<String>,
    pub(super) every: Duration,
    /// The period over which the figures are averaged.
    pub(super) period: Duration,
    start: Instant,
    pub(super) readings: RefCell<Readings>,
    pub(super) mesh: RefCell<Mesh>,
    pub(super) history: RefCell<History>,
    pub(super) denials: RefCell<Denials>,
    pub(super) configuration: RefCell<Configurations>,
    /// The problems in the latest snapshot.
    pub(super) problems: RefCell<Vec<Problem>>,
    /// The number of the latest snapshot, and the snapshot in JSON.
    pub(super) snapshot: RefCell<(u64, Bytes)>,
    pub(super) calls: RefCell<EarlierCalls>,
    /// Number of open taps of the page.
    pub(super) taps: Cell<usize>,
}

impl State {
    /// Creates a state without readings. `window` is the time for which the caller will collect readings; the figures
    /// are then means since the start. Without a window, the figures are moving means.
    pub(super) fn new(proxies: Proxies, options: Option<String>, every: Duration, window: Option<Duration>) -> Self {
        let readings = match window {
            Some(_) => Readings::since_start(),
            None => Readings::with_means(MEAN_OVER),
        };
        Self {
            proxies,
            options,
            every,
            period: window.unwrap_or(MEAN_OVER),
            start: Instant::now(),
            readings: RefCell::new(readings),
            mesh: RefCell::default(),
            history: RefCell::default(),
            denials: RefCell::default(),
            configuration: RefCell::default(),
            problems: RefCell::default(),
            snapshot: RefCell::default(),
            calls: RefCell::default(),
            taps: Cell::new(0),
        }
    }

    /// Time since the start of the dashboard.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
