//! The binaries that the user may name.

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
    /// The linkerd2-proxy binary [default: found in PATH]
    #[arg(long, value_name = "PATH")]
    pub linkerd2_proxy: Option<PathBuf>,
    /// The ztunnel binary [default: found in PATH; without a usable one, a bare TLS tunnel replaces ztunnel]
    #[arg(long, value_name = "PATH")]
    pub ztunnel: Option<PathBuf>,
    /// Whether a bare TLS tunnel replaces ztunnel even if the machine has ztunnel.
    #[arg(skip)]
    pub without_ztunnel: bool,
}

impl Programs {
    /// The options on the command line that name the same binaries.
    pub(crate) fn words(&self) -> Vec<String> {
        // Names every field, so that a new one cannot be forgotten.
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
