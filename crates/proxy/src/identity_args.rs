//! The command line options for this workload's identity and its issuer.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use leno_model::settings::parse_duration;
use leno_model::spiffe::{TrustDomain, Workload};

use crate::control::IdentityService;

/// Allowed lifetimes of a certificate. A certificate with a shorter lifetime could expire between two checks for
/// renewal.
const SVID_LIFETIMES: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(7 * 24 * 3_600);

#[derive(Debug, clap::Args)]
pub(crate) struct IdentityArgs {
    /// Identity that the control plane must prove, if this proxy has an identity or requests one
    #[arg(long, value_name = "WORKLOAD", default_value = "ns/leno/sa/leno-control")]
    pub(crate) control_identity: Workload,

    /// Identity of the own application: ns/NAMESPACE/sa/SERVICE-ACCOUNT
    #[arg(long, value_name = "WORKLOAD", requires = "issuer")]
    pub(crate) identity: Option<Workload>,

    /// Issuer of the certificate for --identity: a directory made by `leno ca init` or, with --token, a control plane
    #[arg(long, value_name = "DIR|HOST:PORT", requires = "identity")]
    issuer: Option<PathBuf>,

    /// File with a token for the control plane: one of the Pod's ServiceAccount for the audience leno.dev
    #[arg(long, value_name = "FILE", requires_all = ["issuer", "trust_bundle"])]
    token: Option<PathBuf>,

    /// With --token: file with the mesh's trust anchors, in PEM
    #[arg(long, value_name = "FILE", requires = "token")]
    trust_bundle: Option<PathBuf>,

    /// With --token: trust domain of the mesh
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    trust_domain: TrustDomain,

    /// With --issuer DIR: lifetime of each certificate, 10s to 168h; it is renewed after two thirds of that
    #[arg(long, value_name = "DURATION", requires = "issuer", conflicts_with = "token", default_value = "24h", value_parser = parse_svid_lifetime)]
    svid_lifetime: Duration,
}

/// The issuer of our certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IssuerPlace {
    /// An authority on this machine.
    Directory {
        /// Directory that `leno ca init` made.
        path: PathBuf,
        /// Lifetime of each certificate.
        lifetime: Duration,
    },
    /// The control plane of a cluster.
    Service(IdentityService),
}

impl IssuerPlace {
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Directory { path, .. } => path.clone(),
            Self::Service(service) => service.address.clone().into(),
        }
    }
}

impl IdentityArgs {
    /// Our workload and the issuer of its certificate; `None` without an identity.
    pub(crate) fn place(&self) -> Option<(Workload, IssuerPlace)> {
        let (workload, issuer) = (self.identity.clone()?, self.issuer.clone()?);
        let place = match (&self.token, &self.trust_bundle) {
            (Some(token), Some(trust_bundle)) => IssuerPlace::Service(IdentityService {
                address: issuer.to_string_lossy().into_owned(),
                workload: self.control_identity.clone(),
                trust_domain: self.trust_domain.clone(),
                trust_bundle: trust_bundle.clone(),
                token: token.clone(),
            }),
            _ => IssuerPlace::Directory { path: issuer, lifetime: self.svid_lifetime },
        };
        Some((workload, place))
    }

    /// Checks conditions that clap cannot express.
    ///
    /// # Errors
    /// One line that names the mistake.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some((_, IssuerPlace::Service(service))) = self.place() {
            parse_control(&service.address).map_err(|error| format!("--issuer {}: {error}", service.address))?;
        }
        Ok(())
    }
}

/// Checks the address of a control plane: a name or an IP address, and a port.
pub(crate) fn parse_control(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse().ok());
    port.filter(|port: &u16| *port != 0)
        .map(|_| text.to_owned())
        .ok_or_else(|| "write a name or an address, and a port, as leno-control.leno:15010".to_owned())
}

fn parse_svid_lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = parse_duration(text).filter(|lifetime| SVID_LIFETIMES.contains(lifetime));
    lifetime.ok_or_else(|| "write 10s to 168h, for example 90s, 24h or 1h30m".to_owned())
}
