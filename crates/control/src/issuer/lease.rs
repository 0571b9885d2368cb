//! Leader election: only the replica that holds the Lease writes to the cluster. All replicas read and serve clients.
//!
//! Clocks of machines differ, so a replica ignores the times in the Lease. It measures with its own clock for how long
//! the Lease has not changed. The Lease has expired when this time exceeds the duration in the Lease.
//!
//! A leader that cannot renew the Lease stops writing before the Lease expires, even while one of its own requests
//! still waits for an answer. A write that it has already sent may arrive after another replica has become the leader.
//! This does no harm: either both leaders write the same content, or the later write fails because of its old resource
//! version.
//!
//! While the machine is suspended, the monotonic clock stands still, and with it every timer of this process. With this
//! clock alone, a leader that wakes would write for several seconds although another replica leads. So a leader also
//! reads the wall clock: each time its task runs, and before the task does anything else.
//!
//! A leader that cannot reach the API server stops writing, but keeps its authority and its mesh, and continues to
//! serve clients.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use k8s_openapi::api::coordination::v1 as kubernetes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use leno_install::names::CONTROL;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// Time after which a Lease that is not renewed expires.
const DURATION: Duration = Duration::from_secs(15);
/// Interval at which the leader renews the Lease, and the other replicas check it.
const RENEWAL: Duration = Duration::from_secs(5);
/// Pause after a failed attempt; short, so that a leader can make several attempts before it must stop writing.
const RETRY: Duration = Duration::from_secs(2);
/// Maximum time for one attempt; short, because the next attempt may succeed on a new connection if this one is lost.
const ATTEMPT: Duration = Duration::from_secs(4);
/// Time after which a leader that could not renew the Lease stops writing. Less than [`DURATION`], so that it stops
/// before another replica may take over.
const STOP: Duration = Duration::from_secs(12);
/// Maximum time to release the Lease when the process ends.
const RELEASE: Duration = Duration::from_secs(2);

/// One replica's claim to lead.
pub(crate) struct Lease {
    leases: Api<kubernetes::Lease>,
    /// The name under which this process claims the Lease; different for each process.
    holder: String,
    /// The resource version of the Lease as last read, and the time at which we first read this version.
    seen: Option<(String, Instant)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// There is no Lease.
    Create,
    /// We hold the Lease.
    Renew,
    /// The Lease has no holder, or its holder has not renewed it in time.
    Take,
    /// Another replica holds the Lease, and has renewed it in time.
    Wait,
}

impl Lease {
    pub(crate) fn new(client: kube::Client, namespace: &str, holder: String) -> Self {
        Self { leases: Api::namespaced(client, namespace), holder, seen: None }
    }

    /// Reads the Lease, and claims or renews it if possible. Returns whether we lead now.
    async fn attempt(&mut self) -> Result<bool, kube::Error> {
        let found = self.leases.get_opt(CONTROL).await?;
        let step = self.step(found.as_ref(), Instant::now());
        let written = match (step, found) {
            (Step::Wait, _) => return Ok(false),
            (Step::Create, _) | (_, None) => {
                self.leases.create(&PostParams::default(), &self.claim(None, Step::Take)).await
            }
            (step, Some(found)) => {
                let claim = self.claim(Some(found), step);
                self.leases.replace(CONTROL, &PostParams::default(), &claim).await
            }
        };
        match written {
            Ok(_) => Ok(true),
            // On a conflict, another replica has created or changed the Lease since our read, so we do not lead.
            Err(kube::Error::Api(status)) if status.code == StatusCode::CONFLICT => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn step(&mut self, found: Option<&kubernetes::Lease>, now: Instant) -> Step {
        let Some(found) = found else {
            return Step::Create;
        };
        let spec = found.spec.as_ref();
        match spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default() {
            "" => return Step::Take,
            holder if holder == self.holder => return Step::Renew,
            _ => {}
        }
        let version = found.metadata.resource_version.as_deref().unwrap_or_default();
        let since = match &self.seen {
            Some((seen, since)) if seen == version => *since,
            _ => now,
        };
        self.seen = Some((version.to_owned(), since));
        let duration_s = spec.and_then(|spec| spec.lease_duration_seconds).and_then(|s| u64::try_from(s).ok());
        let duration = duration_s.map_or(DURATION, Duration::from_secs);
        if now.saturating_duration_since(since) > duration { Step::Take } else { Step::Wait }
    }

    fn claim(&self, found: Option<kubernetes::Lease>, step: Step) -> kubernetes::Lease {
        let mut lease = found.unwrap_or_default();
        lease.metadata = ObjectMeta { name: Some(CONTROL.to_owned()), ..lease.metadata };
        let spec = lease.spec.get_or_insert_default();
        let now = MicroTime(Timestamp::now());
        if step == Step::Take {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default().saturating_add(1));
        }
        spec.holder_identity = Some(self.holder.clone());
        spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
        spec.renew_time = Some(now);
        lease
    }
}

/// The time at which a leader must stop writing unless it has renewed the Lease by then.
#[derive(Clone, Copy)]
struct Stop {
    at: Instant,
    /// The same time on the wall clock, which also counts the time for which the machine is suspended.
    on_wall: SystemTime,
}

impl Stop {
    /// Returns the time for a Lease whose renewal begins now.
    fn after_renewal(wall: &impl Fn() -> SystemTime) -> Self {
        Self { at: Instant::now() + STOP, on_wall: wall() + STOP }
    }

