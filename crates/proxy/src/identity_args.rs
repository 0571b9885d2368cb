//! The part of a command line that says which workload this is and who issues its certificate.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use leno_model::settings::parse_duration;
use leno_model::spiffe::{TrustDomain, Workload};

use crate::control::IdentityService;

/// Lifetimes that a certificate may have. A shorter one could expire between two checks whether to renew it.
const SVID_LIFETIMES: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(7 * 24 * 3_600);

#[derive(Debug, clap::Args)]
pub(crate) struct IdentityArgs {
    /// Who the control plane must be, where this proxy has an identity itself or comes for one
    #[arg(long, value_name = "WORKLOAD", default_value = "ns/leno/sa/leno-control")]
    pub(crate) control_identity: Workload,

    /// Who the own application is: ns/NAMESPACE/sa/SERVICE-ACCOUNT
    #[arg(long, value_name = "WORKLOAD", requires = "issuer")]
    pub(crate) identity: Option<Workload>,

    /// Who issues the certificate that proves it: a directory made by `leno ca init`, or with --token a control plane
    #[arg(long, value_name = "DIR|HOST:PORT", requires = "identity")]
    issuer: Option<PathBuf>,

    /// File with the token that the control plane believes: one of the Pod's ServiceAccount for the audience leno.dev
    #[arg(long, value_name = "FILE", requires_all = ["issuer", "trust_bundle"])]
    token: Option<PathBuf>,

    /// With --token: file with the certificates, in PEM, of the authorities that vouch for the mesh
    #[arg(long, value_name = "FILE", requires = "token")]
    trust_bundle: Option<PathBuf>,

    /// With --token: the trust domain of the mesh
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    trust_domain: TrustDomain,

    /// With --issuer DIR: how long each certificate is valid, 10s to 168h; it is renewed after two thirds of that
    #[arg(long, value_name = "DURATION", requires = "issuer", conflicts_with = "token", default_value = "24h", value_parser = parse_svid_lifetime)]
    svid_lifetime: Duration,
}

/// Who issues our certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IssuerPlace {
    /// An authority on this machine.
    Directory {
        /// What `leno ca init` made.
        path: PathBuf,
        /// How long each certificate is valid.
        lifetime: Duration,
    },
    /// The control plane of a cluster.
    Service(IdentityService),
}

impl IssuerPlace {
    /// The value of --issuer.
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

    /// Checks what clap cannot check.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some((_, IssuerPlace::Service(service))) = self.place() {
            parse_control(&service.address).map_err(|error| format!("--issuer {}: {error}", service.address))?;
        }
        Ok(())
    }
}

/// Checks the place of a control plane: a name or an address, and a port.
pub(crate) fn parse_control(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse().ok());
    port.filter(|port: &u16| *port != 0)
        .map(|_| text.to_owned())
        .ok_or_else(|| "write a name or an address, and a port, as leno-control.leno:15010".to_owned())
}

fn parse_svid_lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = parse_duration(text).filter(|lifetime| SVID_LIFETIMES.contains(lifetime));
    lifetime.ok_or_else(|| "write 10s to 168h, as 90s, 24h or 1h30m".to_owned())
}
