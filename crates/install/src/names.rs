//! What an installation's objects are called: by the chart, by the control plane, and by the tool.

/// The namespace of the control plane.
pub const CONTROL_NAMESPACE: &str = "leno";
/// The control plane: its Deployment, its Service, its container, its ServiceAccount and its Lease. It also is who changed
/// something, where the API server asks.
pub const CONTROL: &str = "leno-control";
/// The label of its Pods, and of every object of the installation.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";
/// That label with the name that is on each of them.
pub const CONTROL_LABELS: &str = "app.kubernetes.io/name=leno-control";
/// The label with a version.
pub const VERSION_LABEL: &str = "app.kubernetes.io/version";
/// The label with who made an object: [`CONTROL`], of what the control plane makes.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The Secret of the issuing authority, in [`CONTROL_NAMESPACE`].
pub const ISSUER: &str = "leno-identity-issuer";
/// Its key with the certificates of the issuing authority.
pub const ISSUER_CERTIFICATE: &str = "tls.crt";
/// Its key with the anchors, and that of [`TRUST_BUNDLE`].
pub const ANCHORS: &str = "ca.crt";
/// The ConfigMap of the trust bundle, in each meshed namespace.
pub const TRUST_BUNDLE: &str = "leno-trust-bundle";
/// The ConfigMap of the installation.
pub const CONFIG: &str = "leno-config";
/// The configuration of the webhook that gives Pods their proxies.
pub const INJECTOR: &str = "leno-injector";
/// The configuration of the webhooks that review what the mesh reads.
pub const VALIDATOR: &str = "leno-validator";
/// The ValidatingAdmissionPolicy, and its binding, that refuse Pods which should have a proxy and have none.
pub const GUARD: &str = "leno-guard";
/// Whom the token is for by which a proxy asks for its certificate: it opens nothing else in the cluster.
pub const TOKEN_AUDIENCE: &str = "leno.dev";
/// The container of a proxy, a native sidecar.
pub const PROXY: &str = "leno-proxy";
/// The init container that redirects connections to it.
pub const INIT: &str = "leno-init";
/// Where the control plane answers operators.
pub const CONTROL_ADMIN_PORT: u16 = 15_014;
/// Where a proxy answers operators, unless its annotation says otherwise.
pub const ADMIN_PORT: u16 = 4191;
/// The service account of a Pod that names none, as Kubernetes has it.
pub const DEFAULT_SERVICE_ACCOUNT: &str = "default";
/// What Helm writes on each object of a release.
pub const HELM_RELEASE: &str = "meta.helm.sh/release-name";
