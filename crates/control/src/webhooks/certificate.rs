//! The certificate that the webhooks show.
//!
//! It is in no Secret: every replica makes a key of its own and has it certified by the mesh's issuing authority. An API
//! server calls a Service by its DNS name, so the certificate has the names of ours; it believes whoever the anchors in
//! `caBundle` vouch for, which [`super::trust`] keeps.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leno_identity::authority::SignError;
use leno_identity::renewal::Schedule;
use leno_install::names::CONTROL;
use rustls::ServerConfig;
use rustls::pki_types::{DnsName, InvalidDnsNameError};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::issuer::Signing;

/// How often to look whether the certificate is to be renewed: clocks may be set, and machines sleep.
const CHECK: Duration = Duration::from_secs(10);

/// The certificate in use, and what makes the next.
pub(super) struct Certificate {
    names: Vec<DnsName<'static>>,
    signing: watch::Receiver<Arc<Signing>>,
    schedule: Schedule,
    publisher: watch::Sender<Arc<ServerConfig>>,
}

/// What the control plane's Service is called in a cluster, by those in its namespace or out of it.
pub(super) fn names(namespace: &str, cluster_domain: &str) -> Result<Vec<DnsName<'static>>, InvalidDnsNameError> {
    let short = format!("{CONTROL}.{namespace}");
    let names = [format!("{short}.svc"), short.clone(), format!("{short}.svc.{cluster_domain}")];
    names.into_iter().map(DnsName::try_from).collect()
}

impl Certificate {
    /// Makes the first one, for these names.
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

    /// The one in use, and each that replaces it.
    pub(super) fn config(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.publisher.subscribe()
    }

    /// Renews it before it expires, and when the authority changes: its old one may not be trusted any more.
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
