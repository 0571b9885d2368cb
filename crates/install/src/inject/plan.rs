//! The changes that add our containers to a Pod template, and those that remove them.

use k8s_openapi::api::core::v1::{Container, Volume};
use serde::Serialize;
use serde_json::{Value, json};

use super::containers::IDENTITY_VOLUME;
use crate::annotations::INJECTED_LABEL;
use crate::names::{INIT, PROXY};
use crate::patch::{Operation, escape};

const INIT_CONTAINERS: &str = "/spec/initContainers";
const VOLUMES: &str = "/spec/volumes";
const LABELS: &str = "/metadata/labels";

/// The items that are added to a Pod template.
pub(super) struct Additions {
    pub(super) init: Container,
    /// The second init container, before the application's own, which may call other workloads through the proxy too.
    pub(super) proxy: Container,
    pub(super) volume: Volume,
}

/// The changes, and whether they replace a different version of our items. `None` if the template already has the same
/// items.
pub(super) fn inject(template: &Value, additions: &Additions) -> Option<(Vec<Operation>, bool)> {
    let wanted = [to_value(&additions.init), to_value(&additions.proxy)];
    let volume = to_value(&additions.volume);
    let had = our_items(template);
    if had.is_same(&wanted, &volume) && label(template).is_some_and(|label| label == "true") {
        return None;
    }
    let mut patch = had.removals();
    let [init, proxy] = wanted;
    if is_list(template, INIT_CONTAINERS) {
        patch.push(add(&format!("{INIT_CONTAINERS}/0"), proxy));
        patch.push(add(&format!("{INIT_CONTAINERS}/0"), init));
    } else {
        patch.push(add(INIT_CONTAINERS, json!([init, proxy])));
    }
    if is_list(template, VOLUMES) {
        patch.push(add(&format!("{VOLUMES}/-"), volume));
    } else {
        patch.push(add(VOLUMES, json!([volume])));
    }
    let is_object = |path: &str| template.pointer(path).is_some_and(Value::is_object);
    if !is_object("/metadata") {
        patch.push(add("/metadata", json!({"labels": {INJECTED_LABEL: "true"}})));
    } else if !is_object(LABELS) {
        patch.push(add(LABELS, json!({INJECTED_LABEL: "true"})));
    } else if label(template).is_none_or(|label| label != "true") {
        patch.push(add(&label_path(), json!("true")));
    }
    let replaced = !had.init_containers.is_empty();
    Some((patch, replaced))
}

/// Lists and mappings that would become empty are removed too, since injection added them.
pub(super) fn uninject(template: &Value) -> Vec<Operation> {
    let had = our_items(template);
    let mut patch = had.removals();
    for (list, ours) in [(INIT_CONTAINERS, &had.init_containers), (VOLUMES, &had.volumes)] {
        if !ours.is_empty() && items(template, list).len() == ours.len() {
            patch.retain(|operation| !matches!(operation, Operation::Remove { path } if path.starts_with(list)));
            patch.push(Operation::Remove { path: list.to_owned() });
        }
    }
    if label(template).is_some() {
        let is_alone = |path: &str| template.pointer(path).and_then(Value::as_object).is_some_and(|all| all.len() == 1);
        let path = match (is_alone(LABELS), is_alone("/metadata")) {
            (true, true) => "/metadata".to_owned(),
            (true, false) => LABELS.to_owned(),
            (false, _) => label_path(),
        };
        patch.push(Operation::Remove { path });
    }
    patch
}

/// The indexes of our items in a template, ascending.
struct OurItems<'a> {
    template: &'a Value,
    init_containers: Vec<usize>,
    volumes: Vec<usize>,
}

fn our_items(template: &Value) -> OurItems<'_> {
    let named = |path: &str, names: &[&str]| {
        let is_ours = |item: &Value| item.get("name").and_then(Value::as_str).is_some_and(|name| names.contains(&name));
        items(template, path).iter().enumerate().filter(|(_, item)| is_ours(item)).map(|(index, _)| index).collect()
    };
    OurItems {
        template,
        init_containers: named(INIT_CONTAINERS, &[INIT, PROXY]),
        volumes: named(VOLUMES, &[IDENTITY_VOLUME]),
    }
}

impl OurItems<'_> {
    fn is_same(&self, containers: &[Value], volume: &Value) -> bool {
        let volumes = items(self.template, VOLUMES);
        let has_volume = self.volumes.iter().filter_map(|index| volumes.get(*index)).eq([volume]);
        has_volume && items(self.template, INIT_CONTAINERS).starts_with(containers) && self.init_containers == [0, 1]
    }

    /// From the last to the first, so that the remaining indexes stay valid.
    fn removals(&self) -> Vec<Operation> {
        let of = |list: &'static str, indexes: &[usize]| {
            let paths = indexes.iter().rev().map(move |index| format!("{list}/{index}"));
            paths.map(|path| Operation::Remove { path }).collect::<Vec<_>>()
        };
        [of(INIT_CONTAINERS, &self.init_containers), of(VOLUMES, &self.volumes)].concat()
    }
}

fn items<'a>(template: &'a Value, path: &str) -> &'a [Value] {
    template.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_list(template: &Value, path: &str) -> bool {
    template.pointer(path).is_some_and(Value::is_array)
}

fn label(template: &Value) -> Option<&Value> {
    template.pointer(&label_path())
}

fn label_path() -> String {
    format!("{LABELS}/{}", escape(INJECTED_LABEL))
}

fn add(path: &str, value: Value) -> Operation {
    Operation::Add { path: path.to_owned(), value }
}

/// Kubernetes' types always serialize to JSON.
fn to_value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}
