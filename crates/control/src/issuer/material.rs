//! Reads the issuing authority from its Secret, creates it, and renews it. The Secret has the same entries as one of
//! cert-manager: `tls.crt` and `tls.key` are the authority's certificate and key, and `ca.crt` has the anchors. We add
//! the entry `ca.key`, the anchor's key, because we need it to renew the authority.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use leno_identity::Validity;
use leno_identity::authority::{Authority, BadAuthority, SignError};
use leno_identity::bundle::{BundleError, TrustBundle};
use leno_identity::svid::{CHAIN_MAX_CERTIFICATES, Request};
use leno_install::names::{ANCHORS, CONTROL, CONTROL_NAMESPACE, ISSUER_CERTIFICATE};
use leno_model::spiffe::{SpiffeId, TrustDomain, Workload};

use super::signing::Signing;

/// Lifetime of a new issuing authority.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);

const KEY: &str = "tls.key";
pub(super) const ANCHOR_KEY: &str = "ca.key";

/// The type of a Secret that contains a certificate and its key.
pub(super) const SECRET_TYPE: &str = "kubernetes.io/tls";

/// The parsed content of the Secret with the issuing authority.
#[derive(Clone, Debug)]
pub(super) struct Material {
    authority: Arc<Authority>,
    bundle: TrustBundle,
    /// The anchor with its key; `None` if the Secret does not have the key, or if another program maintains the Secret.
    anchor: Option<Arc<Authority>>,
}

/// The reason why a Secret cannot be used. The message names the Secret's entry and the remedy.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadSecret {
    #[error("it has no {0}; write tls.crt, tls.key and ca.crt, as cert-manager does for a Certificate with isCA: true")]
    Missing(&'static str),
    #[error("its {0} is not text; write PEM")]
    NotText(&'static str),
    #[error("its tls.crt and tls.key: {0}")]
    Authority(BadAuthority),
    #[error("its ca.crt: {0}")]
    Anchors(#[from] BundleError),
    #[error("its ca.crt and ca.key: {0}")]
    Anchor(BadAuthority),
    #[error("its trust domain is {found}, and the mesh's is {ours}; give the certificate the URI spiffe://{ours}")]
    TrustDomain { found: TrustDomain, ours: TrustDomain },
    #[error("its tls.key cannot sign certificates: {0}")]
    Sign(SignError),
    #[error("its ca.key cannot certify an issuing authority: {0}")]
    Delegate(SignError),
    #[error(
        "its tls.crt leads to chains of {0} certificates, and a chain has at most {CHAIN_MAX_CERTIFICATES}; keep only the certificates \
         between the issuing authority and its anchor"
    )]
    Length(usize),
    #[error(
        "its tls.crt does not lead to an anchor in its ca.crt ({0}); write the authority's anchor into ca.crt, and the certificates \
         between the two into tls.crt"
    )]
    Chain(rustls::Error),
}

impl Material {
    /// Creates an anchor and an issuing authority.
    pub(super) fn create(trust_domain: TrustDomain, now: SystemTime) -> Result<Self, SignError> {
        let anchor = Authority::create_anchor(trust_domain, now)?;
        let authority = Arc::new(anchor.delegate(now, LIFETIME)?);
        let bundle = TrustBundle::new(anchor.certificates().to_vec()).expect("an anchor that was just made");
        Ok(Self { authority, bundle, anchor: Some(Arc::new(anchor)) })
    }

    pub(super) fn read(secret: &Secret, ours: &TrustDomain) -> Result<Self, BadSecret> {
        let material = Self::read_external(secret, ours)?;
        let Some(key) = text(secret, ANCHOR_KEY)? else { return Ok(material) };
        let anchor = Authority::from_pem(&needed(secret, ANCHORS)?, &key).map_err(BadSecret::Anchor)?;
        Ok(Self { anchor: Some(Arc::new(anchor)), ..material })
    }

    /// Reads a Secret that another program maintains, and ignores its `ca.key`. This entry may be a remnant of an
    /// authority that we created: the other program does not remove it, and it belongs to another anchor.
    pub(super) fn read_external(secret: &Secret, ours: &TrustDomain) -> Result<Self, BadSecret> {
        let authority = Authority::from_pem(&needed(secret, ISSUER_CERTIFICATE)?, &needed(secret, KEY)?)
            .map_err(BadSecret::Authority)?;
        if authority.trust_domain() != ours {
            return Err(BadSecret::TrustDomain { found: authority.trust_domain().clone(), ours: ours.clone() });
        }
        let bundle = TrustBundle::from_pem(needed(secret, ANCHORS)?.as_bytes())?;
        let material = Self { authority: Arc::new(authority), bundle, anchor: None };
        material.check_chain(SystemTime::now())?;
        Ok(material)
    }

