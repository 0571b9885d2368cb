//! Finds the Pod templates of an object.

use std::fmt;

use serde_json::Value;

/// The kinds of workloads, each with the path of its Pod template.
const KINDS: [(&str, &str, &str); 9] = [
    ("v1", "Pod", ""),
    ("v1", "PodTemplate", "/template"),
    ("v1", "ReplicationController", "/spec/template"),
    ("apps/v1", "Deployment", "/spec/template"),
    ("apps/v1", "StatefulSet", "/spec/template"),
    ("apps/v1", "DaemonSet", "/spec/template"),
    ("apps/v1", "ReplicaSet", "/spec/template"),
    ("batch/v1", "Job", "/spec/template"),
    ("batch/v1", "CronJob", "/spec/jobTemplate/spec/template"),
];

/// Maximum depth of List objects within each other; `kubectl` writes only one level.
const LISTS_MAX: usize = 4;

/// An object that runs Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The object's path in the document; not empty for an item of a List.
    pub object: String,
    /// The path of its Pod template in the document; for a Pod, the path of the Pod itself.
    pub template: String,
    pub kind: &'static str,
    /// The object's namespace; empty if the object has none.
    pub namespace: String,
    /// The object's name, or the prefix of a generated name.
    pub name: String,
}

impl fmt::Display for Workload {
    /// Writes a text such as `Deployment shop/web`, or `Deployment web` without a namespace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, .. } = self;
        if namespace.is_empty() { write!(f, "{kind} {name}") } else { write!(f, "{kind} {namespace}/{name}") }
    }
}

/// The workloads in a document: the object itself, or the items of a List.
pub fn workloads(document: &Value) -> Vec<Workload> {
    let mut found = Vec::new();
    collect(document, String::new(), 0, &mut found);
    found
}

fn collect(value: &Value, at: String, depth: usize, found: &mut Vec<Workload>) {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    if api_version == "v1" && kind == "List" && depth < LISTS_MAX {
        let items = value.get("items").and_then(Value::as_array).into_iter().flatten();
        items.enumerate().for_each(|(index, item)| collect(item, format!("{at}/items/{index}"), depth + 1, found));
        return;
    }
    let known = KINDS.iter().find(|known| (known.0, known.1) == (api_version, kind));
    let Some((_, kind, path)) = known else { return };
    if !value.pointer(path).is_some_and(Value::is_object) {
        return;
    }
    let name = Some(text("/metadata/name")).filter(|name| !name.is_empty()).unwrap_or(text("/metadata/generateName"));
    found.push(Workload {
        template: format!("{at}{path}"),
        object: at,
        kind,
        namespace: text("/metadata/namespace").to_owned(),
        name: name.to_owned(),
    });
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
