//! Keeps the issuing authority up to date: watches its Secret and, in the leading replica, creates the Secret and
//! renews the authority.
//!
//! The authority that was published last continues to sign certificates in these cases:
//!
//! - The Secret is deleted or becomes invalid.
//! - The authority in the Secret has expired or is not valid yet.
//!
//! If a Secret that we created is deleted, we create it again with the same content. We never overwrite a Secret that
//! we cannot parse, because another program may have written it.
//!
//! With `--external-authority`, another program maintains the Secret, and we never write it. Without this option, a
//! missing Secret would look like a new cluster, and the leading replica would create a second trust anchor.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::watcher::{Config, Event};
use leno_identity::Validity;
use leno_install::names::{CONTROL, ISSUER, MANAGED_BY_LABEL};
use leno_model::spiffe::TrustDomain;
use tokio::sync::watch;
use tokio::time::sleep;

use super::lease::while_leading;
use super::material::{ANCHOR_KEY, BadSecret, Material, SECRET_TYPE};
use super::signing::Signing;
use crate::api_server::ApiServer;
use crate::watch::Lasting;

/// Interval at which the keeper checks whether a renewal is due, and repeats a failed write.
const CHECK: Duration = Duration::from_secs(10);

pub(crate) struct Keeper {
    secrets: Api<Secret>,
    events: Lasting<Secret>,
    trust_domain: TrustDomain,
    /// Whether another program maintains the Secret, even while the Secret does not exist.
    is_external: bool,
    leads: watch::Receiver<bool>,
    /// Whether the watch has completed its list. Until then, the Secret may exist even if `found` is `None`.
    was_listed: bool,
    /// The Secret in the cluster, as last read; `None` if it does not exist.
    found: Option<Secret>,
    /// The content of the last usable Secret.
    material: Option<Material>,
    /// Whether `material` is the content of `found`.
    is_current: bool,
    signing: watch::Sender<Option<Arc<Signing>>>,
}

impl Keeper {
    /// Starts to watch the Secret in `namespace`. If the authority `is_external`, the keeper never writes the Secret.
    pub(crate) fn new(
        api_server: &ApiServer,
        namespace: &str,
        trust_domain: TrustDomain,
        is_external: bool,
        leads: watch::Receiver<bool>,
    ) -> Self {
        let secrets: Api<Secret> = Api::namespaced(api_server.client(), namespace);
        let config = Config::default().fields(&format!("metadata.name={ISSUER}"));
        Self {
            events: api_server.watch(secrets.clone(), config),
            secrets,
            trust_domain,
            is_external,
            leads,
            was_listed: false,
            found: None,
            material: None,
            is_current: false,
            signing: watch::Sender::new(None),
        }
    }

    /// Waits until there is a valid authority. Meanwhile, unless the authority is external, the leading replica creates
    /// a missing authority, and renews an expired one if the Secret has its anchor's key. The returned receiver has the
    /// valid authority, and later each authority that replaces it.
    pub(crate) async fn ready(&mut self) -> watch::Receiver<Arc<Signing>> {
        loop {
            let now = self.signing.borrow().clone();
            if let Some(first) = now {
                return self.follow(first);
            }
            self.step().await;
        }
    }

    pub(crate) async fn run(&mut self) -> Infallible {
        loop {
            self.step().await;
        }
    }

