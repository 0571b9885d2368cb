use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

use super::explain;

#[test]
fn each_reason_has_a_line_of_its_own_that_says_what_to_do() {
    let certificate = |error| Error::InvalidCertificate(error);
    let errors = [
        certificate(CertificateError::UnknownIssuer),
        certificate(CertificateError::Expired),
        certificate(CertificateError::NotValidYet),
        certificate(CertificateError::InvalidPurpose),
        Error::NoCertificatesPresented,
        Error::NoApplicationProtocol,
        Error::InvalidMessage(InvalidMessage::InvalidContentType),
        Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered),
        Error::AlertReceived(AlertDescription::UnknownCA),
        Error::AlertReceived(AlertDescription::CertificateExpired),
        Error::AlertReceived(AlertDescription::CertificateRequired),
        Error::AlertReceived(AlertDescription::ProtocolVersion),
        Error::AlertReceived(AlertDescription::NoApplicationProtocol),
        Error::AlertReceived(AlertDescription::BadCertificate),
        Error::AlertReceived(AlertDescription::InternalError),
        Error::DecryptError,
    ];
    let mut lines: Vec<_> = errors.iter().map(explain).collect();
    for line in &lines {
        assert!(line.contains("the peer") && line.contains(';') && !line.contains('\n'), "{line}");
    }
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), errors.len(), "{lines:#?}");
}

#[test]
fn an_error_that_needs_no_words_of_ours_is_shown_as_rustls_has_it() {
    let line = explain(&Error::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon));
    assert!(line.contains("NoKxGroupsInCommon"), "{line}");
}
