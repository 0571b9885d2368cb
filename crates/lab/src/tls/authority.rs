//! The certificate authority of an experiment.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use time::OffsetDateTime;

use super::spiffe_id;
use crate::error::{Error, Result, io};

/// A certificate is valid from this long before its creation, so that a peer whose clock is behind accepts it.
const BACKDATED: Duration = Duration::from_secs(60 * 60);
/// Time from a certificate's creation until it expires. It exceeds the duration of any experiment.
const VALID: Duration = Duration::from_secs(24 * 60 * 60);
const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";

/// A certificate authority whose key and certificate are files of a directory, in the format of `leno ca init`.
pub(crate) struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// The paths of a workload's credentials, all in PEM.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    /// Certificate of the authority, with which the workload verifies its peers.
    pub(crate) authority: PathBuf,
    /// The workload's own certificate.
    pub(crate) certificate: PathBuf,
    /// The workload's key.
    pub(crate) key: PathBuf,
    /// Certificate and key in one file, the format that HAProxy reads.
    pub(crate) both: PathBuf,
}

impl Authority {
    /// Creates an authority, and writes its certificate and key into `dir`.
    ///
    /// # Errors
    /// If the directory cannot be written to.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        let key = new_key()?;
        let mut params = params("leno lab")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(cannot("making an authority"))?;
        fs::create_dir_all(dir).map_err(io(format!("making {}", dir.display())))?;
        write(&dir.join(CERTIFICATE), &certificate.pem())?;
        write(&dir.join(KEY), &key.serialize_pem())?;
        Ok(Self { dir: dir.to_owned(), issuer: Issuer::new(params, key) })
    }

    /// Opens the authority whose certificate and key are in `dir`.
    ///
    /// # Errors
    /// If the authority is missing or invalid.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let what = format!("reading the authority in {}", dir.display());
        let read = |name: &str| fs::read_to_string(dir.join(name)).map_err(io(what.as_str()));
        let key = KeyPair::from_pem(&read(KEY)?).map_err(cannot(&what))?;
        let issuer = Issuer::from_ca_cert_pem(&read(CERTIFICATE)?, key).map_err(cannot(&what))?;
        Ok(Self { dir: dir.to_owned(), issuer })
    }

    /// Creates a key and a certificate for `workload` (for example `ns/lab/sa/client`), and writes them into the
    /// authority's directory.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub(crate) fn issue(&self, workload: &str) -> Result<Credentials> {
        self.issue_to(workload.rsplit('/').next().unwrap_or(workload), workload_params(workload)?)
    }

    /// Creates a key and a certificate for a server, and writes them into the authority's directory. Clients verify the
    /// server by one of its IP addresses.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub(crate) fn issue_for_addresses(&self, name: &str, addresses: &[IpAddr]) -> Result<Credentials> {
        let mut params = params(name)?;
        params.subject_alt_names = addresses.iter().copied().map(SanType::IpAddress).collect();
        self.issue_to(name, for_both_sides(params))
    }

    fn issue_to(&self, name: &str, mut params: CertificateParams) -> Result<Credentials> {
        let what = format!("making a certificate for {name}");
        let key = new_key()?;
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(cannot(&what))?.pem();
        let key = key.serialize_pem();
        let file = |kind: &str| self.dir.join(format!("{name}.{kind}"));
        let credentials = Credentials {
            authority: self.dir.join(CERTIFICATE),
            certificate: file("crt"),
            key: file("key"),
            both: file("pem"),
        };
        write(&credentials.certificate, &certificate)?;
        write(&credentials.key, &key)?;
        write(&credentials.both, &(certificate + &key))?;
        Ok(credentials)
    }

    /// The authority's own certificate, in PEM.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn certificate(&self) -> Result<String> {
        let path = self.dir.join(CERTIFICATE);
        fs::read_to_string(&path).map_err(io(format!("reading {}", path.display())))
    }

    /// Like [`Self::sign`], but rejects a request that has any other name than `name`.
    ///
    /// # Errors
    /// If the request is invalid, lacks the name, or has another name.
    pub(crate) fn sign_only(&self, request: &[u8], name: &str) -> Result<Signed> {
        let what = signing(name);
        if !parse(request, &what)?.params.subject_alt_names.iter().all(|it| is_named(it, name)) {
            return Err(Error::Tls { what, why: format!("the request has another name than {name}") });
        }
        self.sign(request, name)
    }

    /// Signs a certificate for the key and the names in a certificate signing request. `name` must be one of the
    /// request's DNS names or URIs.
    ///
    /// # Errors
    /// If the request is invalid, or lacks the name.
    pub(crate) fn sign(&self, request: &[u8], name: &str) -> Result<Signed> {
        let what = signing(name);
        let mut request = parse(request, &what)?;
        if !request.params.subject_alt_names.iter().any(|it| is_named(it, name)) {
            return Err(Error::Tls { what, why: format!("the request lacks the name {name}") });
        }
        let now = SystemTime::now();
        request.params = for_both_sides(request.params);
        request.params.is_ca = IsCa::NoCa;
        request.params.use_authority_key_identifier_extension = true;
        (request.params.not_before, request.params.not_after) = (date(now - BACKDATED), date(now + VALID));
        let certificate = request.signed_by(&self.issuer).map_err(cannot(&what))?;
        Ok(Signed { pem: certificate.pem(), certificate: certificate.into(), expires: request.params.not_after.into() })
    }
}

