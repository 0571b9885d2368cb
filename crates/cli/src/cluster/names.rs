//! What an installation's objects are called.

pub(crate) use leno_install::CONTROL_NAMESPACE;
pub(crate) use leno_install::annotations::{INJECT, INJECTED_LABEL};

/// The control plane: its Deployment, its container, its ServiceAccount and its Lease.
pub(crate) const CONTROL: &str = "leno-control";
/// The labels of its Pods.
pub(crate) const CONTROL_LABELS: &str = "app.kubernetes.io/name=leno-control";
/// Where it and every proxy answer operators, unless a proxy's annotation says otherwise.
pub(crate) const ADMIN_PORT: u16 = 4191;
/// The label with a version.
pub(crate) const VERSION_LABEL: &str = "app.kubernetes.io/version";
/// The Secret of the issuing authority, and its keys.
pub(crate) const ISSUER: &str = "leno-identity-issuer";
pub(crate) const ISSUER_CERTIFICATE: &str = "tls.crt";
pub(crate) const ANCHORS: &str = "ca.crt";
/// The ConfigMap of the trust bundle in each meshed namespace; its key is [`ANCHORS`].
pub(crate) const BUNDLE: &str = "leno-trust-bundle";
/// The ConfigMap of the installation.
pub(crate) const CONFIG: &str = "leno-config";
/// The configurations of the webhooks.
pub(crate) const INJECTOR: &str = "leno-injector";
pub(crate) const VALIDATOR: &str = "leno-validator";
/// The container of a proxy.
pub(crate) const PROXY: &str = "leno-proxy";
/// What Helm writes on each object of a release.
pub(crate) const HELM_RELEASE: &str = "meta.helm.sh/release-name";
