//! `leno.dev/inject: grpc`: for a gRPC program that speaks xDS itself. The Pod gets no proxy. A sidecar obtains the
//! workload's certificate and writes it, with a bootstrap, into a volume in memory, which the Pod's containers read.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, EnvVar, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Map, Value};

use super::containers::{self, IDENTITY_DIR, IDENTITY_VOLUME, PROXY_UID};
use super::plan::{Additions, Program, is_ours};
use super::settings::Settings;
use super::skip::containers as containers_of;
use super::{Options, skip};
use crate::annotations::{
    ADMIN_PORT, INJECT, Mistake, PROXY_CPU_LIMIT, PROXY_CPU_REQUEST, PROXY_IMAGE, PROXY_IMAGE_PULL_POLICY,
    PROXY_LOG_FORMAT, PROXY_LOG_LEVEL, PROXY_MEMORY_LIMIT, PROXY_MEMORY_REQUEST, PROXY_VERSION, ours, unknown,
};
use crate::names::GRPC;

/// The volume with the files that gRPC reads.
pub(super) const VOLUME: &str = "leno-grpc";
/// The variable that names the bootstrap.
pub(super) const BOOTSTRAP_VARIABLE: &str = "GRPC_XDS_BOOTSTRAP";
pub(super) const BOOTSTRAP: &str = "/var/run/leno/grpc/bootstrap.json";
/// The variable that makes gRPC send a cluster's server name (SNI). A proxy recognizes connections of the mesh by this
/// name.
pub(super) const SERVER_NAME_VARIABLE: &str = "GRPC_EXPERIMENTAL_XDS_SNI";
/// The value of the injector's label on a Pod with this sidecar; on a Pod with a proxy, the value is `true`.
const LABEL: &str = "grpc";

const DIRECTORY: &str = "/var/run/leno/grpc";
/// The variable that contains a whole bootstrap. gRPC ignores this variable if [`BOOTSTRAP_VARIABLE`] is set too.
const INLINE_VARIABLE: &str = "GRPC_XDS_BOOTSTRAP_CONFIG";
/// Size limit of the volume. Two generations of the files fit, each with the longest certificate chain and the most
/// trust anchors.
const VOLUME_SIZE: &str = "4Mi";

/// The annotations that apply to the sidecar. All others configure how a proxy handles calls, and no call passes
/// through the sidecar.
const EFFECTIVE: [&str; 11] = [
    INJECT,
    PROXY_IMAGE,
    PROXY_VERSION,
    PROXY_IMAGE_PULL_POLICY,
    PROXY_CPU_REQUEST,
    PROXY_CPU_LIMIT,
    PROXY_MEMORY_REQUEST,
    PROXY_MEMORY_LIMIT,
    PROXY_LOG_LEVEL,
    PROXY_LOG_FORMAT,
    ADMIN_PORT,
];

/// Returns the items to add to a Pod that gets the sidecar.
pub(super) fn additions(settings: &Settings, options: &Options, template: &Value) -> Additions {
    Additions {
        init_containers: vec![sidecar(settings, options, template)],
        volumes: vec![containers::volume(), volume()],
        label: LABEL,
        program: Some(Program { variables: variables(), mount: mount(true) }),
        // Without a proxy, a TCP probe reaches the application.
        tcp_probes: Vec::new(),
        admin_port: settings.admin_port,
    }
}

/// Makes the sidecar's container. As a native sidecar, it writes the files before the gRPC program starts, and ends
/// after the program, in Jobs too.
fn sidecar(settings: &Settings, options: &Options, template: &Value) -> Container {
    let mut args =
        vec!["grpc".to_owned(), format!("--directory={DIRECTORY}"), "--node=$(POD_NAMESPACE)/$(POD_NAME)".to_owned()];
    args.extend(containers::identity_arguments(options));
    args.push(format!("--admin=[::]:{}", settings.admin_port));
    args.extend(containers::log_arguments(settings));
    let identity = VolumeMount {
        name: IDENTITY_VOLUME.to_owned(),
        mount_path: IDENTITY_DIR.to_owned(),
        read_only: Some(true),
        ..Default::default()
    };
    Container {
        name: GRPC.to_owned(),
        image: Some(containers::image(settings)),
        image_pull_policy: Some(settings.image_pull_policy.clone()),
        restart_policy: Some("Always".to_owned()),
        command: Some(vec!["/leno-proxy".to_owned()]),
        args: Some(args),
        env: Some(containers::pod_fields()),
        ports: Some(vec![containers::port("leno-admin", settings.admin_port)]),
        // There is no readiness probe: if the sidecar cannot renew the certificate, the Pod must still serve with its
        // current one.
        lifecycle: Some(containers::awaited(settings)),
        liveness_probe: Some(containers::probe(settings, "/live", 10, 6)),
        resources: Some(containers::resources(settings)),
        security_context: Some(SecurityContext {
            capabilities: Some(Capabilities { add: None, drop: Some(containers::all()) }),
            run_as_user: Some(PROXY_UID),
            run_as_group: Some(PROXY_UID),
            run_as_non_root: Some(true),
            ..containers::confined(template)
        }),
        volume_mounts: Some(vec![identity, mount(false)]),
        ..Default::default()
    }
}

