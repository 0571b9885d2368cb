//! Decides what the injector does with a Pod that already has the containers of a proxy.
//!
//! This module is used only if the cluster asks for injection. If a user asks, the injector replaces the containers.
//!
//! There are three possible authors of these containers: a user, `leno inject`, or the injector itself. If a later
//! webhook changes a Pod after the injection, the API server sends the Pod to the injector again
//! (`reinvocationPolicy`). The Pod then already has the injector's containers.
//!
//! The injector compares only the fields that decide what the containers do: the image, the command, the arguments, the
//! hooks, the restart policy, the sources of the volume with the proxy's identity, and mounts over our programs or over
//! this volume. Any other field may differ: the API server writes defaults into our containers and volumes, LimitRanges
//! add resources, and other webhooks add mounts and variables.
//!
//! The containers must also start before all other init containers. An init container before `leno-init` is neither
//! redirected nor protected, and it may be a native sidecar that serves clients, or a program that never ends.

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Volume};
use leno_model::problem::quoted;
use serde_json::{Value, json};

use super::containers::TRACE_SERVICE;
use super::plan::{self, Additions, INIT_CONTAINERS, VOLUMES, items};
use super::tcp::{self, Replaced};
use super::{Options, Outcome, Skipped, probes, reserved};
use crate::annotations::Mistake;
use crate::names::{INIT, PROXY};
use crate::patch::{Operation, apply};

/// The proxy's options that [`keep`] corrects: the probes, and the name of the application.
const CORRECTED: [&str; 3] = [probes::OPTION, tcp::OPTION, TRACE_SERVICE];

/// Keeps the existing containers, and corrects only their place before all other init containers, and the arguments
/// that depend on the application: its probes, and its name. A later webhook may have added a container with a probe, or
/// a label. Replaces TCP probes of such containers. If the containers or the volume differ from ours, for example
/// because another version of Leno injected them, this function only adds missing probes: another version may not have
/// the pages for TCP probes. Also adds the label of injected Pods if it is missing, whether or not the containers
/// differ: `kubectl debug --copy-to` copies a Pod without its labels. `ours` are the items that the injector would add.
/// Also returns warnings for the author of the Pod.
///
/// # Errors
/// If the containers or the volume differ from ours, and the installation reserves a protecting annotation for
/// namespaces (see `reserved::protecting`). With different containers, a Pod could evade that protection.
pub(super) fn keep(
    template: &Value,
    ours: &Additions,
    options: &Options,
) -> Result<(Outcome, Vec<String>), Vec<Mistake>> {
    let of_containers = ours.init_containers.iter().filter_map(|container| difference(template, container));
    let of_volumes = ours.volumes.iter().filter_map(|volume| other_sources(template, volume));
    let differences: Vec<String> = of_containers.chain(of_volumes).collect();
    let reserved = reserved::protecting(options);
    if differences.is_empty() || reserved.is_empty() {
        let is_ours = differences.is_empty();
        let correct: fn(&Value, &Container) -> Option<Operation> = if is_ours { correction } else { probe_correction };
        let mut patch: Vec<Operation> =
            ours.init_containers.iter().filter_map(|container| correct(template, container)).collect();
        let mut warnings = Vec::new();
        if is_ours {
            patch.extend(ours.tcp_probe_changes(|probe| probe.is_pending(template)));
            // The moves change the places of containers, and the paths of the changes above name the old places. So the
            // moves follow them.
            let moves = moves_to_front(template, &patch, &ours.init_containers);
            patch.extend(moves);
        } else {
            let pending = ours.tcp_probes.iter().filter(|probe| probe.is_pending(template));
            warnings.extend(pending.map(Replaced::beside_other_proxy));
        }
        patch.extend(plan::label_change(template, ours.label));
        return Ok((corrected(patch), warnings));
    }
    let fix = format!(
        "remove {INIT} and {PROXY} from the Pod, so that the injector adds its own: webhook.namespaceOnly lists {}",
        reserved.join(", ")
    );
    Err(differences.into_iter().map(|what| Mistake::Conflict { what, fix: fix.clone() }).collect())
}

/// Returns the outcome of an injection that keeps the Pod's containers and makes only these changes.
pub(super) fn corrected(patch: Vec<Operation>) -> Outcome {
    match patch.is_empty() {
        true => Outcome::Skipped(Skipped::HasProxy),
        false => Outcome::Injected { patch, replaced: true },
    }
}

