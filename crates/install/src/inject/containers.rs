//! The containers and the volume that are added to a Pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, ConfigMapProjection, Container, ContainerPort, EnvVar, EnvVarSource, ExecAction,
    HTTPGetAction, KeyToPath, Lifecycle, LifecycleHandler, ObjectFieldSelector, Probe, ProjectedVolumeSource,
    ResourceRequirements, SeccompProfile, SecurityContext, ServiceAccountTokenProjection, Volume, VolumeMount,
    VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use leno_model::proxy;
use serde_json::Value;

use super::tcp::{self, Replaced};
use super::{Options, PodProbe, Settings, application, probes};
use crate::names::{
    ANCHORS, CERTIFICATES_PORT, CONTROL, CONTROL_NAMESPACE, INIT, PROXY, TOKEN_AUDIENCE, TRUST_BUNDLE, XDS_PORT,
};

/// The volume with the token that proves the Pod's identity, and with the trust bundle.
pub(super) const IDENTITY_VOLUME: &str = "leno-identity";
/// The id of the user that the proxy runs as. The constant has the type of Kubernetes' fields for user ids.
pub(super) const PROXY_UID: i64 = proxy::UID as i64;

/// Options of injected containers. Other modules parse them from a running Pod, for example to find out how clients
/// reach the Pod's ports.
pub(super) const INBOUND_PORT: &str = "--inbound-port";
pub(super) const ADMIN_PORT: &str = "--admin-port";
pub(super) const SKIP_INBOUND_PORTS: &str = "--skip-inbound-ports";
pub(super) const OPAQUE_PORTS: &str = "--opaque-ports";
pub(super) const HTTP_PORTS: &str = "--http-ports";

/// Option with the application's name in traces. The name depends on the Pod's labels, which other webhooks may change.
pub(super) const TRACE_SERVICE: &str = "--trace-service";

pub(super) const IDENTITY_DIR: &str = "/var/run/secrets/leno.dev";
const TOKEN_FILE: &str = "token";
const TOKEN_SECONDS: i64 = 3_600;

/// Makes the init container, which redirects the Pod's connections before any other container runs.
///
/// The init container runs as root, because only root gets capabilities in a container. Its only capability is
/// NET_ADMIN.
pub(super) fn init(settings: &Settings, template: &Value) -> Container {
    let mut args = vec![
        format!("--proxy-uid={PROXY_UID}"),
        format!("{INBOUND_PORT}={}", settings.inbound_port),
        format!("--outbound-port={}", settings.outbound_port),
        format!("{ADMIN_PORT}={}", settings.admin_port),
    ];
    option(&mut args, SKIP_INBOUND_PORTS, &settings.skip_inbound_ports);
    option(&mut args, "--skip-outbound-ports", &settings.skip_outbound_ports);
    option(&mut args, "--skip-subnets", &settings.skip_subnets);
    Container {
        name: INIT.to_owned(),
        image: Some(image(settings)),
        image_pull_policy: Some(settings.image_pull_policy.clone()),
        command: Some(vec!["/leno-init".to_owned()]),
        args: Some(args),
        resources: Some(resources(settings)),
        security_context: Some(SecurityContext {
            capabilities: Some(Capabilities { add: Some(vec!["NET_ADMIN".to_owned()]), drop: Some(all()) }),
            run_as_user: Some(0),
            run_as_group: Some(0),
            run_as_non_root: Some(false),
            ..confined(template)
        }),
        ..Default::default()
    }
}

/// Makes the proxy's container. As a native sidecar, the proxy is ready before the application starts, and ends after
/// the application, in Jobs too.
pub(super) fn proxy(
    settings: &Settings,
    options: &Options,
    template: &Value,
    probes: &[PodProbe],
    tcp_probes: &[Replaced],
) -> Container {
    Container {
        name: PROXY.to_owned(),
        image: Some(image(settings)),
        image_pull_policy: Some(settings.image_pull_policy.clone()),
        restart_policy: Some("Always".to_owned()),
        // Run the proxy below a supervisor. After a crash, the supervisor starts the proxy again in a fraction of the
        // time that the kubelet needs.
        command: Some(["/leno-proxy", "supervise"].map(str::to_owned).to_vec()),
        args: Some(arguments(settings, options, probes, tcp_probes, application(template))),
        env: Some(pod_fields()),
        ports: Some(vec![
            port("leno-inbound", settings.inbound_port),
            port("leno-tunnel", proxy::TUNNEL_PORT),
            port("leno-admin", settings.admin_port),
        ]),
        lifecycle: Some(awaited(settings)),
        readiness_probe: Some(probe(settings, "/ready", 5, 3)),
        liveness_probe: Some(probe(settings, "/live", 10, 6)),
        resources: Some(resources(settings)),
        security_context: Some(SecurityContext {
            capabilities: Some(Capabilities { add: None, drop: Some(all()) }),
            run_as_user: Some(PROXY_UID),
            run_as_group: Some(PROXY_UID),
            run_as_non_root: Some(true),
            ..confined(template)
        }),
        volume_mounts: Some(vec![VolumeMount {
            name: IDENTITY_VOLUME.to_owned(),
            mount_path: IDENTITY_DIR.to_owned(),
            read_only: Some(true),
            ..Default::default()
        }]),
        ..Default::default()
    }
}

