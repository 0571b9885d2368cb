//! The webhooks that an API server calls: `/inject` adds the proxy to a Pod before the Pod is stored, and `/validate`
//! checks mesh objects before they are stored.
//!
//! ```text
//! accept -> serve (HTTP, limits, turns) -> review (bytes to an answer: install::webhook decides) -> counts
//! ```
//!
//! `serve` uses the TLS certificate from `certificate`. The answers of `review` depend on `namespaces` and
//! `inject_config`; `refusal` has the HTTP errors for requests that cannot be reviewed.
//!
//! Every replica answers. `trust` makes the leading replica write the anchors into the webhooks' configurations, so
//! that API servers trust the certificate.

mod certificate;
mod counts;
mod inject_config;
mod namespaces;
mod refusal;
mod review;
mod serve;
mod trust;
mod weight;

#[cfg(test)]
mod fixtures;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use leno_identity::authority::SignError;
use leno_install::inject::Options as InjectOptions;
use leno_install::names::{INJECTOR, VALIDATOR};
use rustls::pki_types::DnsName;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub(crate) use certificate::Certificate;
pub(crate) use counts::Counts;
pub(crate) use inject_config::BadConfig;

use crate::api_server::ApiServer;
use crate::drain::Phase;
use crate::issuer::{Signing, keep_anchors};
use crate::kubernetes::KubernetesSource;
use crate::options::Options;
use crate::run::{RunError, listen};
use inject_config::InjectConfig;
use namespaces::Namespaces;
use review::Reviewer;
use serve::Server;

/// Webhooks that listen but have no certificate yet.
pub(crate) struct Webhooks {
    listener: TcpListener,
    names: Vec<DnsName<'static>>,
    inject_config: InjectConfig,
    server: Server,
    counts: Arc<Counts>,
}

impl Webhooks {
    /// Reads the injector's options and then listens, so that an invalid file is reported first. `None` if the command
    /// line configures no webhooks.
    pub(crate) fn listen(
        options: &Options,
        api_server: &ApiServer,
        source: &KubernetesSource,
    ) -> Result<Option<Self>, RunError> {
        let (Some(address), Some(path)) = (options.webhooks, &options.inject_config) else {
            return Ok(None);
        };
        let inject_config = open(path)?;
        let names = options.service_names()?;
        let listener = listen("webhooks", address)?;
        tracing::info!(webhooks = %listener.local_addr()?, "listening");
        let reviewer = Reviewer {
            namespaces: Namespaces::new(source.namespaces(), api_server.client()),
            options: inject_config.options(),
            changes: source.changes(),
            trusting: source.trusting_namespaces(),
        };
        let counts = Arc::new(Counts::default());
        let server = Server::new(reviewer, counts.clone());
        Ok(Some(Self { listener, names, inject_config, server, counts }))
    }

    /// Returns a receiver of the injector's options, and of each change of them.
    pub(crate) fn options(&self) -> watch::Receiver<Arc<InjectOptions>> {
        self.inject_config.options()
    }

    pub(crate) fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Issues the first certificate, with which API servers can connect.
    ///
    /// # Errors
    /// [`SignError`] if the authority has expired.
    pub(crate) fn certify(&self, signing: &watch::Receiver<Arc<Signing>>) -> Result<Certificate, SignError> {
        Certificate::issue(self.names.clone(), signing.clone())
    }

    /// Serves the webhooks, for ever; while this replica `leads`, it also keeps the API servers' trust up to date.
    pub(crate) async fn run(
        self,
        certificate: Certificate,
        api_server: &ApiServer,
        leads: watch::Receiver<bool>,
        signing: watch::Receiver<Arc<Signing>>,
        phases: watch::Receiver<Phase>,
    ) -> Infallible {
        // `keep_anchors` gets no namespaces here, so it creates nothing: if the webhooks are not installed, their
        // configurations must not be created.
        let (_, none) = watch::channel(BTreeSet::new());
        let injector = keep_anchors::<MutatingWebhookConfiguration>(
            api_server,
            INJECTOR,
            none.clone(),
            leads.clone(),
            signing.clone(),
        );
        let validator = keep_anchors::<ValidatingWebhookConfiguration>(api_server, VALIDATOR, none, leads, signing);
        tokio::select! {
            never = self.server.serve(self.listener, certificate.config(), phases) => never,
            never = certificate.run() => never,
            never = self.inject_config.run() => never,
            never = injector => never,
            never = validator => never,
        }
    }
}

fn open(path: &Path) -> Result<InjectConfig, RunError> {
    InjectConfig::open(path).map_err(|source| RunError::InjectConfig { path: path.to_owned(), source })
}
