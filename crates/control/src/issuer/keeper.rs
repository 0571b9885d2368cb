//! Keeps the issuing authority: follows its Secret; in the leading replica, creates the Secret and renews the
//! authority.
//!
//! If the Secret is deleted or becomes invalid, the authority that was read last goes on signing certificates. If we
//! created the Secret, we write it back.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::watcher::{Config, Event};
use leno_install::names::{CONTROL, ISSUER, MANAGED_BY_LABEL};
use leno_model::spiffe::TrustDomain;
use tokio::sync::watch;
use tokio::time::sleep;

use super::lease::while_leading;
use super::material::{Material, SECRET_TYPE};
use super::signing::Signing;
use crate::api_server::ApiServer;
use crate::watch::Lasting;

/// Interval of the checks whether a renewal is due, and of the attempts to repeat a failed write.
const CHECK: Duration = Duration::from_secs(10);

pub(crate) struct Keeper {
    secrets: Api<Secret>,
    events: Lasting<Secret>,
    trust_domain: TrustDomain,
    leads: watch::Receiver<bool>,
    /// Whether the list is complete, so that a missing Secret is known to be missing.
    was_listed: bool,
    /// The Secret's resource version; `None` without a Secret.
    version: Option<String>,
    /// The content of the last valid Secret.
    material: Option<Material>,
    signing: watch::Sender<Option<Arc<Signing>>>,
}

impl Keeper {
    /// Starts to watch the Secret in `namespace`.
    pub(crate) fn new(
        api_server: &ApiServer,
        namespace: &str,
        trust_domain: TrustDomain,
        leads: watch::Receiver<bool>,
    ) -> Self {
        let secrets: Api<Secret> = Api::namespaced(api_server.client(), namespace);
        let config = Config::default().fields(&format!("metadata.name={ISSUER}"));
        Self {
            events: api_server.watch(secrets.clone(), config),
            secrets,
            trust_domain,
            leads,
            was_listed: false,
            version: None,
            material: None,
            signing: watch::Sender::new(None),
        }
    }

    /// Waits for the first authority. The returned receiver has this authority, and later each authority that replaces
    /// it.
    pub(crate) async fn ready(&mut self) -> watch::Receiver<Arc<Signing>> {
        loop {
            let now = self.signing.borrow().clone();
            if let Some(first) = now {
                return self.follow(first);
            }
            self.step().await;
        }
    }

    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            self.step().await;
        }
    }

    /// A receiver that starts with `first` and gets every later value.
    fn follow(&self, first: Arc<Signing>) -> watch::Receiver<Arc<Signing>> {
        let (sender, receiver) = watch::channel(first);
        let mut signing = self.signing.subscribe();
        tokio::spawn(async move {
            while signing.changed().await.is_ok() {
                if let Some(next) = signing.borrow_and_update().clone() {
                    sender.send_replace(next);
                }
            }
        });
        receiver
    }

    async fn step(&mut self) {
        tokio::select! {
            // The watch logs its failures and goes on by itself.
            event = self.events.next() => if let Ok(event) = event {
                self.take(event);
            },
            _ = self.leads.changed() => {}
            () = sleep(CHECK) => {}
        }
        if self.was_listed {
            while_leading(self.leads.clone(), self.maintain(SystemTime::now())).await;
        }
    }

    fn take(&mut self, event: Event<Secret>) {
        match event {
            Event::Init => (self.version, self.was_listed) = (None, false),
            Event::InitApply(secret) | Event::Apply(secret) => self.read(&secret),
            Event::InitDone => self.was_listed = true,
            Event::Delete(_) => self.version = None,
        }
    }

    fn read(&mut self, secret: &Secret) {
        self.version.clone_from(&secret.metadata.resource_version);
        match Material::read(secret, &self.trust_domain) {
            Ok(material) => self.publish(material),
            Err(error) => tracing::warn!("Secret {ISSUER}: {error}; its last valid content stays in force"),
        }
    }

    fn publish(&mut self, material: Material) {
        let signing = material.signing();
        let is_news = self.signing.borrow().as_ref().is_none_or(|known| known.trust() != signing.trust());
        if is_news {
            tracing::info!(
                anchors = signing.trust().bundle.anchors().len(),
                "SVIDs are signed with the authority of Secret {ISSUER}"
            );
            self.signing.send_replace(Some(Arc::new(signing)));
        }
        self.material = Some(material);
    }

    /// Creates the Secret if it is missing, or renews the authority in it if a renewal is due.
    async fn maintain(&mut self, now: SystemTime) {
        let next = match (&self.version, &self.material) {
            (None, None) => Some(Material::create(self.trust_domain.clone(), now)),
            // The Secret was deleted: write back the same authority, so that its certificates stay valid.
            (None, Some(material)) if material.is_ours() => Some(Ok(material.clone())),
            // Another program maintains the Secret, and may be creating a new Secret.
            (None, Some(_)) => None,
            (Some(_), Some(material)) if material.is_due(now) => material.renewed(now),
            (Some(_), _) => None,
        };
        match next {
            Some(Ok(material)) => self.write(&material).await,
            Some(Err(error)) => tracing::warn!("no issuing authority could be made: {error}"),
            None => {}
        }
    }

    /// Writes the Secret; the watch reports it back.
    async fn write(&mut self, material: &Material) {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(ISSUER.to_owned()),
                resource_version: self.version.clone(),
                labels: Some([(MANAGED_BY_LABEL.to_owned(), CONTROL.to_owned())].into()),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(material.data()),
            ..Secret::default()
        };
        let written = match self.version {
            None => self.secrets.create(&PostParams::default(), &secret).await,
            Some(_) => self.secrets.replace(ISSUER, &PostParams::default(), &secret).await,
        };
        match written {
            Ok(written) => {
                tracing::info!("Secret {ISSUER} was written");
                self.read(&written);
            }
            // Another client has written since our last read.
            Err(kube::Error::Api(status)) if status.code == StatusCode::CONFLICT => {}
            Err(error) => tracing::warn!("Secret {ISSUER} could not be written: {error}"),
        }
    }
}
