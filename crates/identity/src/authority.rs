//! A certificate authority: for the control plane, for proxies on one machine, and for tests.
//!
//! The authority's certificate names the trust domain by a SPIFFE id without a path (X509-SVID section 3). From a
//! request, the authority uses only the key. It sets all other fields of the certificate itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leno_model::spiffe::{SpiffeId, TrustDomain};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType,
    SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, DnsName};
use rustls::server::ParsedCertificate;
use time::OffsetDateTime;

use crate::bundle::TrustBundle;
use crate::pem::{CERTIFICATE, block};
use crate::tls::provider;
use crate::x509::{Validity, trust_domain, validity};

/// Allowance for peers whose clocks are behind ours: the validity of a new certificate starts this much time before its
/// issue.
pub const CLOCK_SKEW: Duration = Duration::from_secs(300);

/// Default lifetime of an SVID.
pub const SVID_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Lifetime of an authority: ten years.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3_652 * 24 * 60 * 60);

/// Upper limit of [`Validity::least_left`]: 7 days. The control plane renews its own authority 30 days before the
/// authority expires. So if less than 7 days are left, the renewal has failed for weeks.
const LEAST_LEFT_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Maximum size of a signing request, in bytes. A request with a P-256 key and the longest SPIFFE id has fewer than
/// 3,000 bytes.
const CSR_MAX_BYTES: usize = 8_192;

/// A certificate authority: its signing key, its certificate, and the chain to an anchor.
#[derive(Debug)]
pub struct Authority {
    trust_domain: TrustDomain,
    validity: Validity,
    /// `certificates` as PEM. Always encode this text from `certificates`: a text that was read from a file may contain
    /// a private key.
    certificate_pem: String,
    /// The authority's own certificate first, then the certificates that lead from it to an anchor.
    certificates: Vec<CertificateDer<'static>>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key in PEM, for a program that is not a proxy.
#[derive(Debug)]
pub struct KeyPairPem {
    /// The certificate. Certificates that lead to an anchor may follow.
    pub certificate: String,
    /// The private key in PKCS #8.
    pub private_key: String,
}

/// The reason why PEM texts do not contain a usable authority. The error's message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum BadAuthority {
    /// The certificate is not the certificate of an authority with a trust domain.
    #[error("the certificate is not of an authority with a trust domain; make one with leno ca init")]
    Certificate,
    /// The key cannot be used.
    #[error("the private key cannot be used ({0}); make one with leno ca init")]
    Key(rcgen::Error),
    /// The certificate is for another key.
    #[error("the certificate is for another key; copy both from one directory")]
    Mismatch,
}

/// The reason why a request was not signed. The error's message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The request is larger than `CSR_MAX_BYTES`, the limit for requests.
    #[error("the certificate signing request has {0} bytes; at most {CSR_MAX_BYTES} are read")]
    TooLong(usize),
    /// The request is malformed, or not signed with its own key.
    #[error("the certificate signing request is invalid ({0}); send one in DER, signed with its own key")]
    Request(rcgen::Error),
    /// The request is not for an ECDSA key on P-256.
    #[error("the certificate signing request is not for an ECDSA key on P-256; make such a key")]
    KeyKind,
    /// The request contains a name other than the workload to certify.
    #[error("the certificate signing request names {found}, and only {wanted} may be certified")]
    WrongName {
        /// The name in the request.
        found: String,
        /// The name that may be certified.
        wanted: SpiffeId,
    },
    /// The workload is in another trust domain than the authority.
    #[error("{wanted} is not of this authority's trust domain, {ours}; ask the authority of its own trust domain")]
    WrongTrustDomain {
        /// The workload to certify.
        wanted: SpiffeId,
        /// The authority's trust domain.
        ours: TrustDomain,
    },
    /// The authority itself has expired, or expires before the certificate would start.
    #[error(
        "the authority's own certificate has expired, or expires before the new certificate starts; make another with leno \
         ca init and rotate to it"
    )]
    Expired,
    /// Making a key or a signature failed.
    #[error("the certificate could not be made: {0}")]
    Crypto(#[from] rcgen::Error),
}

