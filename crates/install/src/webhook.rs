//! What an API server asks (admission.k8s.io/v1) and what it is answered, purely.
//!
//! [`mutate`] gives a Pod its proxy; [`validate`] refuses objects that the mesh would refuse to read.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use leno_model::manifest::{SourceFile, parse_file};
use leno_model::problem::{Problem, in_a_line, quoted};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::inject::{Asked, Namespace, Options, Outcome, Skipped, inject, review_namespace};

/// The `apiVersion` of a review.
pub const API_VERSION: &str = "admission.k8s.io/v1";
/// The `kind` of a review.
pub const KIND: &str = "AdmissionReview";
/// The most problems that an answer names.
const PROBLEMS_MAX: usize = 5;
/// The most values that a review may have: in memory each takes many times its text. An object of 1 MiB has a fifth of it.
const VALUES_MAX: usize = 1 << 17;
/// As much of a message about somebody's bytes as an answer should have.
const SHOWN_MAX_CHARS: usize = 200;

/// What comes in and goes out: a request one way, a response the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionReview {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// What is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<AdmissionRequest>,
    /// What is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<AdmissionResponse>,
}

/// What somebody wants to do to an object.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionRequest {
    /// Names the request; the response has the same.
    pub uid: String,
    /// The object's namespace; empty for an object of the whole cluster.
    pub namespace: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// The object as it would be; nothing where it is deleted.
    pub object: Value,
    /// Whether it is only asked what would be: nothing may come of it.
    pub dry_run: bool,
}

/// Whether it may be done, and how the object is to be changed first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    /// The request's.
    pub uid: String,
    /// Whether it may be done.
    pub allowed: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// A JSON Patch, in base64 as the API has bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<ByteString>,
    /// `JSONPatch` where there is a patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<String>,
    /// Shown to whoever asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// For the audit log.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<String, String>,
}

/// Why something may not be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// One line for the person who asked.
    pub message: String,
    /// The HTTP status that the API server answers with.
    pub code: u16,
}

/// Why bytes are no review that can be answered; one line.
#[derive(Debug, thiserror::Error)]
pub enum BadReview {
    /// Not JSON, or JSON of another form.
    #[error("the body is not an {KIND}: {0}")]
    Form(String),
    /// Another version or kind.
    #[error("the body is {kind} of {version}; send {KIND} of {API_VERSION}", kind = quoted(.kind), version = quoted(.version))]
    Version {
        /// Its `kind`.
        kind: String,
        /// Its `apiVersion`.
        version: String,
    },
    /// Nothing is asked.
    #[error("the {KIND} has no request; send one")]
    NoRequest,
    /// No object is that complicated.
    #[error("the {KIND} has more than {VALUES_MAX} values; no object needs as many")]
    TooManyValues,
}

/// A review of which only the place matters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Placed {
    api_version: String,
    kind: String,
    #[serde(default)]
    request: Option<PlacedRequest>,
}

#[derive(Deserialize)]
struct PlacedRequest {
    #[serde(default)]
    namespace: String,
}

fn check_version(version: String, kind: String) -> Result<(), BadReview> {
    match version == API_VERSION && kind == KIND {
        true => Ok(()),
        false => Err(BadReview::Version { kind, version }),
    }
}

/// What is wrong is quoted, and may be as long as the body.
fn bad_form(error: &serde_json::Error) -> BadReview {
    BadReview::Form(error.to_string().chars().take(SHOWN_MAX_CHARS).collect())
}

impl AdmissionReview {
    /// Reads what an API server asks.
    ///
    /// # Errors
    /// [`BadReview`] unless the bytes are a review with a request.
    pub fn read(bytes: &[u8]) -> Result<AdmissionRequest, BadReview> {
        // Each value but the first comes after one of these; those within strings count too, which is on the safe side.
        if bytes.iter().filter(|byte| b"[{,".contains(byte)).count() > VALUES_MAX {
            return Err(BadReview::TooManyValues);
        }
        let review: Self = serde_json::from_slice(bytes).map_err(|error| bad_form(&error))?;
        check_version(review.api_version, review.kind)?;
        review.request.ok_or(BadReview::NoRequest)
    }

