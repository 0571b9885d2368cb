//! Reads certificates, compares trust bundles, and formats dates for users.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leno_identity::Validity;
use leno_identity::bundle::TrustBundle;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Maximum number of certificates that this module reads from one PEM text.
const CERTIFICATES_MAX: usize = 32;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const SIX_HOURS: u64 = 6 * HOUR;
const DAY: u64 = 24 * HOUR;

/// The fields of a certificate that `leno` shows to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The URIs among its subject alternative names. An SVID has exactly one: its SPIFFE id.
    pub(crate) uris: Vec<String>,
    /// The issuer's distinguished name.
    pub(crate) issuer: String,
    subject: String,
    pub(crate) validity: Validity,
}

impl Certificate {
    /// Parses a DER certificate. `None` if it is malformed or its dates are before 1970.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let time = |seconds: i64| UNIX_EPOCH.checked_add(Duration::from_secs(seconds.try_into().ok()?));
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let uri = |name: &GeneralName<'_>| match name {
            GeneralName::URI(uri) => Some((*uri).to_owned()),
            _ => None,
        };
        Some(Self {
            uris: names.iter().filter_map(uri).collect(),
            issuer: certificate.issuer().to_string(),
            subject: certificate.subject().to_string(),
            validity: Validity {
                not_before: time(certificate.validity().not_before.timestamp())?,
                not_after: time(certificate.validity().not_after.timestamp())?,
            },
        })
    }

    /// The trust domain in an authority's certificate; `None` if the certificate has not exactly one URI, or if the URI
    /// is not a SPIFFE id without a path. The control plane does not accept such an authority.
    pub(crate) fn trust_domain(&self) -> Option<&str> {
        let [uri] = self.uris.as_slice() else { return None };
        uri.strip_prefix("spiffe://").filter(|domain| !domain.is_empty() && !domain.contains('/'))
    }

    /// Parses the certificates of a PEM text.
    ///
    /// # Errors
    /// One line that names the fault in the text.
    pub(crate) fn read_all(text: &[u8]) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for block in Pem::iter_from_buffer(text).take(CERTIFICATES_MAX) {
            let block = block.map_err(|_| "it is not PEM".to_owned())?;
            all.push(Self::read(&block.contents).ok_or("a certificate in it is malformed")?);
        }
        if all.is_empty() { Err("it has no certificate".to_owned()) } else { Ok(all) }
    }
}

/// Returns the validity of the authority that expires first in the chain above a workload's certificate; `None` if no
/// authority of the chain is known. Once it has expired, the authorities of the chain can no longer issue a valid
/// certificate.
///
/// `chain` begins with the workload's certificate. The authorities are the other certificates of `chain`, and the
/// anchor in `anchors` that issued the last certificate of `chain`.
pub(crate) fn first_to_expire<'a>(chain: &'a [Certificate], anchors: &'a [Certificate]) -> Option<&'a Validity> {
    let (_, intermediates) = chain.split_first()?;
    let validity = |certificate: &'a Certificate| &certificate.validity;
    let end = |validity: &&Validity| validity.not_after;
    let top = &chain.last()?.issuer;
    // If several anchors have the issuer's name, take the anchor that expires last: peers can verify the chain until
    // then.
    let anchor = anchors.iter().filter(|anchor| anchor.subject == *top).map(validity).max_by_key(end);
    intermediates.iter().map(validity).chain(anchor).min_by_key(end)
}

/// Whether two PEM texts are trust bundles with the same anchors, in any order and layout.
pub(crate) fn same_anchors(a: &[u8], b: &[u8]) -> bool {
    let sorted = |text: &[u8]| {
        let mut anchors = TrustBundle::from_pem(text).ok()?.anchors().to_vec();
        anchors.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
        Some(anchors)
    };
    sorted(a).is_some_and(|a| Some(a) == sorted(b))
}

/// Formats a moment as RFC 3339 specifies; `None` for a moment after the year 9999.
pub(crate) fn rfc3339(moment: SystemTime) -> Option<String> {
    jiff::Timestamp::try_from(moment).ok().map(|moment| moment.to_string())
}

/// Formats a moment relative to `now`: `in 59 days`, `in 1 h 59 min`, or `3 h ago` for a moment in the past.
pub(crate) fn relative(moment: SystemTime, now: SystemTime) -> String {
    let text = |duration: Duration| {
        let (number, unit) = match duration.as_secs() {
            // Show minutes too: from one to six hours, they matter.
            seconds @ HOUR..SIX_HOURS if seconds % HOUR >= MINUTE => {
                return format!("{} h {} min", seconds / HOUR, seconds % HOUR / MINUTE);
            }
            seconds @ 0..MINUTE => (seconds, "s"),
            seconds @ MINUTE..HOUR => (seconds / MINUTE, "min"),
            // Less than two days: show hours.
            seconds if seconds < 2 * DAY => (seconds / HOUR, "h"),
            seconds => (seconds / DAY, "days"),
        };
        format!("{number} {unit}")
    };
    match moment.duration_since(now) {
        Ok(left) => format!("in {}", text(left)),
        Err(passed) => format!("{} ago", text(passed.duration())),
    }
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
