//! Parses requests of an API server to the webhooks (admission.k8s.io/v1) and makes the answers, without any I/O.
//!
//! [`mutate`] injects the proxy into a Pod; [`validate`] rejects objects that the mesh could not read.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use leno_model::manifest::{SourceFile, parse_file};
use leno_model::problem::{Problem, in_a_line, quoted};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::annotations::ours;
use crate::inject::{Asked, Namespace, Options, Outcome, Skipped, inject, review_namespace};

pub const API_VERSION: &str = "admission.k8s.io/v1";
pub const KIND: &str = "AdmissionReview";
/// Maximum number of problems in an answer.
const PROBLEMS_MAX: usize = 5;
/// Maximum number of JSON values in a review. It limits the memory that a review takes: in memory, a value has many
/// times the size of its text. A Kubernetes object of 1 MiB has a fifth of this number.
const VALUES_MAX: usize = 1 << 17;
/// Maximum length, in characters, of a text that an answer quotes from the request.
const SHOWN_MAX_CHARS: usize = 200;

/// A review: the API server sends it with a request, and gets it back with a response.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionReview {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<AdmissionRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<AdmissionResponse>,
}

/// A client's request to the API server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionRequest {
    /// Identifies the request; the response repeats it.
    pub uid: String,
    /// The object's namespace; empty for objects of cluster scope.
    pub namespace: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// The object that the request would store; null for a deletion.
    pub object: Value,
    /// The stored object that an update would replace; null for a creation.
    pub old_object: Value,
    /// Whether this is a dry run, which must have no effects.
    pub dry_run: bool,
}

/// The answer to a request: whether the request is allowed, and the changes to the object before it is stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    /// The request's uid.
    pub uid: String,
    pub allowed: bool,
    /// The reason for a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// A JSON Patch, in base64 as the API requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<ByteString>,
    /// `JSONPatch` if there is a patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<String>,
    /// Warnings that the API server shows to its client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Entries for the audit log.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<String, String>,
}

/// The reason for the rejection of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// One line for the client's user.
    pub message: String,
    /// The HTTP status of the API server's response.
    pub code: u16,
}

/// The reason why bytes cannot be read as a review.
#[derive(Debug, thiserror::Error)]
pub enum BadReview {
    /// The body is not JSON, or does not have the structure of a review.
    #[error("the body is not an {KIND}: {0}")]
    Form(String),
    #[error("the body is {kind} of {version}; send {KIND} of {API_VERSION}", kind = quoted(.kind), version = quoted(.version))]
    Version { kind: String, version: String },
    #[error("the {KIND} has no request; send one")]
    NoRequest,
    /// The review has more values than any real object.
    #[error("the {KIND} has more than {VALUES_MAX} values; no object needs as many")]
    TooManyValues,
}

/// The version, the kind and the namespace of a review. Nothing else of the review is read.
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

/// Makes an error for a malformed body. Shortens the parser's message, which quotes the body and may be as long as the
/// body.
fn bad_form(error: &serde_json::Error) -> BadReview {
    BadReview::Form(error.to_string().chars().take(SHOWN_MAX_CHARS).collect())
}

impl AdmissionReview {
    /// Parses a request of an API server.
    ///
    /// # Errors
    /// [`BadReview`] unless the bytes are a review with a request.
    pub fn read(bytes: &[u8]) -> Result<AdmissionRequest, BadReview> {
        // Every JSON value except the first comes after its own `[`, `{` or `,`. So there is at most one value more
        // than there are such bytes. The count includes such bytes within strings, which only makes the limit stricter.
        if bytes.iter().filter(|byte| b"[{,".contains(byte)).count() > VALUES_MAX {
            return Err(BadReview::TooManyValues);
        }
        let review: Self = serde_json::from_slice(bytes).map_err(|error| bad_form(&error))?;
        check_version(review.api_version, review.kind)?;
        review.request.ok_or(BadReview::NoRequest)
    }

    /// Returns the namespace of the request. Parsing skips the rest of the request, so it takes little memory.
    ///
    /// # Errors
    /// [`BadReview`] unless the bytes are a review with a request.
    pub fn namespace(bytes: &[u8]) -> Result<String, BadReview> {
        let Placed { api_version, kind, request } = serde_json::from_slice(bytes).map_err(|error| bad_form(&error))?;
        check_version(api_version, kind)?;
        Ok(request.ok_or(BadReview::NoRequest)?.namespace)
    }

    /// Returns the review that carries a response.
    pub fn answer(response: AdmissionResponse) -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), request: None, response: Some(response) }
    }
}

/// Answers a request to create a Pod in `namespace`. The request names the namespace; the caller must supply the
/// namespace's annotations.
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

/// Answers a request to store an object that the mesh reads.
///
/// These are the objects of leno.dev, Services and Namespaces with annotations of ours, and Namespaces with labels that
/// should be annotations. A Namespace is never rejected, because users must always be able to change or delete it. Its
/// errors become warnings. An object that is being deleted is never rejected either. The errors of an update that
/// changes nothing that the mesh reads become warnings too: otherwise, an object that was stored while no replica
/// answered could not be changed at all, not even by its controller.
pub fn validate(request: &AdmissionRequest) -> AdmissionResponse {
    if !["CREATE", "UPDATE"].contains(&request.operation.as_str()) {
        return allowed(request);
    }
    // An object that is being deleted disappears with the update that removes its last finalizer. The object may be
    // older than our checks and invalid. If we refused the update for that reason, the object could not be deleted.
    if !request.object["metadata"]["deletionTimestamp"].is_null() {
        return allowed(request);
    }
    if request.object["apiVersion"] == "v1" && request.object["kind"] == "Namespace" {
        return warned(request, review_namespace(&request.object));
    }
    let file = SourceFile { path: String::new(), text: what_counts(&request.object).to_string() };
    let problems = parse_file(&file, &request.namespace).err().unwrap_or_default().problems;
    let lines: Vec<String> = problems.iter().map(Problem::within_object).collect();
    if lines.is_empty() || is_unchanged(request) {
        return warned(request, lines);
    }
    refused(request, "the mesh cannot read it", &lines)
}

/// Returns whether a request is an update that changes neither our annotations nor the spec of a leno.dev object. The
/// mesh reads nothing else of a stored object.
fn is_unchanged(AdmissionRequest { operation, object, old_object, .. }: &AdmissionRequest) -> bool {
    operation == "UPDATE"
        && (object["apiVersion"] == "v1" || object["spec"] == old_object["spec"])
        && our_annotations(object) == our_annotations(old_object)
}

fn our_annotations(object: &Value) -> BTreeMap<&str, &str> {
    ours(object.pointer("/metadata/annotations").and_then(Value::as_object)).collect()
}

/// Returns the part of an object to validate: all of a leno.dev object, but only the name and the annotations of a
/// Service. The API server validates the rest.
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

fn warned(request: &AdmissionRequest, mut warnings: Vec<String>) -> AdmissionResponse {
    warnings.truncate(PROBLEMS_MAX);
    AdmissionResponse { warnings, ..allowed(request) }
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
