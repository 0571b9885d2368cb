//! Adds proxies to files of Kubernetes objects, or removes them.
//!
//! An unchanged document is written byte for byte. A changed document in block style keeps its comments, its layout and
//! its line ends. A changed document in another style is written anew, below its leading comments.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use crate::annotations::Mistake;
use crate::inject::{Asked, Decision, Namespace, Options, Outcome, Skipped, count_tcp_probes, inject, uninject};
use crate::patch::{self, Operation};
use crate::workload::{Workload, workloads};
use crate::yaml::{self, Document, Fault};

/// The format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML documents.
    Yaml,
    /// JSON objects, one after the other, without a separator such as `---`.
    Json,
}

/// The namespaces of workloads, and their annotations. A namespace may be in another file than its workloads.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    default: String,
    annotations: HashMap<String, Map<String, Value>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rewritten {
    pub text: String,
    /// The result for each workload of the file, in order.
    pub reports: Vec<Report>,
}

/// The result for one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The kind and the name of the workload.
    pub workload: String,
    pub result: WorkloadResult,
    pub warnings: Vec<String>,
}

/// The change to a workload, or why the workload stays unchanged.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadResult {
    /// The workload has a proxy now.
    Injected,
    Replaced,
    Uninjected,
    /// The workload stays unchanged, for this reason.
    Skipped(Skipped),
    /// The workload had no proxy to remove.
    NothingToDo,
    /// The workload stays unchanged, because its author must fix something first.
    Failed(Vec<Mistake>),
}

impl Report {
    /// Returns whether the workload's author must fix something.
    pub fn is_failure(&self) -> bool {
        matches!(self.result, WorkloadResult::Failed(_))
    }
}

impl fmt::Display for Report {
    /// Writes one line for the result, and one line for each warning or error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, result, warnings } = self;
        match result {
            WorkloadResult::Injected => write!(f, "{workload}: injected")?,
            WorkloadResult::Replaced => write!(f, "{workload}: injected anew")?,
            WorkloadResult::Uninjected => write!(f, "{workload}: uninjected")?,
            WorkloadResult::Skipped(reason) => write!(f, "{workload}: skipped: {reason}")?,
            WorkloadResult::NothingToDo => write!(f, "{workload}: skipped: it has no proxy of ours")?,
            WorkloadResult::Failed(mistakes) => {
                let lines: Vec<_> = mistakes.iter().map(|mistake| format!("{workload}: error: {mistake}")).collect();
                f.write_str(&lines.join("\n"))?;
            }
        }
        warnings.iter().try_for_each(|warning| write!(f, "\n{workload}: warning: {warning}"))
    }
}

impl Namespaces {
    /// Creates an empty set. `default` is the namespace of objects that name no namespace; empty if it is unknown.
    pub fn new(default: &str) -> Self {
        Self { default: default.to_owned(), annotations: HashMap::new() }
    }

    /// Adds the namespaces that a file contains.
    ///
    /// # Errors
    /// If the file cannot be parsed.
    pub fn read(&mut self, text: &str) -> Result<(), Fault> {
        let documents = yaml::split(text)?;
        let objects =
            documents.iter().flat_map(|document| match document.value.get("items").and_then(Value::as_array) {
                Some(items) => items.as_slice(),
                None => std::slice::from_ref(&document.value),
            });
        let namespaces = objects.filter(|object| object["apiVersion"] == "v1" && object["kind"] == "Namespace");
        self.annotations.extend(namespaces.filter_map(|object| {
            let name = object.pointer("/metadata/name")?.as_str()?;
            let annotations = object.pointer("/metadata/annotations")?.as_object()?;
            Some((name.to_owned(), annotations.clone()))
        }));
        Ok(())
    }

    /// Returns the namespace of a workload.
    fn of(&self, workload: &Workload) -> Namespace {
        let named = Some(&workload.namespace).filter(|name| !name.is_empty());
        let name = named.unwrap_or(&self.default);
        Namespace { name: name.clone(), annotations: self.annotations.get(name).cloned().unwrap_or_default() }
    }
}

