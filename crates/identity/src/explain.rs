//! Log lines for failed handshakes: the reason and the remedy.

use std::io;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use crate::peer::PeerIdError;

/// Returns one line with the reason of a failed handshake and the remedy.
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::AlertReceived(alert) => alert_received(*alert),
        Error::NoCertificatesPresented => PeerIdError::NoCertificate.to_string(),
        Error::PeerIncompatible(
            PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled,
        ) => "the peer does not speak TLS 1.3; upgrade it, or let it connect without the mesh's TLS".to_owned(),
        Error::NoApplicationProtocol => {
            "the peer does not offer HTTP/2 by ALPN; connect to this port from a proxy of this mesh".to_owned()
        }
        Error::InvalidMessage(_) => "the peer does not speak TLS here; connect two proxies of this mesh".to_owned(),
        other => format!("the TLS handshake failed: {other}; look at the peer's log too"),
    }
}

/// Like [`explain()`], for an I/O error that wraps a TLS error. Other errors are shown unchanged.
pub fn explain_io(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    tls.map_or_else(|| error.to_string(), explain)
}

/// Returns the text of the innermost error of a chain of sources.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no anchor of our trust bundle signed the peer's certificate; add the peer's anchor to our trust bundle, or \
             have our authority issue the peer's certificate"
                .to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let ago = seconds_between(*not_after, *time);
            format!("the peer's certificate expired {ago} s ago; look in its log why it was not renewed, or set the clocks")
        }
        CertificateError::Expired => {
            "the peer's certificate expired; look in its log why it was not renewed, or set the clocks".to_owned()
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let still = seconds_between(*time, *not_before);
            format!("the peer's certificate is not valid for another {still} s; set the clocks of both machines")
        }
        CertificateError::NotValidYet => {
            "the peer's certificate is not valid yet; set the clocks of both machines".to_owned()
        }
        CertificateError::Other(other) => match other.0.downcast_ref::<PeerIdError>() {
            Some(error) => error.to_string(),
            None => unusable(&other.to_string()),
        },
        other => unusable(&other.to_string()),
    }
}

fn unusable(why: &str) -> String {
    format!("the peer's certificate cannot be used ({why}); have our authority issue it")
}

/// Explains an alert that the peer sent (RFC 8446 section 6.2).
fn alert_received(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "the peer trusts no anchor of our certificate; add our anchor to its trust bundle".to_owned()
        }
        AlertDescription::CertificateExpired => {
            "the peer says that our certificate has expired or is not valid yet; set the clocks of both machines"
                .to_owned()
        }
        AlertDescription::CertificateRequired => {
            "the peer requires a client certificate and we sent none; give this proxy an identity".to_owned()
        }
        AlertDescription::ProtocolVersion => {
            "the peer does not speak TLS 1.3; upgrade it, or do not name it as part of the mesh".to_owned()
        }
        AlertDescription::NoApplicationProtocol => {
            "the peer does not accept HTTP/2 by ALPN; check that a proxy of this mesh serves that port".to_owned()
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => {
            format!("the peer refused our certificate ({alert:?}); see its log")
        }
        other => format!("the peer ended the TLS handshake ({other:?}); see its log"),
    }
}

fn seconds_between(earlier: UnixTime, later: UnixTime) -> u64 {
    later.as_secs().saturating_sub(earlier.as_secs())
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