    /// Returns a receiver that has `first`, and later each new authority.
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
            // Ignore an error: the watch logs its failures, and begins again by itself.
            event = self.events.next() => if let Ok(event) = event {
                self.take(event);
            },
            _ = self.leads.changed() => {}
            () = sleep(CHECK) => {}
        }
        // Try again even without an event: an authority that was not valid yet may be valid now.
        self.publish(SystemTime::now());
        if self.was_listed {
            while_leading(self.leads.clone(), self.maintain(SystemTime::now())).await;
        }
    }

    fn take(&mut self, event: Event<Secret>) {
        match event {
            Event::Init => {
                self.was_listed = false;
                self.lose();
            }
            Event::InitApply(secret) | Event::Apply(secret) => self.read(secret, SystemTime::now()),
            Event::InitDone => {
                self.was_listed = true;
                if self.found.is_none() {
                    self.warn_if_external();
                }
            }
            Event::Delete(_) => {
                self.lose();
                self.warn_if_external();
            }
        }
    }

    /// Logs that the Secret is missing, if we do not create it.
    fn warn_if_external(&self) {
        if self.is_external {
            tracing::warn!(
                "there is no Secret {ISSUER}, and with --external-authority the control plane does not create it; write \
                 it with the program that issues the authority"
            );
        }
    }

    fn lose(&mut self) {
        (self.found, self.is_current) = (None, false);
    }

    fn read(&mut self, secret: Secret, now: SystemTime) {
        let read = match self.is_external {
            true => Material::read_external(&secret, &self.trust_domain),
            false => Material::read(&secret, &self.trust_domain),
        };
        self.is_current = read.is_ok();
        if self.is_external && secret.data.as_ref().is_some_and(|data| data.contains_key(ANCHOR_KEY)) {
            tracing::warn!("Secret {ISSUER}: its {ANCHOR_KEY} is not used, because of --external-authority; remove it");
        }
        match read {
            Ok(material) => {
                for (entry, label) in Material::foreign_blocks(&secret) {
                    tracing::warn!(
                        "Secret {ISSUER}: its {entry} has a PEM block {label}, which is not published; remove the block"
                    );
                }
                if !material.is_valid(now) {
                    let Validity { not_before, not_after } = material.validity();
                    let date = |time| Timestamp::try_from(time).map(|time| time.to_string()).unwrap_or_default();
                    let fix = match material.is_ours() {
                        true => "the leading replica renews it",
                        false => "renew it with the program that wrote the Secret",
                    };
                    let (from, to) = (date(not_before), date(not_after));
                    tracing::warn!("Secret {ISSUER}: its tls.crt is valid from {from} to {to}, and not now; {fix}");
                }
                self.material = Some(material);
                self.publish(now);
            }
            Err(error) => tracing::warn!("Secret {ISSUER}: {error}; its last valid content stays in force"),
        }
        self.found = Some(secret);
    }

    /// Publishes the authority of the last usable Secret, if it is valid and differs from the published authority.
    fn publish(&self, now: SystemTime) {
        let Some(material) = self.material.as_ref().filter(|material| material.is_valid(now)) else { return };
        let signing = material.signing();
        let is_news = self.signing.borrow().as_ref().is_none_or(|known| known.trust() != signing.trust());
        if is_news {
            tracing::info!(
                anchors = signing.trust().bundle.anchors().len(),
                "SVIDs are signed with the authority of Secret {ISSUER}"
            );
            self.signing.send_replace(Some(Arc::new(signing)));
        }
    }

    /// Creates the Secret if it is missing, or renews the authority in it if a renewal is due.
    async fn maintain(&mut self, now: SystemTime) {
        let next = match (&self.found, &self.material) {
            // Write nothing: the Secret may be missing for a moment, and our own authority would have another anchor.
            (None, None) if self.is_external => None,
            (None, None) => Some(Material::create(self.trust_domain.clone(), now).map_err(BadSecret::Sign)),
            // The Secret was deleted: create it again with the same authority, so that issued certificates stay valid.
            (None, Some(material)) if material.is_ours() => Some(Ok(material.clone())),
            // Write nothing: another program maintains the Secret, and may be about to create a new one. An external
            // authority is always such a case, because its anchor's key is not read.
            (None, Some(_)) => None,
            (Some(_), Some(material)) if self.is_current && material.is_due(now) => material.renewed(now),
            (Some(_), _) => None,
        };
        match next {
            Some(Ok(material)) => self.write(&material, now).await,
            Some(Err(error)) => tracing::warn!("no issuing authority could be made for Secret {ISSUER}: {error}"),
            None => {}
        }
    }

    /// Writes the Secret, and uses its new content at once, without waiting for the watch to report it.
    async fn write(&mut self, material: &Material, now: SystemTime) {
        let written = match self.found.clone() {
            None => {
                let secret = Secret {
                    metadata: ObjectMeta {
                        name: Some(ISSUER.to_owned()),
                        labels: Some([(MANAGED_BY_LABEL.to_owned(), CONTROL.to_owned())].into()),
                        ..ObjectMeta::default()
                    },
                    type_: Some(SECRET_TYPE.to_owned()),
                    data: Some(material.data()),
                    ..Secret::default()
                };
                self.secrets.create(&PostParams::default(), &secret).await
            }
            // Change only our entries: the API server rejects a change of the Secret's type, and the other entries
            // belong to other programs. The resource version makes the write fail if another client has written the
            // Secret since our read.
            Some(mut secret) => {
                secret.data.get_or_insert_default().extend(material.data());
                self.secrets.replace(ISSUER, &PostParams::default(), &secret).await
            }
        };
        match written {
            Ok(written) => {
                tracing::info!("Secret {ISSUER} was written");
                self.read(written, now);
            }
            // Ignore a conflict: another client has written the Secret since our last read, and the watch will report
            // it.
            Err(kube::Error::Api(status)) if status.code == StatusCode::CONFLICT => {}
            Err(error) => tracing::warn!("Secret {ISSUER} could not be written: {error}"),
        }
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
