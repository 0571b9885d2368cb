//! The control plane's own identity: an SVID that this replica signs for itself, renewed in good time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leno_identity::TlsIdentity;
use leno_identity::issuer::{IssueError, Trust, obtain};
use leno_identity::renewal::Schedule;
use leno_model::spiffe::Workload;
use tokio::sync::watch;
use tokio::time::sleep;

use super::signing::{ClusterIssuer, Signing};

/// How often to look whether a renewal is due.
const CHECK: Duration = Duration::from_secs(10);

/// Keeps the identity good.
pub(crate) struct OwnIdentity {
    issuer: ClusterIssuer,
    signing: watch::Receiver<Arc<Signing>>,
    workload: Workload,
    schedule: Schedule,
    identity: watch::Sender<Arc<TlsIdentity>>,
}

impl OwnIdentity {
    /// Gets the first SVID.
    ///
    /// # Errors
    /// [`IssueError`] if what the authority signs is not believed by its own trust bundle.
    pub(crate) async fn start(signing: watch::Receiver<Arc<Signing>>, workload: Workload) -> Result<Self, IssueError> {
        let issuer = ClusterIssuer::new(signing.clone());
        let (identity, _) = issue(&issuer, &workload).await?;
        let schedule = Schedule::new(SystemTime::now(), identity.not_after, fastrand::u64(..));
        Ok(Self { issuer, signing, workload, schedule, identity: watch::Sender::new(Arc::new(identity)) })
    }

    /// The identity now, and each that replaces it.
    pub(crate) fn identity(&self) -> watch::Receiver<Arc<TlsIdentity>> {
        self.identity.subscribe()
    }

    /// Renews it for as long as the process runs.
    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            tokio::select! {
                changed = self.signing.changed() => match changed {
                    // Signing costs nothing here, and whom to trust may have changed too.
                    Ok(()) => self.schedule.hasten(SystemTime::now()),
                    Err(_) => sleep(CHECK).await,
                },
                () = sleep(CHECK) => {}
            }
            let now = SystemTime::now();
            if !self.schedule.is_due(now) {
                continue;
            }
            match issue(&self.issuer, &self.workload).await {
                Ok((identity, _)) => {
                    self.schedule.renewed(now, identity.not_after);
                    self.identity.send_replace(Arc::new(identity));
                }
                Err(error) => {
                    self.schedule.failed(now);
                    tracing::warn!(%error, "no new SVID for the control plane itself; the one in use stays");
                }
            }
        }
    }
}

async fn issue(issuer: &ClusterIssuer, workload: &Workload) -> Result<(TlsIdentity, Trust), IssueError> {
    let (svid, trust) = obtain(issuer, workload).await?;
    Ok((TlsIdentity::new(&svid, &trust.bundle), trust))
}
