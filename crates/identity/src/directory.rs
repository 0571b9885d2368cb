//! An authority and a trust bundle in a directory: `leno ca` writes them, and a proxy on the same machine reads them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;

use crate::authority::{Authority, BadAuthority, KeyPairPem, chain_from_pem};
use crate::bundle::{BundleError, TrustBundle};
use crate::files::{self, PRIVATE, PUBLIC};

/// The authority's certificate, in PEM.
pub const CERTIFICATE_FILE: &str = "ca.crt";
/// The authority's private key, in PEM; only its owner may read it.
pub const KEY_FILE: &str = "ca.key";
/// Every trusted anchor, in PEM. Edit this file to add or remove anchors.
pub const BUNDLE_FILE: &str = "trust-bundle.pem";
/// The certificate of a program that is not a proxy, in PEM.
pub const PROGRAM_CERTIFICATE_FILE: &str = "tls.crt";
/// The private key of a program that is not a proxy, in PEM; only its owner may read it.
pub const PROGRAM_KEY_FILE: &str = "tls.key";

/// The reason why a directory cannot be used. The error's message names the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("{}: {source}; name a directory that leno ca init wrote and this user may read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {source}; name a directory that this user may write", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
    /// The files contain no valid authority.
    #[error("{CERTIFICATE_FILE} and {KEY_FILE} in {}: {source}", directory.display())]
    Authority { directory: PathBuf, source: BadAuthority },
    #[error("{}: {source}", path.display())]
    Bundle { path: PathBuf, source: BundleError },
}

/// Reads the authority.
///
/// # Errors
/// [`DirectoryError`] if the authority's files cannot be read or do not belong to one authority.
pub fn read_authority(directory: &Path) -> Result<Authority, DirectoryError> {
    let (certificate, key) = (read(&directory.join(CERTIFICATE_FILE))?, read(&directory.join(KEY_FILE))?);
    Authority::from_pem(&certificate, &key)
        .map_err(|source| DirectoryError::Authority { directory: directory.to_owned(), source })
}

/// Reads the authority's certificate, and the certificates that lead from it to an anchor.
///
/// # Errors
/// [`DirectoryError`] if the file cannot be read or is not PEM.
pub fn read_chain(directory: &Path) -> Result<Vec<CertificateDer<'static>>, DirectoryError> {
    chain_from_pem(&read(&directory.join(CERTIFICATE_FILE))?)
        .map_err(|source| DirectoryError::Authority { directory: directory.to_owned(), source })
}

/// Reads the trust bundle.
///
/// # Errors
/// [`DirectoryError`] if the bundle cannot be read or is invalid.
pub fn read_bundle(directory: &Path) -> Result<TrustBundle, DirectoryError> {
    let path = directory.join(BUNDLE_FILE);
    TrustBundle::from_pem(read(&path)?.as_bytes()).map_err(|source| DirectoryError::Bundle { path, source })
}

/// Writes an authority, and a trust bundle that contains the authority's certificate. Replaces existing files.
///
/// # Errors
/// [`DirectoryError::Write`] if a file cannot be written.
pub fn write_authority(directory: &Path, authority: &Authority) -> Result<(), DirectoryError> {
    write(directory, KEY_FILE, &authority.key_pem(), PRIVATE)?;
    write(directory, CERTIFICATE_FILE, authority.certificate_pem(), PUBLIC)?;
    write(directory, BUNDLE_FILE, authority.certificate_pem(), PUBLIC)
}

/// Writes the certificate and key of a program that is not a proxy. Replaces existing files.
///
/// # Errors
/// [`DirectoryError::Write`] if a file cannot be written.
pub fn write_key_pair(directory: &Path, pair: &KeyPairPem) -> Result<(), DirectoryError> {
    write(directory, PROGRAM_KEY_FILE, &pair.private_key, PRIVATE)?;
    write(directory, PROGRAM_CERTIFICATE_FILE, &pair.certificate, PUBLIC)
}

fn read(path: &Path) -> Result<String, DirectoryError> {
    fs::read_to_string(path).map_err(|source| DirectoryError::Read { path: path.to_owned(), source })
}

fn write(directory: &Path, name: &str, text: &str, mode: u32) -> Result<(), DirectoryError> {
    let failed = |path: &Path, source| DirectoryError::Write { path: path.to_owned(), source };
    fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
    let path = directory.join(name);
    files::replace(&path, text, mode).map_err(|source| failed(&path, source))
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