/// Makes the volume with the trust bundle and with a token of the Pod's service account that only the mesh accepts.
///
/// If the bundle's ConfigMap is missing, the Pod waits and starts once the control plane has written it.
pub(super) fn volume() -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: Some(TOKEN_AUDIENCE.to_owned()),
        expiration_seconds: Some(TOKEN_SECONDS),
        path: TOKEN_FILE.to_owned(),
    };
    let bundle = ConfigMapProjection {
        name: TRUST_BUNDLE.to_owned(),
        items: Some(vec![KeyToPath { key: ANCHORS.to_owned(), path: ANCHORS.to_owned(), ..Default::default() }]),
        ..Default::default()
    };
    Volume {
        name: IDENTITY_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![
                VolumeProjection { service_account_token: Some(token), ..Default::default() },
                VolumeProjection { config_map: Some(bundle), ..Default::default() },
            ]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Returns the proxy's arguments. The kubelet replaces `$(NAME)` with the variable's value.
fn arguments(
    settings: &Settings,
    options: &Options,
    probes: &[PodProbe],
    tcp_probes: &[Replaced],
    application: Option<&str>,
) -> Vec<String> {
    let mut args = identity_arguments(options);
    args.extend([
        // Listen on IPv4 and on IPv6, because leno-init redirects the connections of both. On a node without IPv6, the
        // proxy listens on IPv4 only.
        format!("--inbound=[::]:{}", settings.inbound_port),
        format!("--outbound=127.0.0.1:{}", settings.outbound_port),
        format!("--outbound=[::1]:{}", settings.outbound_port),
        format!("--tunnel=[::]:{}", proxy::TUNNEL_PORT),
        format!("--admin=[::]:{}", settings.admin_port),
        format!("--tap=[::]:{}", settings.tap_port),
        format!("--default-inbound-policy={}", settings.default_inbound_policy),
        format!("--workers={}", settings.workers),
    ]);
    args.extend(log_arguments(settings));
    args.push(format!("--grace={}", settings.shutdown_grace));
    if settings.access_log != "off" {
        args.push(format!("--access-log={}", settings.access_log));
    }
    if settings.tap_headers {
        args.push("--tap-headers".to_owned());
    }
    if !settings.trace_collector.is_empty() {
        args.extend(trace_arguments(settings, application));
    }
    if settings.forwarded_client_cert {
        args.push("--forwarded-client-cert".to_owned());
    }
    if settings.forwarded_for != "keep" {
        args.push(format!("--forwarded-for={}", settings.forwarded_for));
    }
    option(&mut args, "--egress-connect-timeout", &settings.egress_connect_timeout);
    option(&mut args, "--cluster-networks", &settings.cluster_networks);
    option(&mut args, OPAQUE_PORTS, &settings.opaque_ports);
    option(&mut args, HTTP_PORTS, &settings.http_ports);
    args.extend(probes::options(probes));
    args.extend(tcp::options(tcp_probes));
    args
}

fn trace_arguments(settings: &Settings, application: Option<&str>) -> Vec<String> {
    let mut args = vec![format!("--trace-collector={}", settings.trace_collector)];
    option(&mut args, "--trace-ratio", &settings.trace_ratio);
    option(&mut args, "--trace-slower-than", &settings.trace_slower_than);
    if settings.trace_failed {
        args.push("--trace-failed".to_owned());
    }
    option(&mut args, TRACE_SERVICE, application.unwrap_or_default());
    // These attributes have the names of OpenTelemetry's semantic conventions for Kubernetes.
    args.extend(
        ["namespace.name=$(POD_NAMESPACE)", "pod.name=$(POD_NAME)", "node.name=$(NODE_NAME)"]
            .map(|attribute| format!("--trace-attribute=k8s.{attribute}")),
    );
    args
}

/// Returns the arguments with the addresses of the control plane and the identity of the workload.
pub(super) fn identity_arguments(options: &Options) -> Vec<String> {
    let control = format!("{CONTROL}.{CONTROL_NAMESPACE}.svc.{}", options.cluster_domain);
    vec![
        format!("--control={control}:{XDS_PORT}"),
        format!("--issuer={control}:{CERTIFICATES_PORT}"),
        format!("--token={IDENTITY_DIR}/{TOKEN_FILE}"),
        format!("--trust-bundle={IDENTITY_DIR}/{ANCHORS}"),
        format!("--trust-domain={}", options.trust_domain),
        "--identity=ns/$(POD_NAMESPACE)/sa/$(SERVICE_ACCOUNT)".to_owned(),
    ]
}

pub(super) fn log_arguments(settings: &Settings) -> [String; 2] {
    [format!("--log={}", settings.log_level), format!("--log-format={}", settings.log_format)]
}

/// Returns the environment variables to which the container's arguments refer.
pub(super) fn pod_fields() -> Vec<EnvVar> {
    vec![
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_NAMESPACE", "metadata.namespace"),
        from_field("SERVICE_ACCOUNT", "spec.serviceAccountName"),
        from_field("NODE_NAME", "spec.nodeName"),
    ]
}

fn option(args: &mut Vec<String>, name: &str, value: &str) {
    if !value.is_empty() {
        args.push(format!("{name}={value}"));
    }
}

pub(super) fn image(settings: &Settings) -> String {
    format!("{}:{}", settings.image, settings.version)
}

pub(super) fn confined(template: &Value) -> SecurityContext {
    // A Pod's own AppArmor profile allows what the application needs, and would stop our programs. Other Pods get no
    // profile from us: a node without AppArmor refuses a Pod that names one.
    let has_own_profile =
        template.pointer("/spec/securityContext/appArmorProfile/type").is_some_and(|profile| profile == "Localhost");
    SecurityContext {
        allow_privilege_escalation: Some(false),
        app_armor_profile: has_own_profile
            .then(|| AppArmorProfile { type_: "RuntimeDefault".to_owned(), ..Default::default() }),
        read_only_root_filesystem: Some(true),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

pub(super) fn all() -> Vec<String> {
    vec!["ALL".to_owned()]
}

fn from_field(name: &str, path: &str) -> EnvVar {
    let field = ObjectFieldSelector { field_path: path.to_owned(), ..Default::default() };
    let source = EnvVarSource { field_ref: Some(field), ..Default::default() };
    EnvVar { name: name.to_owned(), value_from: Some(source), ..Default::default() }
}

pub(super) fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort { name: Some(name.to_owned()), container_port: number.into(), ..Default::default() }
}

/// Makes a postStart hook that ends when the sidecar is ready; the kubelet starts the next container only after the
/// hook. If the hook fails, the kubelet restarts the sidecar. With a startup probe instead of the hook, the Pod would
/// start up to two periods of the kubelet later, one second each.
pub(super) fn awaited(settings: &Settings) -> Lifecycle {
    let command = ["/leno-proxy", "await-ready", &format!("--admin=127.0.0.1:{}", settings.admin_port)];
    let exec = ExecAction { command: Some(command.map(str::to_owned).into()) };
    let hook = LifecycleHandler { exec: Some(exec), ..Default::default() };
    Lifecycle { post_start: Some(hook), ..Default::default() }
}

pub(super) fn probe(settings: &Settings, path: &str, period_seconds: i32, failure_threshold: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(settings.admin_port.into()),
            ..Default::default()
        }),
        period_seconds: Some(period_seconds),
        failure_threshold: Some(failure_threshold),
        ..Default::default()
    }
}

/// Returns the resources of the init container and of the proxy. Both containers get the same resources, so that a Pod
/// keeps the QoS class Guaranteed if the proxy's requests equal the proxy's limits.
pub(super) fn resources(settings: &Settings) -> ResourceRequirements {
    ResourceRequirements {
        requests: quantities([("cpu", &settings.cpu_request), ("memory", &settings.memory_request)]),
        limits: quantities([("cpu", &settings.cpu_limit), ("memory", &settings.memory_limit)]),
        ..Default::default()
    }
}

/// Returns the quantities that are not empty; `None` if all are empty.
fn quantities<const N: usize>(all: [(&str, &str); N]) -> Option<BTreeMap<String, Quantity>> {
    let given = all.into_iter().filter(|(_, quantity)| !quantity.is_empty());
    let map: BTreeMap<_, _> = given.map(|(name, quantity)| (name.to_owned(), Quantity(quantity.to_owned()))).collect();
    (!map.is_empty()).then_some(map)
}