/// Adds a proxy to every workload of a file. The annotations of `namespaces` apply.
///
/// # Errors
/// If the file cannot be parsed.
pub fn inject_file(
    text: &str,
    namespaces: &Namespaces,
    options: &Options,
    format: Option<Format>,
) -> Result<Rewritten, Fault> {
    Ok(rewrite(yaml::split(text)?, format, |workload, template| {
        match inject(template, &namespaces.of(workload), Asked::ByName, options) {
            Ok(Decision { outcome: Outcome::Injected { patch, replaced }, warnings }) => {
                (patch, if replaced { WorkloadResult::Replaced } else { WorkloadResult::Injected }, warnings)
            }
            Ok(Decision { outcome: Outcome::Skipped(reason), warnings }) => {
                (Vec::new(), WorkloadResult::Skipped(reason), warnings)
            }
            Err(mistakes) => (Vec::new(), WorkloadResult::Failed(mistakes), Vec::new()),
        }
    }))
}

/// Removes our proxy from every workload of a file.
///
/// # Errors
/// If the file cannot be parsed.
pub fn uninject_file(text: &str, format: Option<Format>) -> Result<Rewritten, Fault> {
    Ok(rewrite(yaml::split(text)?, format, |_, template| {
        let patch = uninject(template);
        let result = if patch.is_empty() { WorkloadResult::NothingToDo } else { WorkloadResult::Uninjected };
        (patch, result, Vec::new())
    }))
}

/// The annotation in which `kubectl apply` records the fields that it has set.
const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// The warning if a TCP probe changes in an object that `kubectl apply` did not create.
const BOTH_PROBES: &str = "kubectl apply did not create this object, so kubectl apply would keep the old tcpSocket or httpGet of a \
                           probe beside the new one, and the API server would refuse the object; use kubectl replace -f -";

/// Whether an object comes from the API server, and another program than `kubectl apply` has created it. From such an
/// object, `kubectl apply` removes no field.
fn is_unknown_to_apply(object: &Value) -> bool {
    let has = |path: &str| object.pointer(path).is_some();
    (has("/metadata/uid") || has("/metadata/resourceVersion")) && !has(LAST_APPLIED)
}

type Changed = (Vec<Operation>, WorkloadResult, Vec<String>);

fn rewrite(
    documents: Vec<Document<'_>>,
    format: Option<Format>,
    change: impl Fn(&Workload, &Value) -> Changed,
) -> Rewritten {
    let mut rewritten = Rewritten { text: String::new(), reports: Vec::new() };
    for mut document in documents {
        let mut edits = Vec::new();
        for workload in workloads(&document.value) {
            let template = document.value.pointer(&workload.template).unwrap_or(&Value::Null);
            let tcp_probes = count_tcp_probes(template);
            let (patch, mut result, mut warnings) = change(&workload, template);
            let patch: Vec<_> = patch.into_iter().map(|operation| operation.within(&workload.template)).collect();
            if let Err(misfit) = patch::apply(&mut document.value, &patch) {
                let what = misfit.to_string();
                result =
                    WorkloadResult::Failed(vec![Mistake::Conflict { what, fix: "check its Pod template".to_owned() }]);
            }
            let is_replaced =
                document.value.pointer(&workload.template).is_some_and(|now| count_tcp_probes(now) != tcp_probes);
            if is_replaced && document.value.pointer(&workload.object).is_some_and(is_unknown_to_apply) {
                warnings.push(BOTH_PROBES.to_owned());
            }
            edits.extend(patch);
            rewritten.reports.push(Report { workload: workload.to_string(), result, warnings });
        }
        append(&mut rewritten.text, &document, &edits, format);
    }
    rewritten
}

/// Appends a document to `text`. The document's value already includes the changes in `edits`.
fn append(text: &mut String, document: &Document<'_>, edits: &[Operation], format: Option<Format>) {
    if format == Some(Format::Json) {
        if !document.value.is_null() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:#}", document.value);
        }
        return;
    }
    let is_json = document.body.trim_start().starts_with('{');
    let is_changed = !edits.is_empty();
    let must_write = is_changed || (format == Some(Format::Yaml) && is_json);
    let edited = (is_changed && !is_json).then(|| yaml::edit(document.body, edits, &document.value)).flatten();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if !text.is_empty()
        && !document.head.starts_with("---")
        && !document.body.starts_with("---")
        && !document.value.is_null()
    {
        text.push_str("---\n");
    }
    if must_write {
        text.push_str(document.head);
        text.push_str(&edited.unwrap_or_else(|| yaml::write(&document.value)));
    } else {
        text.push_str(document.head);
        text.push_str(document.body);
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
