//! Decides what the injector does with a Pod that already has the containers of a proxy, when the cluster asks for
//! injection.
//!
//! A user may have written these containers, or `leno inject` has added them to a file. Or the injector itself has
//! added them, and the API server asks again because a later webhook has changed the Pod (`reinvocationPolicy`).
//!
//! Only the fields that decide what the containers do are compared: the image, the command, the arguments, the hooks,
//! the restart policy, and mounts over our programs. Any other field may differ: the API server writes defaults into
//! our containers, LimitRanges add resources, and other webhooks add mounts and variables.

use std::path::{Component, Path};

use k8s_openapi::api::core::v1::Container;
use leno_model::problem::quoted;
use serde_json::{Value, json};

use super::containers::TRACE_SERVICE;
use super::plan::{INIT_CONTAINERS, items};
use super::{Options, Outcome, Skipped, probes, reserved};
use crate::annotations::Mistake;
use crate::names::{INIT, PROXY};
use crate::patch::Operation;

/// Keeps the existing containers, and corrects only the arguments that depend on the application: its probes, and its
/// name. A later webhook may have added a container with a probe, or a label. `ours` are the containers that the
/// injector would add.
///
/// # Errors
/// If the containers differ from ours, and the installation reserves a setting that such containers could evade.
pub(super) fn keep(template: &Value, ours: &[Container], options: &Options) -> Result<Outcome, Vec<Mistake>> {
    let differences: Vec<String> = ours.iter().filter_map(|container| difference(template, container)).collect();
    if differences.is_empty() {
        let patch: Vec<Operation> = ours.iter().filter_map(|container| correction(template, container)).collect();
        return Ok(match patch.is_empty() {
            true => Outcome::Skipped(Skipped::HasProxy),
            false => Outcome::Injected { patch, replaced: true },
        });
    }
    let reserved = reserved::protecting(options);
    if reserved.is_empty() {
        return Ok(Outcome::Skipped(Skipped::HasProxy));
    }
    let fix = format!(
        "remove {INIT} and {PROXY} from the Pod, so that the injector adds its own: webhook.namespaceOnly lists {}",
        reserved.join(", ")
    );
    Err(differences.into_iter().map(|what| Mistake::Conflict { what, fix: fix.clone() }).collect())
}

/// Returns how the Pod's container of the same name differs from ours; `None` if it differs only in its probes or in
/// fields that are not compared.
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
    let mounts = existing.get("volumeMounts").and_then(Value::as_array).into_iter().flatten();
    let paths = mounts.map(|mount| mount.get("mountPath").and_then(Value::as_str).unwrap_or_default());
    let over = paths.into_iter().find(|path| covers(path, program))?;
    Some(format!("container {name} has the mount {}, which hides its program {program}", quoted(over)))
}

/// Returns whether a mount at `path` hides the file `program`, or may hide it.
fn covers(path: &str, program: &str) -> bool {
    let path = Path::new(path);
    Path::new(program).starts_with(path) || path.components().any(|component| component == Component::ParentDir)
}

/// Returns the change that gives the Pod's container of the same name our arguments; `None` if the container already
/// has our arguments.
fn correction(template: &Value, ours: &Container) -> Option<Operation> {
    let (at, existing) = find(template, &ours.name)?;
    let args = json!(ours.args);
    (existing.get("args") != Some(&args))
        .then(|| Operation::Add { path: format!("{INIT_CONTAINERS}/{at}/args"), value: args })
}

fn find<'a>(template: &'a Value, name: &str) -> Option<(usize, &'a Value)> {
    items(template, INIT_CONTAINERS).iter().enumerate().find(|(_, item)| item["name"] == name)
}

/// Returns the arguments of a container, except the arguments that [`keep`] corrects: the probes, and the name of the
/// application (a label that a later webhook may change). `None` for an argument that is not text.
fn texts(container: &Value) -> Vec<Option<&str>> {
    let is_corrected = |argument: &str| {
        argument.split_once('=').is_some_and(|(option, _)| [probes::OPTION, TRACE_SERVICE].contains(&option))
    };
    let list = container.get("args").and_then(Value::as_array).into_iter().flatten();
    list.map(Value::as_str).filter(|argument| !argument.is_some_and(is_corrected)).collect()
}

#[cfg(test)]
#[path = "existing_tests.rs"]
mod tests;
