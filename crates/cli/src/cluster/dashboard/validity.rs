//! Computes how long a proxy's certificate and its trust anchors remain valid, and whether this is too short. No I/O;
//! the current time is an argument.

use std::time::{Duration, SystemTime};

use leno_identity::authority::SVID_LIFETIME;

use super::objective::Level;
use crate::cluster::scrape::Scrape;
use crate::cluster::source::ProxyAt;

/// A certificate has a problem if less than one tenth of its lifetime is left: `1 / CERTIFICATE_LEAST_PART`. Proxies
/// renew a certificate before five sixths of its lifetime have passed, so it reaches this limit only if the renewal has
/// failed many times. The alert `LenoCertificateExpiring` has the same limit.
const CERTIFICATE_LEAST_PART: u32 = 10;
/// Minimum remaining validity of a certificate if the proxy does not report the certificate's lifetime.
const CERTIFICATE_LEAST: Duration = Duration::from_secs(2 * 60 * 60);
/// If the lifetime of a Pod's certificate is below this limit, the certificate was shortened because its authority
/// expires. The control plane otherwise issues certificates for [`SVID_LIFETIME`]; the limit is one hour lower, because
/// clocks may differ.
const ISSUED_LEAST: Duration = SVID_LIFETIME.saturating_sub(Duration::from_secs(60 * 60));
/// Minimum remaining validity of the trust anchor that expires last.
const ANCHOR_LEAST: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// When the validity of a certificate or a trust anchor ends, and how much remaining time is too short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validity {
    pub(super) end: SystemTime,
    /// The certificate's lifetime; `None` if the proxy does not report when the certificate was issued.
    lifetime: Option<Duration>,
    /// If at most this much time is left, the page shows a warning.
    least: Duration,
}

impl Validity {
    /// Returns the validity of the proxy's own certificate; `None` if the proxy has no certificate.
    pub(super) fn of_certificate(page: &Scrape) -> Option<Self> {
        let end = page.time("control_identity_cert_expiration_timestamp_seconds")?;
        let issued = page.time("control_identity_cert_refresh_timestamp_seconds");
        let lifetime = issued.and_then(|issued| end.duration_since(issued).ok());
        Some(Self { end, lifetime, least: lifetime.map_or(CERTIFICATE_LEAST, |all| all / CERTIFICATE_LEAST_PART) })
    }

    /// Returns the validity of the trust anchor that expires last; `None` if the proxy has no trust anchor.
    pub(super) fn of_last_anchor(page: &Scrape) -> Option<Self> {
        let end = page.time("leno_trust_anchor_expiration_timestamp_seconds")?;
        Some(Self { end, lifetime: None, least: ANCHOR_LEAST })
    }

    /// Returns the level error if the certificate has expired, and warning if it expires soon.
    pub(super) fn level(&self, now: SystemTime) -> Level {
        match self.end.duration_since(now) {
            Err(_) => Level::Error,
            Ok(left) if left <= self.least => Level::Warning,
            Ok(_) => Level::Good,
        }
    }

    /// Returns the validity of a Pod's certificate if the authority has shortened it, because a certificate must not
    /// outlive its authority. `None` for other certificates, and for a proxy without a Pod.
    pub(super) fn of_shortened(proxy: &ProxyAt, page: &Scrape) -> Option<Self> {
        let is_short = |certificate: &Self| certificate.lifetime.is_some_and(|lifetime| lifetime < ISSUED_LEAST);
        proxy.pod().and_then(|_| Self::of_certificate(page)).filter(is_short)
    }
}

#[cfg(test)]
#[path = "validity_tests.rs"]
mod tests;