    /// Returns the certificate entries of a Secret that also contain a PEM block of another type, with the block's
    /// label. Such an entry is often a combined file that includes the private key. We publish only the certificates in
    /// it.
    pub(super) fn foreign_blocks(secret: &Secret) -> Vec<(&'static str, String)> {
        let entry = |key: &'static str| Some((key, secret.data.as_ref()?.get(key)?));
        let entries = [ISSUER_CERTIFICATE, ANCHORS].into_iter().filter_map(entry);
        let label = |text: &ByteString| {
            let text = String::from_utf8_lossy(&text.0);
            let labels = text.lines().filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
            labels.into_iter().find(|label| *label != "CERTIFICATE").map(str::to_owned)
        };
        entries.filter_map(|(key, text)| Some((key, label(text)?))).collect()
    }

    /// Checks that peers with these anchors accept the certificates that the authority signs: signs a test certificate
    /// and verifies it. If the authority has expired or is not valid yet, it cannot sign, so checks only the length of
    /// the chain.
    fn check_chain(&self, now: SystemTime) -> Result<(), BadSecret> {
        let certificates = 1 + self.authority.intermediates(&self.bundle).len();
        if certificates > CHAIN_MAX_CERTIFICATES {
            return Err(BadSecret::Length(certificates));
        }
        if !self.is_valid(now) {
            return Ok(());
        }
        let workload = Workload { namespace: CONTROL_NAMESPACE.into(), service_account: CONTROL.into() };
        let id = SpiffeId { trust_domain: self.authority.trust_domain().clone(), workload };
        // Accept the Secret if no key for the test can be created: the system then has no random numbers, and the
        // Secret may be good.
        let Ok(request) = Request::new(id) else { return Ok(()) };
        let chain = self.signing().certify_at(now, request.id(), request.csr(), &[]).map_err(BadSecret::Sign)?;
        self.bundle.verify(&chain, now).map_err(BadSecret::Chain)
    }

    /// Returns the issuing authority and the trust bundle, but not the anchor's key.
    pub(super) fn signing(&self) -> Signing {
        Signing::new(self.authority.clone(), self.bundle.clone())
    }

    /// Returns the entries to write to the Secret.
    pub(super) fn data(&self) -> BTreeMap<String, ByteString> {
        let texts = [
            (ISSUER_CERTIFICATE, self.authority.certificate_pem().to_owned()),
            (KEY, self.authority.key_pem()),
            (ANCHORS, self.bundle.to_pem()),
        ];
        let anchor_key = self.anchor.as_ref().map(|anchor| (ANCHOR_KEY, anchor.key_pem()));
        let all = texts.into_iter().chain(anchor_key);
        all.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).collect()
    }

    /// Whether the authority can sign certificates now.
    pub(super) fn is_valid(&self, now: SystemTime) -> bool {
        let validity = self.validity();
        (validity.not_before..validity.not_after).contains(&now)
    }

    /// The validity of the issuing authority.
    pub(super) fn validity(&self) -> Validity {
        self.authority.validity()
    }

    /// Whether we maintain the Secret, and not another program such as cert-manager: it contains the anchor's key.
    pub(super) fn is_ours(&self) -> bool {
        self.anchor.is_some()
    }

    /// Whether we must renew the issuing authority now. Always false without the anchor's key, which a renewal needs.
    ///
    /// A renewal is due when two thirds of the authority's lifetime have passed. It is also due if the authority is not
    /// valid yet, because the clock of the machine that created it was ahead. A small difference of the clocks does not
    /// matter, because the validity begins a few minutes before the creation.
    pub(super) fn is_due(&self, now: SystemTime) -> bool {
        let validity = self.authority.validity();
        let life = validity.not_after.duration_since(validity.not_before).unwrap_or_default();
        let is_due = now < validity.not_before || now >= validity.not_before + life * 2 / 3;
        self.anchor.is_some() && is_due
    }

    /// Creates a new issuing authority under the same anchor, and checks that peers accept its certificates. `None`
    /// without the anchor's key.
    pub(super) fn renewed(&self, now: SystemTime) -> Option<Result<Self, BadSecret>> {
        let anchor = self.anchor.as_ref()?;
        let delegated = anchor.delegate(now, LIFETIME).map_err(BadSecret::Delegate);
        let checked = delegated.and_then(|authority| {
            let renewed = Self { authority: Arc::new(authority), ..self.clone() };
            renewed.check_chain(now)?;
            Ok(renewed)
        });
        Some(checked)
    }
}

fn text(secret: &Secret, key: &'static str) -> Result<Option<String>, BadSecret> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    bytes.map(|bytes| String::from_utf8(bytes.0.clone()).map_err(|_| BadSecret::NotText(key))).transpose()
}

fn needed(secret: &Secret, key: &'static str) -> Result<String, BadSecret> {
    text(secret, key)?.ok_or(BadSecret::Missing(key))
}

#[cfg(test)]
#[path = "material_tests.rs"]
mod tests;
