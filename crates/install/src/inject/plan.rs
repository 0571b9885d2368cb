//! The changes that add our items to a Pod template, and the changes that remove these items.

use k8s_openapi::api::core::v1::{Container, EnvVar, Volume, VolumeMount};
use serde::Serialize;
use serde_json::{Value, json};

use super::containers::IDENTITY_VOLUME;
use super::grpc::{self, BOOTSTRAP, BOOTSTRAP_VARIABLE, SERVER_NAME_VARIABLE};
use super::tcp::{self, Replaced};
use crate::annotations::INJECTED_LABEL;
use crate::names::{GRPC, INIT, PROXY};
use crate::patch::{Operation, escape};

pub(super) const INIT_CONTAINERS: &str = "/spec/initContainers";
const CONTAINERS: &str = "/spec/containers";
pub(super) const VOLUMES: &str = "/spec/volumes";
const LABELS: &str = "/metadata/labels";
const OUR_CONTAINERS: [&str; 3] = [INIT, PROXY, GRPC];
const OUR_VOLUMES: [&str; 2] = [IDENTITY_VOLUME, grpc::VOLUME];

/// The items that are added to a Pod template.
pub(super) struct Additions {
    /// The init containers. They are inserted before the application's own init containers, because these may call
    /// other workloads too.
    pub(super) init_containers: Vec<Container>,
    pub(super) volumes: Vec<Volume>,
    /// The value of the label [`INJECTED_LABEL`].
    pub(super) label: &'static str,
    /// The items that every container of the application gets; `None` if the containers get no items.
    pub(super) program: Option<Program>,
    /// The application's TCP probes, which the proxy makes in the kubelet's place.
    pub(super) tcp_probes: Vec<Replaced>,
    /// The port of the proxy's admin endpoint, which has the pages for the TCP probes.
    pub(super) admin_port: u16,
}

impl Additions {
    /// Returns the changes that replace the TCP probes which `is_meant` selects.
    pub(super) fn tcp_probe_changes(&self, is_meant: impl Fn(&Replaced) -> bool) -> Vec<Operation> {
        let meant = self.tcp_probes.iter().filter(|probe| is_meant(probe));
        meant.flat_map(|probe| probe.changes(self.admin_port)).collect()
    }
}

/// The items that a container of the application gets with the gRPC sidecar: the mount of the sidecar's files, and the
/// variables that gRPC reads.
pub(super) struct Program {
    /// Variables that the container does not have yet are appended, in this order.
    pub(super) variables: Vec<EnvVar>,
    pub(super) mount: VolumeMount,
}

/// A patch for a Pod template, and which of our containers the patch replaces.
pub(super) struct Plan {
    pub(super) patch: Vec<Operation>,
    /// Whether containers of ours are replaced.
    pub(super) replaces: bool,
    /// Whether one of the replaced containers belongs to a proxy, and not only to a sidecar for gRPC.
    pub(super) replaces_proxy: bool,
}

/// Returns whether a container has the name of one of our containers.
pub(super) fn is_ours(container: &Value) -> bool {
    is_named(container, &OUR_CONTAINERS)
}

fn is_named(item: &Value, names: &[&str]) -> bool {
    item.get("name").and_then(Value::as_str).is_some_and(|name| names.contains(&name))
}

/// Plans the changes that add the items; `None` if the template already has the same items.
pub(super) fn inject(template: &Value, additions: &Additions) -> Option<Plan> {
    let wanted: Vec<Value> = additions.init_containers.iter().map(to_value).collect();
    let volumes: Vec<Value> = additions.volumes.iter().map(to_value).collect();
    let had = our_items(template);
    let mut patch = removals_from_programs(template);
    let programs = additions_to_programs(template, additions);
    // An item that is removed and then added again is not a change.
    let has_programs = is_undone(template, &patch, &programs);
    let label = label_change(template, additions.label);
    if has_programs && had.is_same(&wanted, &volumes) && label.is_none() {
        return None;
    }
    patch.extend(programs);
    patch.extend(had.removals());
    if is_list(template, INIT_CONTAINERS) {
        patch.extend(wanted.into_iter().rev().map(|container| add(&format!("{INIT_CONTAINERS}/0"), container)));
    } else {
        patch.push(add(INIT_CONTAINERS, wanted.into()));
    }
    if is_list(template, VOLUMES) {
        patch.extend(volumes.into_iter().map(|volume| add(&format!("{VOLUMES}/-"), volume)));
    } else {
        patch.push(add(VOLUMES, volumes.into()));
    }
    patch.extend(label);
    let proxies = items(template, INIT_CONTAINERS).iter().any(|container| is_named(container, &[INIT, PROXY]));
    Some(Plan { patch, replaces: !had.init_containers.is_empty(), replaces_proxy: proxies })
}

/// Returns the change that gives the template the label [`INJECTED_LABEL`] with this value; `None` if it has the label
/// already.
pub(super) fn label_change(template: &Value, value: &str) -> Option<Operation> {
    let is_object = |path: &str| template.pointer(path).is_some_and(Value::is_object);
    if !is_object("/metadata") {
        return Some(add("/metadata", json!({"labels": {INJECTED_LABEL: value}})));
    }
    if !is_object(LABELS) {
        return Some(add(LABELS, json!({INJECTED_LABEL: value})));
    }
    label(template).is_none_or(|label| label != value).then(|| add(&label_path(), json!(value)))
}

