//! The binaries that a person may name.

use std::path::PathBuf;

/// Binaries to measure in place of those that the lab finds itself.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Programs {
    /// The leno-proxy binary [default: beside this program]
    #[arg(long, value_name = "PATH")]
    pub leno_proxy: Option<PathBuf>,
    /// The traefik binary [default: found in PATH]
    #[arg(long, value_name = "PATH")]
    pub traefik: Option<PathBuf>,
}