impl Authority {
    /// Makes an authority with a new key and a self-signed certificate.
    ///
    /// # Errors
    /// If the system's random numbers fail.
    pub fn create(trust_domain: TrustDomain, now: SystemTime) -> Result<Self, rcgen::Error> {
        let (key, validity) = (KeyPair::generate()?, Validity::starting(now, AUTHORITY_LIFETIME));
        let params = authority_params(&trust_domain, validity, 0)?;
        let certificate = params.self_signed(&key)?;
        Ok(Self::new(trust_domain, validity, &certificate, Issuer::new(params, key)))
    }

    /// Like [`Authority::create`], for an authority that may certify other authorities: see [`Authority::delegate`].
    ///
    /// # Errors
    /// If the system's random numbers fail.
    pub fn create_anchor(trust_domain: TrustDomain, now: SystemTime) -> Result<Self, rcgen::Error> {
        let (key, validity) = (KeyPair::generate()?, Validity::starting(now, AUTHORITY_LIFETIME));
        let params = authority_params(&trust_domain, validity, 1)?;
        let certificate = params.self_signed(&key)?;
        Ok(Self::new(trust_domain, validity, &certificate, Issuer::new(params, key)))
    }

    /// Makes another authority of the same trust domain, certified by this authority. The new authority's certificate
    /// expires no later than this authority's certificate.
    ///
    /// # Errors
    /// [`SignError`] if this authority has expired or the system's random numbers fail.
    pub fn delegate(&self, now: SystemTime, lifetime: Duration) -> Result<Self, SignError> {
        let (key, validity) = (KeyPair::generate()?, self.capped(Validity::starting(now, lifetime), now)?);
        let mut params = authority_params(&self.trust_domain, validity, 0)?;
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Self::new(self.trust_domain.clone(), validity, &certificate, Issuer::new(params, key)))
    }

    fn new(
        trust_domain: TrustDomain,
        validity: Validity,
        certificate: &Certificate,
        issuer: Issuer<'static, KeyPair>,
    ) -> Self {
        Self::of(trust_domain, validity, vec![certificate.der().clone()], issuer)
    }

    /// Reads an authority from PEM. `certificate_pem` has the authority's certificate; the certificates that lead from
    /// it to an anchor may follow. `key_pem` has the authority's private key.
    ///
    /// # Errors
    /// [`BadAuthority`] unless both texts belong to one authority of one trust domain.
    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, BadAuthority> {
        let certificates = chain_from_pem(certificate_pem)?;
        let certificate = certificates.first().ok_or(BadAuthority::Certificate)?;
        let (Some(trust_domain), Some(validity)) = (trust_domain(certificate), validity(certificate)) else {
            return Err(BadAuthority::Certificate);
        };
        let key = KeyPair::from_pem(key_pem).map_err(BadAuthority::Key)?;
        let parsed = ParsedCertificate::try_from(certificate).map_err(|_| BadAuthority::Certificate)?;
        if *parsed.subject_public_key_info() != *key.subject_public_key_info() {
            return Err(BadAuthority::Mismatch);
        }
        let issuer = Issuer::from_ca_cert_der(certificate, key).map_err(|_| BadAuthority::Certificate)?;
        Ok(Self::of(trust_domain, validity, certificates, issuer))
    }

    fn of(
        trust_domain: TrustDomain,
        validity: Validity,
        certificates: Vec<CertificateDer<'static>>,
        issuer: Issuer<'static, KeyPair>,
    ) -> Self {
        let certificate_pem = certificates.iter().map(|certificate| block(CERTIFICATE, certificate)).collect();
        Self { trust_domain, validity, certificate_pem, certificates, issuer }
    }

    /// Returns the trust domain of the workloads that the authority certifies.
    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    /// Returns the authority's certificate in PEM, followed by the certificates that lead to an anchor, and nothing
    /// else.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Returns the certificates of [`Authority::certificate_pem`] in DER, in the same order.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// Returns the certificates that follow an issued certificate in its chain: the authority's own certificates before
    /// the first anchor of `bundle`. Every peer has the anchor, so the peer needs neither the anchor nor any
    /// certificate after it.
    pub fn intermediates(&self, bundle: &TrustBundle) -> Vec<CertificateDer<'static>> {
        self.certificates.iter().take_while(|certificate| !bundle.anchors().contains(certificate)).cloned().collect()
    }

    /// Returns the validity of the authority's own certificate.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Returns the authority's private key in PEM (PKCS #8).
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a certificate to `id` at the time `now`, for the key in a request (RFC 2986, in DER).
    ///
    /// The new certificate expires no later than the authority's own certificate.
    ///
    /// # Errors
    /// [`SignError`] if the request is not signed with its own key, or names anything but `id`.
    pub fn sign(
        &self,
        id: &SpiffeId,
        csr: &[u8],
        validity: Validity,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, SignError> {
        self.sign_with_names(id, csr, &[], validity, now)
    }

    /// Like [`Authority::sign`], with DNS names in addition to the SPIFFE id: for the control plane's own certificate,
    /// whose names come from its command line. Never call this function for another program's request: it does not
    /// check who may use a DNS name.
    ///
    /// # Errors
    /// [`SignError`] in the same cases as [`Authority::sign`].
    pub fn sign_with_names(
        &self,
        id: &SpiffeId,
        csr: &[u8],
        dns_names: &[DnsName<'_>],
        validity: Validity,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, SignError> {
        if csr.len() > CSR_MAX_BYTES {
            return Err(SignError::TooLong(csr.len()));
        }
        let request = CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(csr))
            .map_err(SignError::Request)?;
        if request.public_key.algorithm() != &PKCS_ECDSA_P256_SHA256 {
            return Err(SignError::KeyKind);
        }
        let name = uri(id)?;
        if let Some(other) = request.params.subject_alt_names.iter().find(|other| **other != name) {
            return Err(SignError::WrongName { found: shown(other), wanted: id.clone() });
        }
        Ok(self.certify(id, dns_names, &request.public_key, validity, now)?.into())
    }

    /// Makes a key pair and a certificate for it, for a program that is not a proxy.
    ///
    /// # Errors
    /// [`SignError`] in the same cases as [`Authority::sign`].
    pub fn issue_key_pair(&self, id: &SpiffeId, validity: Validity, now: SystemTime) -> Result<KeyPairPem, SignError> {
        let key = KeyPair::generate()?;
        let certificate = self.certify(id, &[], &key, validity, now)?.pem();
        Ok(KeyPairPem { certificate, private_key: key.serialize_pem() })
    }

    fn certify(
        &self,
        id: &SpiffeId,
        dns_names: &[DnsName<'_>],
        key: &impl PublicKeyData,
        validity: Validity,
        now: SystemTime,
    ) -> Result<Certificate, SignError> {
        if id.trust_domain != self.trust_domain {
            return Err(SignError::WrongTrustDomain { wanted: id.clone(), ours: self.trust_domain.clone() });
        }
        let purposes = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let names: Result<Vec<_>, _> = [uri(id)].into_iter().chain(dns_names.iter().map(dns)).collect();
        self.certify_names(names?, purposes, key, validity, now)
    }

    /// Issues a certificate with exactly these names and key usages.
    pub(crate) fn certify_names(
        &self,
        names: Vec<SanType>,
        purposes: Vec<ExtendedKeyUsagePurpose>,
        key: &impl PublicKeyData,
        validity: Validity,
        now: SystemTime,
    ) -> Result<Certificate, SignError> {
        let mut params = params(self.capped(validity, now)?, &random_serial()?);
        params.subject_alt_names = names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes;
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(key, &self.issuer)?)
    }

    /// Returns a certificate's validity, but with an end that is no later than the end of the authority's own validity.
    /// This limit applies to every certificate that the authority issues.
    ///
    /// # Errors
    /// [`SignError::Expired`] if the authority's own certificate has expired at `now`, the time of the issue, or expires
    /// before the validity starts.
    pub fn capped(&self, validity: Validity, now: SystemTime) -> Result<Validity, SignError> {
        if now.max(validity.not_before) >= self.validity.not_after {
            return Err(SignError::Expired);
        }
        Ok(Validity { not_after: validity.not_after.min(self.validity.not_after), ..validity })
    }
}

impl KeyPairPem {
    /// Appends the certificates that lead to an anchor: see [`Authority::intermediates`].
    #[must_use]
    pub fn followed_by(mut self, intermediates: &[CertificateDer<'_>]) -> Self {
        self.certificate.extend(intermediates.iter().map(|one| block(CERTIFICATE, one)));
        self
    }
}

impl Validity {
    /// Returns the deadline for the renewal of an authority, as the time before its expiry.
    ///
    /// This time is a quarter of the authority's validity, but at least [`SVID_LIFETIME`] and at most 7 days. If less
    /// than [`SVID_LIFETIME`] is left, new SVIDs expire early, together with the authority. The quarter matters for
    /// authorities with a short validity, which tools like cert-manager renew every day or two.
    pub fn least_left(&self) -> Duration {
        let whole = self.not_after.duration_since(self.not_before).unwrap_or_default();
        LEAST_LEFT_MAX.min(SVID_LIFETIME.max(whole / 4))
    }

    /// Returns a validity that ends `lifetime` after `now`. It starts a little before `now`, for peers whose clocks are
    /// behind.
    pub fn starting(now: SystemTime, lifetime: Duration) -> Self {
        Self { not_before: now - CLOCK_SKEW, not_after: now + lifetime }
    }
}

/// Reads the certificates of an authority from PEM: its own certificate, then the certificates that lead to an anchor.
///
/// # Errors
/// [`BadAuthority::Certificate`] if a certificate is no valid PEM.
pub fn chain_from_pem(text: &str) -> Result<Vec<CertificateDer<'static>>, BadAuthority> {
    let certificates = CertificateDer::pem_slice_iter(text.as_bytes());
    certificates.collect::<Result<_, _>>().map_err(|_| BadAuthority::Certificate)
}

fn uri(id: &SpiffeId) -> Result<SanType, rcgen::Error> {
    Ok(SanType::URI(id.to_string().try_into()?))
}

pub(crate) fn dns(name: &DnsName<'_>) -> Result<SanType, rcgen::Error> {
    Ok(SanType::DnsName(name.as_ref().try_into()?))
}

/// Returns the content of an authority's certificate. `below` is the path length: the number of authorities that may
/// follow this authority in a chain.
fn authority_params(
    trust_domain: &TrustDomain,
    validity: Validity,
    below: u8,
) -> Result<CertificateParams, rcgen::Error> {
    let serial = random_serial()?;
    let mut params = params(validity, &serial);
    // Add a part of the serial number to the name, so that two authorities of one trust domain have different names.
    let [a, b, c, d, ..] = serial;
    params.distinguished_name.push(DnType::CommonName, format!("{trust_domain} {a:02x}{b:02x}{c:02x}{d:02x}"));
    params.subject_alt_names = vec![SanType::URI(format!("spiffe://{trust_domain}").try_into()?)];
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Returns the content of a certificate with its dates and serial number; all other fields are still empty.
fn params(validity: Validity, serial: &[u8]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.not_before = date(validity.not_before);
    params.not_after = date(validity.not_after);
    params.serial_number = Some(SerialNumber::from_slice(serial));
    params
}

/// Converts a time to whole seconds, as in certificates. A time that cannot be represented becomes 1970.
fn date(time: SystemTime) -> OffsetDateTime {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = i64::try_from(seconds).unwrap_or_default();
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Makes a serial number: positive, of full length, with 126 random bits (RFC 5280 section 4.1.2.2).
fn random_serial() -> Result<[u8; 16], rcgen::Error> {
    let mut serial = [0; 16];
    provider().secure_random.fill(&mut serial).map_err(|_| rcgen::Error::RingUnspecified)?;
    serial[0] = serial[0] & 0x3f | 0x40;
    Ok(serial)
}

/// Shortens a name in a request for a log line.
fn shown(name: &SanType) -> String {
    const SHOWN_MAX_CHARS: usize = 200;
    let text = match name {
        SanType::URI(text) | SanType::DnsName(text) | SanType::Rfc822Name(text) => text.as_str().to_owned(),
        other => format!("{other:?}"),
    };
    text.chars().take(SHOWN_MAX_CHARS).collect()
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