/// Makes the volume for the files. It is in memory, so that the key is never written to disk.
fn volume() -> Volume {
    Volume {
        name: VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: Some(Quantity(VOLUME_SIZE.to_owned())),
        }),
        ..Default::default()
    }
}

fn mount(is_read_only: bool) -> VolumeMount {
    VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: DIRECTORY.to_owned(),
        read_only: is_read_only.then_some(true),
        ..Default::default()
    }
}

fn variables() -> Vec<EnvVar> {
    let variable = |(name, value): (&str, &str)| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..Default::default()
    };
    [(BOOTSTRAP_VARIABLE, BOOTSTRAP), (SERVER_NAME_VARIABLE, "true")].map(variable).into()
}

/// Finds every part of the Pod that conflicts with the items to add.
pub(super) fn conflicts(template: &Value, settings: &Settings) -> Vec<Mistake> {
    let mut found = Vec::new();
    for container in containers_of(template).filter(|container| !is_ours(container)) {
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        let conflict = |what: String, fix: &str| Mistake::Conflict {
            what: format!("container {name} {what}"),
            fix: format!("{fix}, or annotate {INJECT}: enabled for a proxy, or disabled"),
        };
        for variable in list(container, "env") {
            let key = variable.get("name").and_then(Value::as_str).unwrap_or_default();
            let is_foreign = variable.get("value").and_then(Value::as_str) != Some(BOOTSTRAP);
            if key == INLINE_VARIABLE || key == BOOTSTRAP_VARIABLE && is_foreign {
                let what = format!("sets {key}, and {INJECT}: grpc sets {BOOTSTRAP_VARIABLE}");
                found.push(conflict(what, "remove the variable"));
            }
        }
        for mount in list(container, "volumeMounts") {
            let is_foreign = mount.get("name").is_none_or(|name| name != VOLUME);
            if is_foreign && mount.get("mountPath").and_then(Value::as_str).is_some_and(is_directory) {
                found.push(conflict(format!("mounts a volume at {DIRECTORY}"), "mount it elsewhere"));
            }
        }
        if tcp_ports(container).any(|port| port == i64::from(settings.admin_port)) {
            let what = format!("listens on {}, the port of {GRPC}'s probes", settings.admin_port);
            found.push(conflict(what, &format!("give {GRPC} another port with the annotation {ADMIN_PORT}")));
        }
    }
    found
}

fn is_directory(path: &str) -> bool {
    path.trim_end_matches('/') == DIRECTORY
}

/// Warns of annotations that have no effect without a proxy, and of ports that no policy protects.
pub(super) fn warnings(template: &Value, annotations: Option<&Map<String, Value>>) -> Vec<String> {
    let is_idle = |name: &str| !EFFECTIVE.contains(&name) && unknown(name).is_none();
    let idle = ours(annotations).filter(|(name, _)| is_idle(name));
    let mut warnings: Vec<String> = idle
        .map(|(name, _)| format!("annotation {name}: it has no effect with {INJECT}: grpc, since the Pod has no proxy"))
        .collect();
    let own = containers_of(template).filter(|container| !is_ours(container));
    let ports: Vec<String> = own.flat_map(tcp_ports).map(|port| port.to_string()).collect();
    if !ports.is_empty() {
        warnings.push(format!(
            "annotation {INJECT}: grpc: the Pod has no proxy, so no AuthorizationPolicy protects its ports {}",
            ports.join(",")
        ));
    }
    warnings
}

fn tcp_ports(container: &Value) -> impl Iterator<Item = i64> {
    let is_tcp = |port: &&Value| port.get("protocol").is_none_or(|protocol| protocol == "TCP");
    list(container, "ports").iter().filter(is_tcp).filter_map(|port| port.get("containerPort")?.as_i64())
}

fn list<'a>(container: &'a Value, field: &str) -> &'a [Value] {
    container.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns whether the effective value of [`INJECT`] asks for the sidecar instead of a proxy.
pub(super) fn is_asked(annotations: Option<&Map<String, Value>>, namespace: &Map<String, Value>) -> bool {
    skip::effective_word(annotations, namespace).is_some_and(|word| word.trim() == skip::GRPC_WORD)
}

#[cfg(test)]
#[path = "grpc_tests.rs"]
mod tests;
