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
        // A certificate chain that ends at an unknown trust anchor causes `UnknownIssuer`. If one of our anchors has
        // the same name as the unknown anchor, the chain causes `BadSignature`.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "unknown-anchor",
        // Our own check of the SPIFFE id has failed. It runs after the certificate chain was verified.
        CertificateError::Other(_) => "certificate-identity",
        _ => "bad-certificate",
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
