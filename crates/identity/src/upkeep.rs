//! Keeps our identity up to date: a first SVID at the start, renewals before it expires, and the current trust bundle.
//!
//! If anything fails after the start, the last valid identity stays in use.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leno_model::spiffe::Workload;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::bundle::TrustBundle;
use crate::issuer::{IssueError, Issuer, Trust, obtain};
use crate::renewal::Schedule;
use crate::svid::Svid;
use crate::tls::TlsIdentity;

/// Interval between checks whether the trust bundle has changed and whether a renewal is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Shortest time between two checks.
const CHECK_MIN: Duration = Duration::from_millis(10);

/// Longest time for an issuer's answer, the time to connect included.
pub const ISSUE_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why no SVID was issued, at the start or for a renewal. The error's message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("the issuer gave no answer for {} s; check that it runs and can be reached", ISSUE_TIMEOUT.as_secs())]
    Timeout,
}

/// Metrics of our own certificate.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdentityMetrics {
    /// The time at which the current certificate expires, since 1970.
    pub expiration_since_1970: Duration,
    /// The time at which the current certificate was issued, since 1970.
    pub last_refresh_since_1970: Duration,
    /// The time at which the last trust anchor expires, since 1970. `None` before the trust bundle is known, or if no
    /// anchor has readable dates.
    pub anchors_expiration_since_1970: Option<Duration>,
    /// Number of certificates that were issued, including the first.
    pub good_refreshes: u64,
    /// Number of failed requests for a certificate.
    pub bad_refreshes: u64,
}

impl IdentityMetrics {
    /// Returns these metrics, updated for a certificate that was issued at `now`.
    #[must_use]
    pub fn after_refresh(mut self, now: SystemTime, not_after: SystemTime) -> Self {
        self.good_refreshes += 1;
        self.last_refresh_since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.expiration_since_1970 = not_after.duration_since(UNIX_EPOCH).unwrap_or_default();
        self
    }

    /// Returns these metrics, with the expiry of the last anchor in this trust bundle.
    #[must_use]
    pub fn with_bundle(mut self, bundle: &TrustBundle) -> Self {
        let not_after = bundle.not_after();
        self.anchors_expiration_since_1970 =
            not_after.map(|not_after| not_after.duration_since(UNIX_EPOCH).unwrap_or_default());
        self
    }

    /// Returns these metrics, updated for a failed request.
    #[must_use]
    pub fn after_failure(mut self) -> Self {
        self.bad_refreshes += 1;
        self
    }
}

/// Keeps the identity of one workload up to date.
pub struct Upkeep {
    issuer: Box<dyn Issuer>,
    workload: Workload,
    svid: Svid,
    trust: Trust,
    schedule: Schedule,
    /// Whether the published identity still has the former bundle, because the new bundle does not verify our SVID.
    /// `trust` has the new bundle.
    is_withheld: bool,
    /// The last error from reading the trust bundle, so that a repeated error is logged only once.
    trust_problem: Option<String>,
    metrics: Rc<Cell<IdentityMetrics>>,
    publisher: watch::Sender<Arc<TlsIdentity>>,
}

impl Upkeep {
    /// Obtains the first SVID. Workloads with different seeds renew at different moments.
    ///
    /// # Errors
    /// [`UpkeepError`] if no SVID was issued: a program with an identity cannot start without a certificate.
    pub async fn start(issuer: Box<dyn Issuer>, workload: Workload, seed: u64) -> Result<Self, UpkeepError> {
        let (svid, trust) = obtain_in_time(&*issuer, &workload).await?;
        let now = SystemTime::now();
        let metrics = IdentityMetrics::default().after_refresh(now, svid.not_after).with_bundle(&trust.bundle);
        log_issued(&svid, now);
        Ok(Self {
            schedule: Schedule::new(now, svid.not_after, seed),
            publisher: watch::Sender::new(Arc::new(TlsIdentity::new(&svid, &trust.bundle))),
            metrics: Rc::new(Cell::new(metrics)),
            is_withheld: false,
            trust_problem: None,
            issuer,
            workload,
            svid,
            trust,
        })
    }

    /// Returns a receiver for the current identity and for each identity that replaces it.
    pub fn identity(&self) -> watch::Receiver<Arc<TlsIdentity>> {
        self.publisher.subscribe()
    }

