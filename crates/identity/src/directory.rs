//! An authority and a trust bundle in a directory, as `leno ca` writes them and a proxy on one machine reads them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::authority::{Authority, BadAuthority, KeyPairPem};
use crate::bundle::{BundleError, TrustBundle};
use crate::files::{self, PRIVATE, PUBLIC};

/// The authority's certificate, in PEM.
pub const CERTIFICATE_FILE: &str = "ca.crt";
/// The authority's private key, in PEM; only its owner may read it.
pub const KEY_FILE: &str = "ca.key";
/// Every anchor that is trusted, in PEM; edit it to add and to remove anchors.
pub const BUNDLE_FILE: &str = "trust-bundle.pem";
/// The certificate of a program that is not a proxy, in PEM.
pub const PROGRAM_CERTIFICATE_FILE: &str = "tls.crt";
/// The private key of a program that is not a proxy, in PEM; only its owner may read it.
pub const PROGRAM_KEY_FILE: &str = "tls.key";

/// Why a directory cannot be used; it names the file and what to do.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A file cannot be read.
    #[error("{}: {source}; name a directory that leno ca init wrote and this user may read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{}: {source}; name a directory that this user may write", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The authority's files make none.
    #[error("{CERTIFICATE_FILE} and {KEY_FILE} in {}: {source}", directory.display())]
    Authority {
        /// Where they are.
        directory: PathBuf,
        /// What is wrong.
        source: BadAuthority,
    },
    /// The trust bundle cannot be used.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: BundleError,
    },
}

/// Reads the authority.
///
/// # Errors
/// [`DirectoryError`] if its files cannot be read or are not of one authority.
pub fn read_authority(directory: &Path) -> Result<Authority, DirectoryError> {
    let (certificate, key) = (read(&directory.join(CERTIFICATE_FILE))?, read(&directory.join(KEY_FILE))?);
    Authority::from_pem(certificate, &key)
        .map_err(|source| DirectoryError::Authority { directory: directory.to_owned(), source })
}

/// Reads the authority's certificate, in PEM, without looking into it.
///
/// # Errors
/// [`DirectoryError::Read`] if it cannot be read.
pub fn read_certificate(directory: &Path) -> Result<String, DirectoryError> {
    read(&directory.join(CERTIFICATE_FILE))
}

/// Reads the trust bundle.
///
/// # Errors
/// [`DirectoryError`] if it cannot be read or has something else than anchors.
pub fn read_bundle(directory: &Path) -> Result<TrustBundle, DirectoryError> {
    let path = directory.join(BUNDLE_FILE);
    TrustBundle::from_pem(read(&path)?.as_bytes()).map_err(|source| DirectoryError::Bundle { path, source })
}

/// Writes an authority, and a trust bundle of its certificate alone; files that are there are replaced.
///
/// # Errors
/// [`DirectoryError::Write`].
pub fn write_authority(directory: &Path, authority: &Authority) -> Result<(), DirectoryError> {
    write(directory, KEY_FILE, &authority.key_pem(), PRIVATE)?;
    write(directory, CERTIFICATE_FILE, authority.certificate_pem(), PUBLIC)?;
    write(directory, BUNDLE_FILE, authority.certificate_pem(), PUBLIC)
}

/// Writes the certificate and key of a program that is not a proxy; files that are there are replaced.
///
/// # Errors
/// [`DirectoryError::Write`].
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
