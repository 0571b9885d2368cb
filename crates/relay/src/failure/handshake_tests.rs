use std::sync::Arc;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible};

use super::label;

#[test]
fn errors_of_the_handshake_are_told_apart() {
    let now = UnixTime::now();
    let other = OtherError(Arc::new(std::io::Error::other("it has no SPIFFE id")));
    let cases = [
        (Error::AlertReceived(AlertDescription::UnknownCA), "tls-refused"),
        (CertificateError::Expired.into(), "certificate-expired"),
        (CertificateError::ExpiredContext { time: now, not_after: now }.into(), "certificate-expired"),
        (CertificateError::NotValidYetContext { time: now, not_before: now }.into(), "certificate-not-yet-valid"),
        (CertificateError::UnknownIssuer.into(), "unknown-anchor"),
        (CertificateError::Other(other).into(), "certificate-identity"),
        (CertificateError::BadEncoding.into(), "bad-certificate"),
        (Error::NoCertificatesPresented, "no-certificate"),
        (PeerIncompatible::Tls12NotOffered.into(), "tls-incompatible"),
        (InvalidMessage::InvalidContentType.into(), "tls-malformed"),
        (Error::DecryptError, "tls-malformed"),
        (Error::FailedToGetCurrentTime, "tls-failed"),
    ];
    for (error, expected) in cases {
        assert_eq!(label(&error), expected, "{error}");
    }
}