/// Returns how the Pod's container of the same name differs from ours. `None` if the only differences are in arguments
/// that [`keep`] corrects, or in fields that are not compared.
fn difference(template: &Value, ours: &Container) -> Option<String> {
    let name = &ours.name;
    let Some((_, existing)) = find(template, name) else {
        return Some(format!("the Pod has no init container {name}, but other containers of a proxy"));
    };
    let image = existing.get("image").and_then(Value::as_str).unwrap_or_default();
    let wanted = ours.image.as_deref().unwrap_or_default();
    // Other webhooks add a digest to the image's tag.
    if image.strip_prefix(wanted).is_none_or(|rest| !rest.is_empty() && !rest.starts_with('@')) {
        return Some(format!("container {name} has the image {}, and the injector's is {wanted}", quoted(image)));
    }
    let wanted = |field: &str| json!(ours).get(field).cloned().unwrap_or_default();
    let differs = |field: &str| existing.get(field).cloned().unwrap_or_default() != wanted(field);
    if differs("command") {
        return Some(format!("container {name} has another command than the injector gives it"));
    }
    if texts(existing) != texts(&json!(ours)) {
        return Some(format!("container {name} has other arguments than the injector gives it"));
    }
    if differs("lifecycle") {
        return Some(format!("container {name} has other hooks (lifecycle) than the injector gives it"));
    }
    if differs("restartPolicy") {
        return Some(format!("container {name} has another restartPolicy than the injector gives it"));
    }
    let program = ours.command.iter().flatten().next().map(String::as_str).unwrap_or_default();
    other_mount(&mounts(existing), &mounts(&json!(ours)), program).map(|what| format!("container {name} {what}"))
}

/// Returns how the sources of the Pod's volume of the same name differ from ours; `None` if they are equal. With other
/// sources, the proxy would trust another authority.
fn other_sources(template: &Value, ours: &Volume) -> Option<String> {
    let sources = |volume: &Value| volume.pointer("/projected/sources").cloned();
    let existing = items(template, VOLUMES).iter().find(|item| item["name"] == ours.name);
    let differs = existing.and_then(sources) != sources(&json!(ours));
    differs.then(|| format!("volume {} has other sources than the injector gives it", ours.name))
}

struct Mount {
    /// The path as the Pod's spec gives it: it may be relative or contain `..`.
    written: String,
    /// The absolute path in the container, without `..`.
    path: PathBuf,
    volume: String,
    /// Whether the mount shows the whole volume, not only a `subPath` of it.
    is_whole: bool,
}

fn mounts(container: &Value) -> Vec<Mount> {
    let mount = |mount: &Value| {
        let text = |field: &str| mount.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (written, volume) = (text("mountPath"), text("name"));
        let is_whole = text("subPath").is_empty() && text("subPathExpr").is_empty();
        Mount { path: resolved(&written), written, volume, is_whole }
    };
    items(container, "/volumeMounts").iter().map(mount).collect()
}

