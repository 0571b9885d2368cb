//! `leno identity`: shows the certificate that each proxy presents to its peers.
//!
//! The tool performs a TLS handshake (`handshake`) with the proxy's inbound port through a port-forward. It reports
//! whether peers would accept the certificate, and also shows certificates that peers would reject.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::time::SystemTime;

use clap::Args;
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use leno_identity::Validity;
use leno_identity::bundle::TrustBundle;
use leno_install::names::{ANCHORS, CONTROL_NAMESPACE, TRUST_BUNDLE};
use leno_model::proxy::INBOUND_PORT;
use rustls::pki_types::CertificateDer;
use serde::Serialize;

use super::certificate::{Certificate, first_to_expire, relative, rfc3339};
use super::connect::{Cluster, ClusterError, Connect};
use super::forward::{self, FORWARDS_MAX, Forwarded};
use super::handshake;
use super::pods;
use super::printable::line;
use super::progress::sign_of_life;
use super::select::{Choice, Kind, Selection};
use super::table::{Output, Table, show};

/// Options of `leno identity`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// The certificate that a proxy presents.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Shown {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    /// The SPIFFE id in the certificate.
    identity: Option<String>,
    /// The issuer's distinguished name.
    issuer: Option<String>,
    not_before: Option<String>,
    not_after: Option<String>,
    /// The earliest time at which an authority in the certificate's chain expires; see [`first_to_expire`].
    authority_not_after: Option<String>,
    /// The reason why peers would reject the certificate, or why the tool got no certificate. `None` if peers would
    /// accept the certificate.
    pub(crate) problem: Option<String>,
    /// The time until the certificate expires, as text for users.
    #[serde(skip)]
    expires: String,
    /// A warning about an authority that expires soon, with the remedy.
    #[serde(skip)]
    warning: Option<String>,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let selection = self.choice.or_all(Kind::Pods)?;
        let shown = super::block_on(self.look(&selection))??;
        show(self.output, &shown, |shown| table(shown))?;
        Ok(())
    }

    async fn look(&self, selection: &Selection) -> Result<Vec<Shown>, ClusterError> {
        let cluster = self.connect.cluster().await?;
        let groups = selection.groups(&cluster, &self.choice.scope).await?;
        let progress = sign_of_life("shaking hands");
        let pods = groups.into_iter().flat_map(|group| group.pods).filter(pods::is_meshed).collect::<Vec<_>>();
        let shown = shown(&cluster, pods.iter()).await;
        progress.finish_and_clear();
        shown
    }
}

/// Reads the certificates that the proxies of these Pods present, and checks whether peers would accept them.
pub(crate) async fn shown(cluster: &Cluster, pods: impl Iterator<Item = &Pod>) -> Result<Vec<Shown>, ClusterError> {
    let bundle: Option<ConfigMap> = cluster.get(cluster.within(CONTROL_NAMESPACE), TRUST_BUNDLE).await?;
    let bundle = bundle.and_then(|bundle| TrustBundle::from_pem(bundle.data?.get(ANCHORS)?.as_bytes()).ok());
    let look = |pod: Pod| look_at(cluster, pod, bundle.as_ref());
    Ok(stream::iter(pods.cloned().collect::<Vec<_>>()).map(look).buffered(FORWARDS_MAX).collect().await)
}

async fn look_at(cluster: &Cluster, pod: Pod, bundle: Option<&TrustBundle>) -> Shown {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let port = pods::proxy_port(&pod, "leno-inbound").unwrap_or(INBOUND_PORT);
    let shake = async |stream: &mut Forwarded| handshake::chain(stream, port).await;
    let chain = forward::converse(cluster, &namespace, &name, port, shake).await;
    let now = SystemTime::now();
    match chain {
        Ok(chain) => conclude(&pod, &chain, bundle, now),
        Err(error) => Shown::nothing(namespace, name, error.to_string()),
    }
}

/// Checks the chain that a Pod presented.
fn conclude(pod: &Pod, chain: &[CertificateDer<'_>], bundle: Option<&TrustBundle>, now: SystemTime) -> Shown {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let read = |all: &[CertificateDer<'_>]| all.iter().map(|der| Certificate::read(der)).collect::<Option<Vec<_>>>();
    let certificates = read(chain).unwrap_or_default();
    let Some(certificate) = certificates.first() else {
        return Shown::nothing(namespace, name, "its certificate is malformed".to_owned());
    };
    let anchors = bundle.and_then(|bundle| read(bundle.anchors())).unwrap_or_default();
    let authority = first_to_expire(&certificates, &anchors);
    let workload = format!("/ns/{namespace}/sa/{}", pods::service_account(pod));
    let identity = certificate.uris.first().cloned();
    let is_own = identity.as_ref().is_some_and(|id| id.starts_with("spiffe://") && id.ends_with(&workload));
    let problem = match bundle {
        _ if !is_own => Some(format!("it is not the certificate of its service account: ...{workload}")),
        None => {
            Some(format!("there is no ConfigMap {CONTROL_NAMESPACE}/{TRUST_BUNDLE} to compare it with; leno check"))
        }
        Some(bundle) => bundle.verify(chain, now).err().map(|error| format!("no anchor verifies it: {error}")),
    };
    Shown {
        namespace,
        pod: name,
        identity,
        issuer: Some(certificate.issuer.clone()),
        not_before: rfc3339(certificate.validity.not_before),
        not_after: rfc3339(certificate.validity.not_after),
        authority_not_after: authority.and_then(|authority| rfc3339(authority.not_after)),
        warning: authority.and_then(|authority| warning(&certificate.issuer, authority, now)),
        expires: relative(certificate.validity.not_after, now),
        problem,
    }
}

impl Shown {
    pub(crate) fn nothing(namespace: String, pod: String, problem: String) -> Self {
        Self {
            namespace,
            pod,
            identity: None,
            issuer: None,
            not_before: None,
            not_after: None,
            authority_not_after: None,
            expires: "-".to_owned(),
            warning: None,
            problem: Some(problem),
        }
    }
}

/// Warns about an authority that expires soon. Renewing a proxy's certificate does not help, because the new
/// certificate expires no later than the authority.
fn warning(issuer: &str, authority: &Validity, now: SystemTime) -> Option<String> {
    let is_soon = authority.not_after.duration_since(now).is_ok_and(|left| left < authority.least_left());
    let told = relative(authority.not_after, now);
    is_soon.then(|| format!("the authority {issuer} expires {told}, and all its certificates with it; leno check"))
}

fn table(shown: &[Shown]) -> String {
    if shown.is_empty() {
        return "no Pod here has a proxy; -n NAME or -A looks elsewhere\n".to_owned();
    }
    let mut table = Table::new(&["NAMESPACE", "POD", "IDENTITY", "ISSUED BY", "EXPIRES", "BELIEVED"]);
    let mut problems = BTreeMap::new();
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    for one in shown {
        let believed = if one.problem.is_none() { "yes" } else { "no" };
        let (identity, issuer) = (or_none(&one.identity), or_none(&one.issuer));
        table.row([one.namespace.clone(), one.pod.clone(), identity, issuer, one.expires.clone(), believed.to_owned()]);
        if let Some(problem) = &one.problem {
            problems.insert((&one.namespace, &one.pod), problem);
        }
    }
    let mut text = table.to_string();
    for ((namespace, pod), problem) in problems {
        let problem = line(problem);
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{namespace}/{pod}: {problem}");
    }
    for warning in shown.iter().filter_map(|one| one.warning.as_ref()).collect::<BTreeSet<_>>() {
        let _ = write!(text, "\n{}", line(warning));
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
