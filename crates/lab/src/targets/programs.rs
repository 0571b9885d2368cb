//! The paths of binaries that the user may set.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, io as io_error};

/// Binaries that the lab measures instead of the binaries that it finds itself.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Programs {
    /// The leno-proxy binary [default: beside this program]
    #[arg(long, value_name = "PATH")]
    pub leno_proxy: Option<PathBuf>,
    /// The traefik binary [default: found in PATH]
    #[arg(long, value_name = "PATH")]
    pub traefik: Option<PathBuf>,
    /// The linkerd2-proxy binary [default: found in PATH]
    #[arg(long, value_name = "PATH")]
    pub linkerd2_proxy: Option<PathBuf>,
    /// The ztunnel binary [default: found in PATH; without a usable one, a bare TLS tunnel replaces ztunnel]
    #[arg(long, value_name = "PATH")]
    pub ztunnel: Option<PathBuf>,
    /// Whether to use a bare TLS tunnel instead of ztunnel, even if ztunnel can run on this machine.
    #[arg(skip)]
    pub without_ztunnel: bool,
}

impl Programs {
    /// The command-line options that name the same binaries.
    pub(crate) fn words(&self) -> Vec<String> {
        // Name all fields, so that the compiler rejects this code if a field is added.
        let Self { leno_proxy, traefik, linkerd2_proxy, ztunnel, without_ztunnel: _ } = self;
        let flags = [
            ("--leno-proxy", leno_proxy),
            ("--traefik", traefik),
            ("--linkerd2-proxy", linkerd2_proxy),
            ("--ztunnel", ztunnel),
        ];
        let named = flags.into_iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?)));
        named.flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]).collect()
    }
}

/// Returns the path of a binary that the user named with `option`.
///
/// # Errors
/// If the file does not exist; the error ends with `remedy`.
pub(super) fn named(option: &str, path: &Path, remedy: &str) -> Result<PathBuf> {
    if !path.is_file() {
        return Err(Error::Usage(format!("{option} {}: there is no such file; {remedy}", path.display())));
    }
    // Return an absolute path. If a path is a name without a slash, the system would look for the program in PATH.
    std::path::absolute(path).map_err(io_error(path.display().to_string()))
}

/// Creates an error which states that the program `name` cannot be executed; `error` is the reason.
pub(super) fn cannot_start(name: &str, path: &Path, error: &io::Error, remedy: &str) -> Error {
    let path = path.display();
    Error::Usage(match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{name} {path} is not executable; make it so with: chmod +x {path}"),
        _ => format!("{name} {path} does not start: {error}; {remedy}"),
    })
}
