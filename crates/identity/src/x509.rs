//! Fields of a certificate that neither rustls nor webpki exposes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leno_model::spiffe::TrustDomain;
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer, X509Certificate};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

/// Returns whether a certificate may sign other certificates; `None` if the certificate cannot be parsed.
pub(crate) fn is_authority(certificate: &CertificateDer<'_>) -> Option<bool> {
    Some(parse(certificate)?.is_ca())
}

/// Returns a certificate's validity; `None` if the certificate cannot be parsed or has a date before 1970.
pub(crate) fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let certificate = parse(certificate)?;
    let time = |timestamp: i64| UNIX_EPOCH.checked_add(Duration::from_secs(timestamp.try_into().ok()?));
    Some(Validity {
        not_before: time(certificate.validity().not_before.timestamp())?,
        not_after: time(certificate.validity().not_after.timestamp())?,
    })
}

/// Returns the trust domain in an authority's certificate, where it is written as a SPIFFE id without a path; `None`
/// for any other certificate.
pub(crate) fn trust_domain(certificate: &CertificateDer<'_>) -> Option<TrustDomain> {
    if !is_authority(certificate)? {
        return None;
    }
    let parsed = EndEntityCert::try_from(certificate).ok()?;
    let mut uris = parsed.valid_uri_names();
    match (uris.next(), uris.next()) {
        (Some(uri), None) => uri.strip_prefix("spiffe://")?.parse().ok(),
        _ => None,
    }
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    let (rest, certificate) = X509Certificate::from_der(certificate).ok()?;
    rest.is_empty().then_some(certificate)
}