    /// Returns the metrics of the certificate. This [`Upkeep`] keeps them up to date.
    pub fn metrics(&self) -> Rc<Cell<IdentityMetrics>> {
        self.metrics.clone()
    }

    /// Renews the SVID and follows changes of the trust bundle, for ever.
    pub async fn run(mut self) -> Infallible {
        loop {
            // Wake as soon as a renewal is due, not only every `CHECK_INTERVAL`: a short-lived SVID may expire soon
            // after that.
            sleep(self.schedule.due_in(SystemTime::now()).clamp(CHECK_MIN, CHECK_INTERVAL)).await;
            self.check(SystemTime::now()).await;
        }
    }

    async fn check(&mut self, now: SystemTime) {
        match self.issuer.trust() {
            Ok(trust) => {
                self.trust_problem = None;
                if trust != self.trust {
                    self.follow(trust, now);
                }
            }
            Err(error) => self.log_trust_problem(&error),
        }
        if self.schedule.is_due(now) {
            self.renew(now).await;
        }
        if self.is_withheld && now > self.svid.not_after {
            tracing::warn!("the SVID has expired without a renewal; the former trust bundle is in use no longer");
            self.publish();
        }
    }

    /// Applies a change of the trust bundle or signer. If the new bundle does not verify our SVID, a renewal is due at
    /// once. The published identity keeps the former bundle until the SVID has been renewed or has expired. The new
    /// bundle would not help earlier: peers that have it reject our SVID anyway.
    fn follow(&mut self, trust: Trust, now: SystemTime) {
        tracing::info!(anchors = trust.bundle.anchors().len(), "the trust bundle or the issuer's certificate changed");
        if trust.signer != self.trust.signer {
            self.schedule.signer_changed(now);
        }
        self.trust = trust;
        match self.svid.verify(&self.trust.bundle, now) {
            Ok(()) => self.publish(),
            Err(error) => {
                let expires_s = seconds_until(self.svid.not_after, now);
                tracing::warn!(
                    %error, expires_s,
                    "the new trust bundle does not verify our SVID; the former bundle stays in use until an SVID is issued"
                );
                self.is_withheld = true;
                self.schedule.hasten(now);
            }
        }
    }

    async fn renew(&mut self, now: SystemTime) {
        let refreshed = obtain_in_time(&*self.issuer, &self.workload).await;
        let metrics = self.metrics.get();
        match refreshed {
            Ok((svid, trust)) => {
                self.schedule.renewed(now, svid.not_after);
                self.metrics.set(metrics.after_refresh(now, svid.not_after));
                log_issued(&svid, now);
                (self.svid, self.trust) = (svid, trust);
                self.publish();
            }
            Err(error) => {
                self.metrics.set(metrics.after_failure());
                let retry_s = self.schedule.failed(now).as_secs_f64();
                let expires_s = seconds_until(self.svid.not_after, now);
                tracing::warn!(%error, retry_s, expires_s, "no new SVID was issued; the one in use stays");
            }
        }
    }

    /// Puts the SVID and the trust bundle in use.
    fn publish(&mut self) {
        self.is_withheld = false;
        self.metrics.set(self.metrics.get().with_bundle(&self.trust.bundle));
        self.publisher.send_replace(Arc::new(TlsIdentity::new(&self.svid, &self.trust.bundle)));
    }

    fn log_trust_problem(&mut self, error: &IssueError) {
        let problem = error.to_string();
        if self.trust_problem.as_ref() != Some(&problem) {
            tracing::warn!(error = %problem, "the trust bundle cannot be read; the one in use stays");
            self.trust_problem = Some(problem);
        }
    }
}

async fn obtain_in_time(issuer: &dyn Issuer, workload: &Workload) -> Result<(Svid, Trust), UpkeepError> {
    let answer = timeout(ISSUE_TIMEOUT, obtain(issuer, workload)).await.map_err(|_| UpkeepError::Timeout)?;
    Ok(answer?)
}

fn log_issued(svid: &Svid, now: SystemTime) {
    tracing::info!(id = %svid.id, expires_s = seconds_until(svid.not_after, now), "an SVID was issued");
}

fn seconds_until(then: SystemTime, now: SystemTime) -> u64 {
    then.duration_since(now).unwrap_or_default().as_secs()
}

#[cfg(test)]
#[path = "upkeep_tests.rs"]
mod tests;
