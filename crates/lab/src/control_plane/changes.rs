//! Changes endpoints in the cluster, one at a time or at a fixed rate, and collects the updates that the proxies
//! receive.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, sleep_until};

use super::arrivals::{Arrival, Judged, Write, judge};
use super::cluster::Cluster;
use super::plan::{CALLED, COMMON, Plan};
use super::proxies::Proxies;
use super::record::Sent;
use crate::error::{Error, Result};

/// Longest time for a change to arrive at every proxy. After this time, the change counts as lost.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);
/// Interval between checks for arrivals.
const POLL: Duration = Duration::from_millis(5);
/// Pause after each single change, so that no work for this change overlaps with the next change.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of changes that the API server has not answered. A further change waits, and may therefore be late.
const IN_FLIGHT_MAX: usize = 256;
/// A change counts as late if the lab sends it more than this time after its scheduled time.
const LATE: Duration = Duration::from_millis(10);

/// Writes changes to the cluster. All loads use one `Changer`, so that no serial number occurs twice.
pub(super) struct Changer<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) plan: Plan,
    pub(super) proxies: &'a Proxies,
    pub(super) serial: u32,
    pub(super) random: fastrand::Rng,
}

impl Changer<'_> {
    /// Changes the Service to which all proxies subscribe. Waits after each change until it has arrived everywhere, at
    /// most [`ARRIVAL_MAX`].
    ///
    /// # Errors
    /// If the API server refuses a change, or a proxy loses its stream. Lost changes are a result, not an error.
    pub(super) async fn single(&mut self, changes: u32, bar: &ProgressBar) -> Result<(Sent, Judged)> {
        self.proxies.take_arrivals();
        let start = Instant::now();
        let mut writes = Vec::new();
        for number in 1..=changes {
            self.serial += 1;
            writes.push(change(self.cluster.clone(), self.plan, COMMON, self.serial).await?);
            let expected = number as usize * self.plan.proxies as usize;
            let end = Instant::now() + ARRIVAL_MAX;
            while self.proxies.arrived() < expected && Instant::now() < end {
                sleep(POLL).await;
            }
            self.proxies.ready()?;
            sleep(PAUSE).await;
            bar.inc(1);
        }
        let sent = Sent { changes: changes.into(), took: start.elapsed(), late: 0 };
        Ok((sent, judge(&writes, &self.proxies.take_arrivals(), &self.plan.subscribers())))
    }

    /// Changes random Services at a fixed rate, whether or not earlier changes have arrived.
    ///
    /// # Errors
    /// The same errors as [`Changer::single`].
    pub(super) async fn steady(&mut self, per_s: u32, time: Duration, bar: &ProgressBar) -> Result<(Sent, Judged)> {
        self.proxies.take_arrivals();
        let start = Instant::now();
        let (mut writes, mut in_flight, mut late) = (Vec::new(), InFlight::default(), 0);
        let changed = CALLED.len() as u32..self.plan.services;
        let in_flight_max = IN_FLIGHT_MAX.min(changed.len());
        let gap = Duration::from_secs(1) / per_s;
        let mut due = start;
        while due < start + time {
            sleep_until(due.into()).await;
            while let Some(done) = in_flight.changes.try_join_next() {
                writes.push(in_flight.end(done)?);
            }
            while in_flight.services.len() >= in_flight_max
                && let Some(done) = in_flight.changes.join_next().await
            {
                writes.push(in_flight.end(done)?);
            }
            late += u64::from(due.elapsed() > LATE);
            self.serial += 1;
            let free = |service: &u32| !in_flight.services.contains(service);
            let service = std::iter::repeat_with(|| self.random.u32(changed.clone())).find(free).unwrap_or(COMMON);
            in_flight.services.insert(service);
            in_flight.changes.spawn(change(self.cluster.clone(), self.plan, service, self.serial));
            self.proxies.ready()?;
            bar.inc(1);
            due += gap;
        }
        while let Some(done) = in_flight.changes.join_next().await {
            writes.push(in_flight.end(done)?);
        }
        let sent = Sent { changes: writes.len() as u64, took: start.elapsed(), late };
        Ok((sent, self.wait_for_all(&writes).await?))
    }

    async fn wait_for_all(&self, writes: &[Write]) -> Result<Judged> {
        let subscribers = self.plan.subscribers();
        let end = Instant::now() + ARRIVAL_MAX;
        let mut arrivals: Vec<Arrival> = Vec::new();
        loop {
            arrivals.append(&mut self.proxies.take_arrivals());
            let judged = judge(writes, &arrivals, &subscribers);
            if judged.lost == 0 || Instant::now() > end {
                return Ok(judged);
            }
            self.proxies.ready()?;
            sleep(PAUSE).await;
        }
    }
}

async fn change(cluster: Cluster, plan: Plan, service: u32, serial: u32) -> Result<Write> {
    let sent = Instant::now();
    cluster.change(&plan, service, serial).await?;
    Ok(Write { service, serial, sent, acknowledged: Instant::now() })
}

/// Changes that the API server has not answered: at most one for each Service. If two requests for one Service were in
/// flight, the second could overtake the first.
#[derive(Default)]
struct InFlight {
    changes: JoinSet<Result<Write>>,
    services: HashSet<u32>,
}

impl InFlight {
    /// Removes a finished change, so that the next change of its Service may be sent, and returns the change.
    fn end(&mut self, done: std::result::Result<Result<Write>, JoinError>) -> Result<Write> {
        let ended = |error: JoinError| Error::Cluster { what: "a change".to_owned(), why: error.to_string() };
        let write = done.map_err(ended)??;
        self.services.remove(&write.service);
        Ok(write)
    }
}
