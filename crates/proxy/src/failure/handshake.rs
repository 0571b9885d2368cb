//! The reasons of failed TLS handshakes, for metrics.

use rustls::{CertificateError, Error};

/// The label of a handshake that ended in `error`.
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
        // If another anchor has the same name, the error is a wrong signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "unknown-anchor",
        // Our own check of the SPIFFE id, after the chain was verified.
        CertificateError::Other(_) => "certificate-identity",
        _ => "bad-certificate",
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