    /// Reads in which namespace something is asked, and keeps nothing else: that takes no more memory than the name.
    ///
    /// # Errors
    /// [`BadReview`] unless the bytes are a review with a request.
    pub fn namespace(bytes: &[u8]) -> Result<String, BadReview> {
        let Placed { api_version, kind, request } = serde_json::from_slice(bytes).map_err(|error| bad_form(&error))?;
        check_version(api_version, kind)?;
        Ok(request.ok_or(BadReview::NoRequest)?.namespace)
    }

    /// The answer, as it goes out.
    pub fn answer(response: AdmissionResponse) -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), request: None, response: Some(response) }
    }
}

/// Answers for a Pod that is created in `namespace`: the request knows the namespace's name, the caller its annotations.
pub fn mutate(request: &AdmissionRequest, namespace: &Namespace, options: &Options) -> AdmissionResponse {
    if request.operation != "CREATE" {
        return allowed(request);
    }
    let decision = match inject(&request.object, namespace, Asked::ByAnnotation, options) {
        Ok(decision) => decision,
        Err(mistakes) => return refused(request, "this Pod cannot get its proxy", &mistakes),
    };
    let mut response = AdmissionResponse { warnings: decision.warnings, ..allowed(request) };
    let told = match decision.outcome {
        Outcome::Skipped(Skipped::NotAsked) => return response,
        Outcome::Skipped(reason) => format!("skipped: {reason}"),
        Outcome::Injected { patch, .. } => {
            response.patch = serde_json::to_vec(&patch).ok().map(ByteString);
            response.patch_type = Some("JSONPatch".to_owned());
            "injected".to_owned()
        }
    };
    response.audit_annotations = BTreeMap::from([("proxy".to_owned(), told)]);
    response
}

/// Answers for an object that the mesh reads: a leno.dev one, or a Service or Namespace with annotations of ours. A Namespace is never
/// refused, since nothing must keep it from being changed or deleted: what is wrong with it is a warning.
pub fn validate(request: &AdmissionRequest) -> AdmissionResponse {
    if !["CREATE", "UPDATE"].contains(&request.operation.as_str()) {
        return allowed(request);
    }
    if request.object["apiVersion"] == "v1" && request.object["kind"] == "Namespace" {
        let annotations = request.object.pointer("/metadata/annotations").and_then(Value::as_object);
        let mut warnings = review_namespace(annotations);
        warnings.truncate(PROBLEMS_MAX);
        return AdmissionResponse { warnings, ..allowed(request) };
    }
    let file = SourceFile { path: String::new(), text: what_counts(&request.object).to_string() };
    let problems = parse_file(&file, &request.namespace).err().unwrap_or_default().problems;
    let lines: Vec<String> = problems.iter().map(Problem::within_object).collect();
    if lines.is_empty() { allowed(request) } else { refused(request, "the mesh cannot read it", &lines) }
}

/// Our own objects whole. Of a Service our annotations are ours to judge; the API server knows the rest better.
fn what_counts(object: &Value) -> Value {
    if object["apiVersion"] != "v1" {
        return object.clone();
    }
    let metadata = json!({"name": object["metadata"]["name"], "annotations": object["metadata"]["annotations"]});
    json!({"apiVersion": "v1", "kind": object["kind"], "metadata": metadata, "spec": {"ports": [{"port": 80}]}})
}

fn allowed(request: &AdmissionRequest) -> AdmissionResponse {
    AdmissionResponse { uid: request.uid.clone(), allowed: true, ..AdmissionResponse::default() }
}

fn refused<T: ToString>(request: &AdmissionRequest, what: &str, reasons: &[T]) -> AdmissionResponse {
    let message = format!("{what}: {}", in_a_line(reasons, PROBLEMS_MAX));
    AdmissionResponse {
        uid: request.uid.clone(),
        allowed: false,
        status: Some(Status { message, code: 422 }),
        ..AdmissionResponse::default()
    }
}

#[cfg(test)]
#[path = "webhook_tests.rs"]
mod tests;