/// Returns the changes that remove our items. Lists and mappings that would become empty are removed too, since
/// injection added them.
pub(super) fn uninject(template: &Value) -> Vec<Operation> {
    let had = our_items(template);
    let mut patch = removals_from_programs(template);
    patch.extend(had.removals());
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
        items(template, path).iter().enumerate().filter(|(_, item)| is_named(item, names)).map(|(at, _)| at).collect()
    };
    OurItems {
        template,
        init_containers: named(INIT_CONTAINERS, &OUR_CONTAINERS),
        volumes: named(VOLUMES, &OUR_VOLUMES),
    }
}

impl OurItems<'_> {
    fn is_same(&self, containers: &[Value], wanted: &[Value]) -> bool {
        let volumes = items(self.template, VOLUMES);
        let has_volumes = self.volumes.iter().filter_map(|index| volumes.get(*index)).eq(wanted);
        has_volumes
            && items(self.template, INIT_CONTAINERS).starts_with(containers)
            && self.init_containers.iter().copied().eq(0..containers.len())
    }

    /// Removes the items from the last to the first, so that the remaining indexes stay valid.
    fn removals(&self) -> Vec<Operation> {
        let of = |list: &'static str, indexes: &[usize]| {
            let paths = indexes.iter().rev().map(move |index| format!("{list}/{index}"));
            paths.map(|path| Operation::Remove { path }).collect::<Vec<_>>()
        };
        [of(INIT_CONTAINERS, &self.init_containers), of(VOLUMES, &self.volumes)].concat()
    }
}

/// The application's containers, each with its path.
fn programs(template: &Value) -> impl Iterator<Item = (String, &Value)> {
    let of = |list: &'static str| {
        let indexed = items(template, list).iter().enumerate();
        indexed.filter(|(_, container)| !is_ours(container)).map(move |(at, found)| (format!("{list}/{at}"), found))
    };
    of(INIT_CONTAINERS).chain(of(CONTAINERS))
}

/// Returns the changes that remove our variables and mounts from the application's containers, and that restore their
/// TCP probes.
fn removals_from_programs(template: &Value) -> Vec<Operation> {
    let mut patch = tcp::restorations(template);
    for (path, container) in programs(template) {
        let variables = items(container, "/env");
        let is_bootstrap = |at: usize| {
            variables.get(at).is_some_and(|variable| {
                is_named(variable, &[BOOTSTRAP_VARIABLE]) && variable.get("value").is_some_and(|path| path == BOOTSTRAP)
            })
        };
        // We always add the server name variable directly after the bootstrap variable. At any other position, the
        // Pod's author has added it, and it stays.
        let follows = |at: usize| {
            at.checked_sub(1).is_some_and(is_bootstrap)
                && variables.get(at).is_some_and(|variable| is_named(variable, &[SERVER_NAME_VARIABLE]))
        };
        let env = (0..variables.len()).filter(|at| is_bootstrap(*at) || follows(*at)).collect();
        let mounts = items(container, "/volumeMounts");
        let mounted =
            (0..mounts.len()).filter(|at| mounts.get(*at).is_some_and(|mount| is_named(mount, &[grpc::VOLUME])));
        patch.extend(without(&format!("{path}/env"), env, variables.len()));
        patch.extend(without(&format!("{path}/volumeMounts"), mounted.collect(), mounts.len()));
    }
    patch
}

/// Removes the items at these indexes from a list. Removes the list too if it has no other items.
fn without(list: &str, indexes: Vec<usize>, length: usize) -> Vec<Operation> {
    if !indexes.is_empty() && indexes.len() == length {
        return vec![Operation::Remove { path: list.to_owned() }];
    }
    indexes.into_iter().rev().map(|at| Operation::Remove { path: format!("{list}/{at}") }).collect()
}

/// Returns the changes that add our variables and mount to the application's containers, and that replace their TCP
/// probes, after [`removals_from_programs`].
fn additions_to_programs(template: &Value, additions: &Additions) -> Vec<Operation> {
    let mut patch = additions.tcp_probe_changes(|_| true);
    let Some(program) = &additions.program else { return patch };
    let mut bare = template.clone();
    // Cannot fail: the removals were computed from this template.
    let _ = crate::patch::apply(&mut bare, &removals_from_programs(template));
    for (path, container) in programs(&bare) {
        let has = |name: &str| items(container, "/env").iter().any(|variable| is_named(variable, &[name]));
        let missing = program.variables.iter().filter(|variable| !has(&variable.name)).map(to_value).collect();
        patch.extend(append(container, &path, "env", missing));
        patch.extend(append(container, &path, "volumeMounts", vec![to_value(&program.mount)]));
    }
    patch
}

fn append(container: &Value, path: &str, field: &str, values: Vec<Value>) -> Vec<Operation> {
    if is_list(container, &format!("/{field}")) {
        return values.into_iter().map(|value| add(&format!("{path}/{field}/-"), value)).collect();
    }
    vec![add(&format!("{path}/{field}"), values.into())]
}

/// Returns whether the removals followed by the additions give the same template again.
fn is_undone(template: &Value, removals: &[Operation], additions: &[Operation]) -> bool {
    let mut changed = template.clone();
    let applied =
        crate::patch::apply(&mut changed, removals).and_then(|()| crate::patch::apply(&mut changed, additions));
    applied.is_ok() && changed == *template
}

pub(super) fn items<'a>(template: &'a Value, path: &str) -> &'a [Value] {
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

/// Converts a part of a Pod, for example a container, to JSON. This cannot fail for Kubernetes' types.
fn to_value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}
