//! Decides about a Pod that already has the containers of a proxy, when the cluster asks for injection.
//!
//! A user may have written these containers, or `leno inject` has added them to a file. Or the injector itself has
//! added them, and the API server asks again because a later webhook has changed the Pod (`reinvocationPolicy`).
//!
//! Only the image, the command and the arguments are compared, because these decide what the containers do. Any other
//! field may differ: the API server writes defaults into our containers, LimitRanges add resources, and other webhooks
//! add mounts and variables.

use k8s_openapi::api::core::v1::Container;
use leno_model::problem::quoted;
use serde_json::{Value, json};

use super::plan::{INIT_CONTAINERS, items};
use super::{Options, Outcome, Skipped, probes, reserved};
use crate::annotations::Mistake;
use crate::names::{INIT, PROXY};
use crate::patch::Operation;

/// Keeps the existing containers, and only corrects the probes that the proxy allows: a later webhook may have added a
/// container with a probe. `ours` are the containers that the injector would add.
///
/// # Errors
/// If the containers differ from ours, and the installation reserves a setting that the difference could change.
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

/// Returns how the Pod's container of the same name differs from ours; `None` if only its probes or other fields do.
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
    let is_same = |field: &str, wanted: &Option<Vec<String>>| {
        texts(existing, field).eq(wanted.iter().flatten().map(|text| Some(text.as_str())).filter(is_no_probe))
    };
    if !is_same("command", &ours.command) {
        return Some(format!("container {name} has another command than the injector gives it"));
    }
    if !is_same("args", &ours.args) {
        return Some(format!("container {name} has other arguments than the injector gives it"));
    }
    None
}

/// Returns the change that gives the Pod's container of the same name our arguments; `None` if it has them.
fn correction(template: &Value, ours: &Container) -> Option<Operation> {
    let (at, existing) = find(template, &ours.name)?;
    let args = json!(ours.args);
    (existing.get("args") != Some(&args))
        .then(|| Operation::Add { path: format!("{INIT_CONTAINERS}/{at}/args"), value: args })
}

fn find<'a>(template: &'a Value, name: &str) -> Option<(usize, &'a Value)> {
    items(template, INIT_CONTAINERS).iter().enumerate().find(|(_, item)| item["name"] == name)
}

/// The texts of a container's list without the options that allow probes; `None` for an item that is not text.
fn texts<'a>(container: &'a Value, field: &str) -> impl Iterator<Item = Option<&'a str>> {
    let list = container.get(field).and_then(Value::as_array).into_iter().flatten();
    list.map(Value::as_str).filter(is_no_probe)
}

fn is_no_probe(argument: &Option<&str>) -> bool {
    let is_probe = |argument: &str| argument.strip_prefix(probes::OPTION).is_some_and(|rest| rest.starts_with('='));
    !argument.is_some_and(is_probe)
}

#[cfg(test)]
#[path = "existing_tests.rs"]
mod tests;
