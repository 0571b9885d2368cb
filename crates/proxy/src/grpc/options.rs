//! The command line of `leno-proxy grpc`, and the bootstrap that is made from it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;
use leno_admin::logging::{LogFilter, LogFormat};
use leno_model::spiffe::Workload;
use leno_xds::bootstrap::{Bootstrap, Certificates, Client, bootstrap};

use crate::args::{ADMIN, Exit, explain};
use crate::identity_args::{IdentityArgs, IssuerPlace, parse_control};

/// The file of the certificate chain; the workload's certificate comes first.
pub(super) const CHAIN: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
/// The file of the trust anchors.
pub(super) const ANCHORS: &str = "ca.crt";
/// The bootstrap file. The environment variable GRPC_XDS_BOOTSTRAP of the gRPC program must name this file.
pub(super) const BOOTSTRAP: &str = "bootstrap.json";

/// Gives a gRPC program without a proxy its identity: writes its certificate, its key, the trust anchors and an xDS
/// bootstrap to files, and keeps them up to date
#[derive(Debug, Parser)]
#[command(name = "leno-proxy grpc", version, max_term_width = 100)]
struct Line {
    /// Directory for tls.crt, tls.key, ca.crt and bootstrap.json; every process that may read it may act as the
    /// workload
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,

    /// Control plane in the bootstrap: a name in its certificate, and a port
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_control)]
    control: String,

    /// Name of the program in the bootstrap; the control plane shows it on its page /clients
    #[arg(long, value_name = "NAME", default_value = "client")]
    node: String,

    #[command(flatten)]
    identity: IdentityArgs,

    /// Address for /live, /ready and /metrics
    #[arg(long, value_name = "ADDR", default_value_t = ADMIN)]
    admin: SocketAddr,

    /// Log levels: off, error, warn, info, debug or trace, for everything or by target: info,leno_proxy=debug
    #[arg(long, env = "LENO_LOG", value_name = "LEVELS", default_value = "info")]
    log: LogFilter,

    /// Format of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Plain)]
    log_format: LogFormat,
}

/// A complete command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(super) directory: PathBuf,
    control: String,
    node: String,
    pub(super) place: (Workload, IssuerPlace),
    pub(super) admin: SocketAddr,
    pub(super) log: LogFilter,
    pub(super) log_format: LogFormat,
}

impl Options {
    /// Parses the command line; the first item is the program's name.
    ///
    /// # Errors
    /// [`Exit`] with the text to print.
    pub(crate) fn read(args: impl Iterator<Item = OsString>) -> Result<Self, Exit> {
        let line = Line::try_parse_from(args).map_err(|error| explain(&error))?;
        line.identity.check().map_err(Exit::Usage)?;
        let missing =
            || Exit::Usage("--identity and --issuer are missing: they select the certificate to write".into());
        let place = line.identity.place().ok_or_else(missing)?;
        let Line { directory, control, node, admin, log, log_format, .. } = line;
        Ok(Self { directory, control, node, place, admin, log, log_format })
    }

    /// The bootstrap for a program whose other files are in `directory`.
    pub(super) fn bootstrap(&self, directory: &Path) -> String {
        let file = |name| directory.join(name);
        let unused = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Bootstrap {
            control: self.control.clone(),
            node: self.node.clone(),
            namespace: self.place.0.namespace.to_string(),
            outbound: unused,
            admin: unused,
            certificates: Some(Certificates { chain: file(CHAIN), key: file(KEY), bundle: file(ANCHORS) }),
        };
        format!("{:#}\n", bootstrap(Client::Grpc, &options))
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
