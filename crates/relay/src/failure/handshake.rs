//! The reasons of failed TLS handshakes, for metrics.

use rustls::{CertificateError, Error};

/// Returns the label of a handshake that ended with `error`.
pub(super) fn label(error: &Error) -> &'static str {
    match error {
        Error::AlertReceived(_) => "tls-refused",
        Error::InvalidCertificate(error) => certificate_label(error),
        Error::NoCertificatesPresented => "no-certificate",
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => "tls-incompatible",
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerMisbehaved(_)
        | Error::PeerSentOversizedRecord
        | Error::DecryptError => "tls-malformed",
        _ => "tls-failed",
    }
}

fn certificate_label(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate-expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "certificate-not-yet-valid",
        // A certificate chain that ends at an unknown trust anchor causes the first error. If a known anchor has the
        // same name as the unknown anchor, the chain causes the second error.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "unknown-anchor",
        // The error of our own check of the SPIFFE id, which follows the verification of the chain.
        CertificateError::Other(_) => "certificate-identity",
        _ => "bad-certificate",
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
