//! How a TLS handshake failed.

use rustls::{CertificateError, Error};

use super::ConnectionFailure;

/// Kinds of failed handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The peer sent an alert.
    Refused,
    /// The peer's certificate has expired.
    CertificateExpired,
    /// The peer's certificate is not valid yet.
    CertificateNotYetValid,
    /// No anchor of ours signed the peer's certificate.
    UnknownAnchor,
    /// The peer's certificate names no workload of ours.
    CertificateIdentity,
    /// The peer's certificate cannot be used.
    BadCertificate,
    /// The peer sent no certificate.
    NoCertificate,
    /// The peer speaks TLS otherwise than we do.
    Incompatible,
    /// The peer sent what is not TLS.
    Malformed,
    /// Anything else.
    Other,
}

impl HandshakeFailure {
    /// What kind of failure an error is.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::AlertReceived(_) => Self::Refused,
            Error::InvalidCertificate(error) => Self::of_certificate(error),
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::Incompatible,
            Error::InvalidMessage(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::PeerMisbehaved(_)
            | Error::PeerSentOversizedRecord
            | Error::DecryptError => Self::Malformed,
            _ => Self::Other,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::CertificateExpired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::CertificateNotYetValid,
            // A signature does not match where another anchor has the same name.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownAnchor,
            // Our own check of the SPIFFE id, after the chain was found good.
            CertificateError::Other(_) => Self::CertificateIdentity,
            _ => Self::BadCertificate,
        }
    }

    /// Its label in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Refused => "tls-refused",
            Self::CertificateExpired => "certificate-expired",
            Self::CertificateNotYetValid => "certificate-not-yet-valid",
            Self::UnknownAnchor => "unknown-anchor",
            Self::CertificateIdentity => "certificate-identity",
            Self::BadCertificate => "bad-certificate",
            Self::NoCertificate => "no-certificate",
            Self::Incompatible => "tls-incompatible",
            Self::Malformed => "tls-malformed",
            Self::Other => "tls-failed",
        }
    }
}

impl ConnectionFailure {
    /// A handshake that ended in `error`, of which `explanation` says why and what to do.
    pub fn handshake(error: &Error, explanation: String) -> Self {
        Self::Handshake { kind: HandshakeFailure::of(error), explanation }
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
