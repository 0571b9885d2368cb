//! The certificate authority of an experiment.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, SanType,
};
use time::OffsetDateTime;

use super::spiffe_id;
use crate::error::{Error, Result, io};

/// Tolerated difference of clocks.
const BACKDATED: Duration = Duration::from_secs(60 * 60);
/// Validity of certificates: longer than any experiment.
const VALID: Duration = Duration::from_secs(24 * 60 * 60);
const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";

/// A certificate authority in a directory, as `leno ca init` writes one.
pub(crate) struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// The files of a workload's credentials, in PEM.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    /// Certificate of the authority, to verify the peer.
    pub(crate) authority: PathBuf,
    /// The workload's own certificate.
    pub(crate) certificate: PathBuf,
    /// The workload's key.
    pub(crate) key: PathBuf,
    /// Certificate and key in one file, as HAProxy reads them.
    pub(crate) both: PathBuf,
}

impl Authority {
    /// Creates an authority, with its certificate and key in `dir`.
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

    /// Opens the authority in `dir`.
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

    /// Creates a key and a certificate for `workload` (`ns/lab/sa/client`), in files of the authority's directory.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub(crate) fn issue(&self, workload: &str) -> Result<Credentials> {
        let name = workload.rsplit('/').next().unwrap_or(workload);
        let what = format!("making a certificate for {workload}");
        let key = new_key()?;
        let mut params = params(name)?;
        let id = spiffe_id(workload).try_into().map_err(cannot(&what))?;
        params.subject_alt_names = vec![SanType::URI(id)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
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
}

fn new_key() -> Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(cannot("making a key"))
}

/// Parameters of a certificate that is valid from a while ago until long after the experiment.
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
