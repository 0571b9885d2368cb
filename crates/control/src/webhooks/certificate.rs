//! The server certificate of the webhooks.
//!
//! The certificate is in no Secret: every replica makes its own key, and the mesh's issuing authority certifies it. An
//! API server calls a Service by its DNS name, so the certificate has the names of our Service. API servers trust the
//! anchors in `caBundle`, which [`super::trust`] keeps up to date.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leno_identity::authority::SignError;
use leno_identity::renewal::Schedule;
use rustls::ServerConfig;
use rustls::pki_types::DnsName;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::issuer::Signing;

/// Interval between checks whether a renewal is due. One long timer would be wrong: clocks may be set, and machines
/// sleep.
const CHECK: Duration = Duration::from_secs(10);

/// The current certificate, and the means to issue the next certificate.
pub(crate) struct Certificate {
    names: Vec<DnsName<'static>>,
    signing: watch::Receiver<Arc<Signing>>,
    schedule: Schedule,
    publisher: watch::Sender<Arc<ServerConfig>>,
}

impl Certificate {
    /// Issues the first certificate, for these DNS names.
    ///
    /// # Errors
    /// [`SignError`] if the authority has expired.
    pub(super) fn issue(
        names: Vec<DnsName<'static>>,
        mut signing: watch::Receiver<Arc<Signing>>,
    ) -> Result<Self, SignError> {
        let (config, not_after) = signing.borrow_and_update().certify_server(&names)?;
        Ok(Self {
            names,
            signing,
            schedule: Schedule::new(SystemTime::now(), not_after, fastrand::u64(..)),
            publisher: watch::Sender::new(Arc::new(config)),
        })
    }

    /// Returns a receiver of the current TLS configuration, and of each configuration that replaces it.
    pub(super) fn config(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.publisher.subscribe()
    }

    /// Renews the certificate before it expires. Also renews it when the authority changes, since API servers may no
    /// longer trust the old authority.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            tokio::select! {
                Ok(()) = self.signing.changed() => self.schedule.hasten(SystemTime::now()),
                () = sleep(CHECK) => {}
            }
            self.check(SystemTime::now());
        }
    }

    fn check(&mut self, now: SystemTime) {
        if !self.schedule.is_due(now) {
            return;
        }
        let certified = self.signing.borrow_and_update().certify_server(&self.names);
        match certified {
            Ok((config, not_after)) => {
                self.schedule.renewed(now, not_after);
                self.publisher.send_replace(Arc::new(config));
                tracing::info!("the webhooks' certificate was renewed");
            }
            Err(error) => {
                let retry_s = self.schedule.failed(now).as_secs_f64();
                tracing::warn!(%error, retry_s, "the webhooks' certificate was not renewed; the one in use stays");
            }
        }
    }
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