/// Returns the absolute path in the container, without `..`. Kubernetes takes relative paths from the root.
fn resolved(path: &str) -> PathBuf {
    let mut resolved = PathBuf::from("/");
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => resolved.push(name),
            Component::ParentDir => {
                resolved.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    resolved
}

/// Returns which of a container's mounts could replace the container's program or the files in our mounts; `None` if no
/// mount could.
fn other_mount(mounts: &[Mount], ours: &[Mount], program: &str) -> Option<String> {
    let has = |mount: &Mount, what: String| Some(format!("has the mount {}{what}", quoted(&mount.written)));
    if let Some(mount) = mounts.iter().find(|mount| Path::new(program).starts_with(&mount.path)) {
        return has(mount, format!(", which hides its program {program}"));
    }
    for own in ours {
        let is_own = |mount: &&Mount| mount.path == own.path && mount.volume == own.volume && mount.is_whole;
        let overlaps = |mount: &&Mount| own.path.starts_with(&mount.path) || mount.path.starts_with(&own.path);
        if let Some(mount) = mounts.iter().filter(overlaps).find(|mount| !is_own(mount)) {
            return has(mount, format!(", and the injector mounts only the volume {} at {}", own.volume, own.written));
        }
        if !mounts.iter().any(|mount| is_own(&mount)) {
            return Some(format!("has no mount at {}", own.written));
        }
    }
    let (outer, inner) = nested(mounts)?;
    has(inner, format!(" within the mount {}, which may lead elsewhere", quoted(&outer.written)))
}

/// Returns two mounts, the second within the first; `None` if no mount is within another. A symbolic link in the outer
/// volume could make the kubelet mount the inner volume at any path.
fn nested(mounts: &[Mount]) -> Option<(&Mount, &Mount)> {
    // In sorted order, a directory comes directly before the paths within it. So comparing neighbours is enough.
    let mut sorted: Vec<&Mount> = mounts.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    let pairs = sorted.iter().zip(sorted.iter().skip(1));
    let mut nested = pairs.filter(|(outer, inner)| inner.path != outer.path && inner.path.starts_with(&outer.path));
    nested.next().map(|(outer, inner)| (*outer, *inner))
}

/// Returns the change that gives the Pod's container of the same name our arguments; `None` if the container already
/// has our arguments.
fn correction(template: &Value, ours: &Container) -> Option<Operation> {
    let (at, existing) = find(template, &ours.name)?;
    let args = json!(ours.args);
    (existing.get("args") != Some(&args)).then(|| with_args(at, args))
}

/// Returns the change that gives the Pod's container of the same name the probes that it lacks, and leaves its other
/// arguments as they are; `None` if the container already has our probes. Does not correct the application's name in
/// traces: a proxy without a trace collector does not start with such a name.
fn probe_correction(template: &Value, ours: &Container) -> Option<Operation> {
    let (at, existing) = find(template, &ours.name)?;
    // A container with another command may be a program that does not know the option.
    if existing.get("command") != Some(&json!(ours.command)) {
        return None;
    }
    let args = items(existing, "/args");
    let probes = ours.args.iter().flatten().filter(|argument| option_of(argument) == Some(probes::OPTION));
    let missing: Vec<Value> = probes.map(|probe| json!(probe)).filter(|probe| !args.contains(probe)).collect();
    (!missing.is_empty()).then(|| with_args(at, [args, &missing].concat().into()))
}

/// Returns the changes that move our containers before all other init containers, in our order; none if the containers
/// are there already. Keeps all fields of the containers. The changes apply after `patch`.
fn moves_to_front(template: &Value, patch: &[Operation], ours: &[Container]) -> Vec<Operation> {
    let mut changed = template.clone();
    // Cannot fail: the changes were computed from this template.
    let _ = apply(&mut changed, patch);
    let found: Vec<(usize, &Value)> = ours.iter().filter_map(|container| find(&changed, &container.name)).collect();
    let mut places: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
    if places.iter().copied().eq(0..places.len()) {
        return Vec::new();
    }
    // Remove the containers from the last to the first, so that the remaining places stay valid.
    places.sort_unstable();
    let removals = places.iter().rev().map(|at| Operation::Remove { path: format!("{INIT_CONTAINERS}/{at}") });
    let add = |(_, container): &(usize, &Value)| Operation::Add {
        path: format!("{INIT_CONTAINERS}/0"),
        value: (*container).clone(),
    };
    removals.chain(found.iter().rev().map(add)).collect()
}

/// Returns the change that gives these arguments to the Pod's container at this place among the init containers.
fn with_args(at: usize, args: Value) -> Operation {
    Operation::Add { path: format!("{INIT_CONTAINERS}/{at}/args"), value: args }
}

/// Returns the option of an argument such as `--probe=8080/healthz`.
fn option_of(argument: &str) -> Option<&str> {
    argument.split_once('=').map(|(option, _)| option)
}

fn find<'a>(template: &'a Value, name: &str) -> Option<(usize, &'a Value)> {
    items(template, INIT_CONTAINERS).iter().enumerate().find(|(_, item)| item["name"] == name)
}

/// Returns the arguments of a container, except the arguments that [`keep`] corrects. An argument that is not text
/// becomes `None`.
fn texts(container: &Value) -> Vec<Option<&str>> {
    let is_corrected = |argument: &str| option_of(argument).is_some_and(|option| CORRECTED.contains(&option));
    let list = container.get("args").and_then(Value::as_array).into_iter().flatten();
    list.map(Value::as_str).filter(|argument| !argument.is_some_and(is_corrected)).collect()
}

#[cfg(test)]
#[path = "existing_tests.rs"]
mod tests;
