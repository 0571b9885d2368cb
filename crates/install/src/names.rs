//! The names of an installation's objects, which the chart, the control plane and the command line tool share.

/// The namespace of the control plane.
pub const CONTROL_NAMESPACE: &str = "leno";
/// The name of the control plane's Deployment, Service, container, ServiceAccount and Lease. Also the name of its field
/// manager in requests to the API server.
pub const CONTROL: &str = "leno-control";
/// The label with the name of a program; its value is [`CONTROL`] on the control plane's Pods and Deployment.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";
/// A selector for the control plane's Pods and Deployment.
pub const CONTROL_LABELS: &str = "app.kubernetes.io/name=leno-control";
pub const VERSION_LABEL: &str = "app.kubernetes.io/version";
/// The label that names the creator of an object; its value is [`CONTROL`] if the control plane created the object.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The Secret of the issuing authority, in [`CONTROL_NAMESPACE`].
pub const ISSUER: &str = "leno-identity-issuer";
/// The entry of [`ISSUER`] with the certificates of the issuing authority.
pub const ISSUER_CERTIFICATE: &str = "tls.crt";
/// The entry with the trust anchors, in [`ISSUER`] and in [`TRUST_BUNDLE`].
pub const ANCHORS: &str = "ca.crt";
/// The ConfigMap of the trust bundle, in each meshed namespace.
pub const TRUST_BUNDLE: &str = "leno-trust-bundle";
/// The ConfigMap of the installation.
pub const CONFIG: &str = "leno-config";
/// The configuration of the webhook that injects proxies.
pub const INJECTOR: &str = "leno-injector";
/// The configuration of the webhooks that validate mesh objects.
pub const VALIDATOR: &str = "leno-validator";
/// The name of the ValidatingAdmissionPolicy and of its binding. The policy rejects a Pod that should have a proxy but
/// has none.
pub const GUARD: &str = "leno-guard";
/// The audience of the token with which a proxy requests its certificate. The API server itself does not accept such a
/// token.
pub const TOKEN_AUDIENCE: &str = "leno.dev";
/// The container of a proxy, a native sidecar.
pub const PROXY: &str = "leno-proxy";
/// The init container that redirects connections to the proxy.
pub const INIT: &str = "leno-init";
/// The sidecar that gives a gRPC program without a proxy its identity.
pub const GRPC: &str = "leno-grpc";
/// The control plane's port for xDS.
pub const XDS_PORT: u16 = 15_010;
/// The control plane's port where workloads request their certificates.
pub const CERTIFICATES_PORT: u16 = 15_012;
/// The control plane's admin port.
pub const CONTROL_ADMIN_PORT: u16 = 15_014;
/// Kubernetes' service account for a Pod that names none.
pub const DEFAULT_SERVICE_ACCOUNT: &str = "default";
/// The label of a namespace with the level of Pod Security admission that the API server enforces there.
pub const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";
/// Helm's annotation on each object of a release.
pub const HELM_RELEASE: &str = "meta.helm.sh/release-name";