    /// Waits until the time has come on one of the clocks. No timer runs on the wall clock, so this future must be
    /// polled each time the task runs.
    async fn reached(self, wall: &impl Fn() -> SystemTime) {
        let on_wall = poll_fn(|_| if self.is_past(wall) { Poll::Ready(()) } else { Poll::Pending });
        tokio::select! {
            () = on_wall => {}
            () = sleep_until(self.at) => {}
        }
    }

    fn is_past(self, wall: &impl Fn() -> SystemTime) -> bool {
        wall() >= self.on_wall || Instant::now() >= self.at
    }
}

/// Claims and renews the Lease, and sends to `leads` whether we lead. `wall` returns the current time of the wall clock.
/// Returns when all receivers have been dropped.
///
/// Poll this future in the same task as the futures that write, and before them: after the machine has been suspended,
/// this future sends that we no longer lead.
pub(crate) async fn hold(mut lease: Lease, leads: &watch::Sender<bool>, wall: impl Fn() -> SystemTime) {
    // `None` while we do not lead.
    let mut stop: Option<Stop> = None;
    while !leads.is_closed() {
        let begun = Instant::now();
        let next_stop = Stop::after_renewal(&wall);
        let interval = match stopping(stop, leads, &wall, timeout(ATTEMPT, lease.attempt())).await {
            Ok(Ok(is_ours)) => {
                // The Lease may have expired again if the machine was suspended during the attempt.
                stop = Some(next_stop).filter(|stop| is_ours && !stop.is_past(&wall));
                set(leads, stop.is_some());
                RENEWAL
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "the Lease cannot be read or written");
                RETRY
            }
            Err(_) => {
                tracing::debug!("the Lease cannot be read or written: no answer from the API server");
                RETRY
            }
        };
        // Vary the interval at random, so that replicas do not send their requests at the same moment.
        let next = begun + interval.mul_f64(0.9 + 0.2 * fastrand::f64());
        stopping(stop, leads, &wall, sleep_until(next)).await;
    }
}

/// Runs `work` to its end. If it is not complete when `stop` is reached, sends at that time that we no longer lead.
async fn stopping<T>(
    stop: Option<Stop>,
    leads: &watch::Sender<bool>,
    wall: &impl Fn() -> SystemTime,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    if let Some(stop) = stop {
        tokio::select! {
            // First see whether the Lease has expired: the work may complete in the moment when the machine wakes.
            biased;
            () = stop.reached(wall) => set(leads, false),
            output = &mut work => return output,
        }
    }
    work.await
}

/// Runs work that only the leader may do, and returns its output. If we do not lead, or stop leading during the work,
/// cancels the work and returns `None`.
pub(crate) async fn while_leading<T>(mut leads: watch::Receiver<bool>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = leads.wait_for(|leads| !leads) => None,
        output = work => Some(output),
    }
}

/// Releases the Lease, so that another replica need not wait for it to expire.
pub(crate) async fn release(mut lease: Lease) {
    let given_up = async {
        let found = lease.leases.get_opt(CONTROL).await?;
        if let Some(mut found) = found.filter(|found| lease.step(Some(found), Instant::now()) == Step::Renew) {
            if let Some(spec) = &mut found.spec {
                spec.holder_identity = Some(String::new());
            }
            lease.leases.replace(CONTROL, &PostParams::default(), &found).await?;
        }
        Ok::<_, kube::Error>(())
    };
    match timeout(RELEASE, given_up).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the Lease could not be released"),
        Err(_) => tracing::debug!("the Lease could not be released in time"),
    }
}

fn set(leads: &watch::Sender<bool>, now: bool) {
    leads.send_if_modified(|leads| {
        let is_news = *leads != now;
        if is_news {
            tracing::info!("{}", if now { "this replica leads: it writes" } else { "this replica does not lead" });
        }
        *leads = now;
        is_news
    });
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