/// The text that names the step in error messages.
fn signing(name: &str) -> String {
    format!("signing a certificate for {name}")
}

fn parse(request: &[u8], what: &str) -> Result<CertificateSigningRequestParams> {
    CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(request)).map_err(cannot(what))
}

/// A signed certificate, in DER and in PEM.
pub(crate) struct Signed {
    pub(crate) certificate: CertificateDer<'static>,
    /// The same certificate, in PEM.
    pub(crate) pem: String,
    pub(crate) expires: SystemTime,
}

fn is_named(candidate: &SanType, name: &str) -> bool {
    match candidate {
        SanType::DnsName(dns) => dns.as_str() == name,
        SanType::URI(uri) => uri.as_str() == name,
        _ => false,
    }
}

/// A workload's new key, and the certificate signing request for it.
pub(crate) struct Request {
    /// The key as PKCS #8, in DER.
    pub(crate) key: Vec<u8>,
    /// The certificate signing request, in DER.
    pub(crate) csr: Vec<u8>,
}

impl Request {
    /// Creates a key and a request for a certificate with the DNS name `name` and the SPIFFE id of `workload`.
    ///
    /// # Errors
    /// If `name` is no DNS name.
    pub(crate) fn new(name: &str, workload: &str) -> Result<Self> {
        let what = format!("requesting a certificate for {name}");
        let key = new_key()?;
        let mut params = workload_params(workload)?;
        // Put the DNS name before the SPIFFE id, because linkerd2-proxy uses the first name as the peer's identity.
        params.subject_alt_names.insert(0, SanType::DnsName(name.try_into().map_err(cannot(&what))?));
        let csr = params.serialize_request(&key).map_err(cannot(&what))?.der().to_vec();
        Ok(Self { key: key.serialize_der(), csr })
    }
}

/// The parameters of a workload's certificate. The workload may present it both as a client and as a server.
fn workload_params(workload: &str) -> Result<CertificateParams> {
    let mut params = params(workload.rsplit('/').next().unwrap_or(workload))?;
    let id = spiffe_id(workload).try_into().map_err(cannot("making a certificate"))?;
    params.subject_alt_names = vec![SanType::URI(id)];
    Ok(for_both_sides(params))
}

/// Permits the use of a certificate both as a client and as a server.
fn for_both_sides(mut params: CertificateParams) -> CertificateParams {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn new_key() -> Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(cannot("making a key"))
}

/// Parameters of a certificate that is valid from [`BACKDATED`] before now until [`VALID`] after now.
fn params(name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new()).map_err(cannot("making a certificate"))?;
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now();
    (params.not_before, params.not_after) = (date(now - BACKDATED), date(now + VALID));
    Ok(params)
}

/// Converts a time to whole seconds, the resolution of certificates.
fn date(time: SystemTime) -> OffsetDateTime {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let date = i64::try_from(seconds).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    date.unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(io(format!("writing {}", path.display())))
}

fn cannot(what: &str) -> impl FnOnce(rcgen::Error) -> Error {
    let what = what.to_owned();
    move |source| Error::Tls { what, why: source.to_string() }
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
