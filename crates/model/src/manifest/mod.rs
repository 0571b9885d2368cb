//! Parses manifests, as people apply them to Kubernetes, into [`Object`]s.
//!
//! A file holds YAML documents (`---` between them) or JSON; `kind: List` is expanded. A file is accepted completely or
//! not at all, so the caller can keep the last valid objects of a file that becomes invalid. An object of a kind that
//! the mesh does not read causes a [`Notice`] and no mistake, because a directory may hold Deployments too.

mod decode;
mod review;
mod stand_in;
mod tree;
mod value;

use std::fmt::Display;

use k8s_openapi::Resource;
use k8s_openapi::api::{core, discovery};
use serde::de::{Deserialize, DeserializeOwned, Deserializer};

use crate::object::{
    Object, authorization_policy, backend_traffic_policy, endpoint_slice, grpc_route, http_route, reference_grant,
    route, service, tcp_route, tls_route, traffic_policy,
};
use crate::problem::{Notice, Problem, quoted};
use crate::spelling::closest;
pub(crate) use review::{Findings, Review};
use tree::{Node, Value};

/// The namespace of an object without a namespace, in manifests that are read without Kubernetes.
pub const DEFAULT_NAMESPACE: &str = "default";
/// Maximum size of a file: larger than the largest object that a cluster can store (1.5 MiB). A Service has about 1
/// KiB.
pub const FILE_MAX_BYTES: usize = 2 << 20;
/// Limit on the number of problems, and on the number of notices, that are reported for one file.
pub const FINDINGS_MAX: usize = 32;

/// A file's text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path, for messages. Paths also order the files: if two files define the same object, the first file wins.
    pub path: String,
    pub text: String,
}

/// The content of a valid file.
#[derive(Debug, Default)]
pub struct Manifest {
    /// The file's objects, in the file's order.
    pub objects: Vec<Object>,
    /// Remarks that do not make the file invalid, at most [`FINDINGS_MAX`].
    pub notices: Vec<Notice>,
}

/// Why a file or an object was rejected, and which of its policies apply nevertheless.
#[derive(Debug, Default)]
pub struct Refused {
    /// Every mistake found, at most [`FINDINGS_MAX`].
    pub problems: Vec<Problem>,
    /// The AuthorizationPolicies in the file or object. Use them if there is no earlier valid version. A readable
    /// policy is returned as it is; an unreadable policy is replaced by a policy that allows no caller
    /// ([`Mode::Unreadable`](crate::policy::Mode)).
    pub policies: Vec<Object>,
    /// Whether the file's structure could be parsed, so that `policies` is complete.
    is_tree: bool,
}

/// Parses one file. Objects without `metadata.namespace` are in `default_namespace`.
///
/// # Errors
/// [`Refused`] with the mistakes. The mistakes of each object are in the file's order.
pub fn parse_file(file: &SourceFile, default_namespace: &str) -> Result<Manifest, Refused> {
    let mut reader = Reader::new(&file.path, default_namespace);
    reader.read_text(&file.text);
    reader.finish()
}

/// Reads one object, or a List of objects, from a Kubernetes API. The findings name no file.
///
/// The argument may be any deserializer, for example a JSON value. Convert a Kubernetes type to JSON first.
///
/// # Errors
/// [`Refused`] with the mistakes. Kubernetes accepts some of them, for example an unknown annotation of Leno.
pub fn read_object<'de, D>(object: D) -> Result<Manifest, Refused>
where
    D: Deserializer<'de, Error: Display>,
{
    let mut reader = Reader::new("", "default");
    match Node::deserialize(object) {
        Ok(node) => reader.read(&node),
        Err(error) => {
            let what = format!("this is not an object: {error}");
            reader.findings.file_problem(Default::default(), what, "read it again".to_owned());
            reader.is_tree = false;
        }
    }
    reader.finish()
}

struct Reader<'a> {
    path: &'a str,
    findings: Findings,
    objects: Vec<Object>,
    /// Replacements for unreadable policies; each replacement allows no caller.
    stand_ins: Vec<Object>,
    is_tree: bool,
    default_namespace: &'a str,
}

impl<'a> Reader<'a> {
    fn new(path: &'a str, default_namespace: &'a str) -> Self {
        let findings = Findings::new(path);
        Self { path, findings, objects: Vec::new(), stand_ins: Vec::new(), is_tree: true, default_namespace }
    }

    fn finish(self) -> Result<Manifest, Refused> {
        let (problems, notices) = self.findings.into_parts();
        if problems.is_empty() {
            return Ok(Manifest { objects: self.objects, notices });
        }
        let mut policies = self.stand_ins;
        policies.extend(self.objects.into_iter().filter(|object| matches!(object, Object::AuthorizationPolicy(_))));
        Err(Refused { problems, policies, is_tree: self.is_tree })
    }

    fn read_text(&mut self, text: &str) {
        if text.len() > FILE_MAX_BYTES {
            let what = format!("the file has {} bytes", text.len());
            let fix = format!("split it into files of at most {FILE_MAX_BYTES} bytes");
            self.stand_ins = stand_in::of_text(text, self.path, self.default_namespace);
            return self.findings.file_problem(Default::default(), what, fix);
        }
        match tree::documents(text) {
            Ok(documents) => documents.iter().for_each(|document| self.read(document)),
            Err(fault) => {
                self.stand_ins = stand_in::of_text(text, self.path, self.default_namespace);
                self.findings.file_problem(fault.mark, fault.what, fault.fix.to_owned());
            }
        }
    }

    /// Reads one document or one item of a List.
    fn read(&mut self, node: &Node) {
        if node.is_null() {
            return;
        }
        let text = |key: &str| node.get(key).and_then(Node::text).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let problems_before = self.findings.problem_count();
        match (version, kind) {
            ("v1", "List") => self.read_list(node),
            (core::v1::Service::API_VERSION, core::v1::Service::KIND) => {
                self.read_as(node, kind, service::review);
            }
            (discovery::v1::EndpointSlice::API_VERSION, discovery::v1::EndpointSlice::KIND) => {
                self.read_as(node, kind, endpoint_slice::review);
            }
            (authorization_policy::API_VERSION, authorization_policy::KIND) => {
                self.read_as(node, kind, authorization_policy::review);
            }
            (authorization_policy::API_VERSION, traffic_policy::KIND) => {
                self.read_as(node, kind, traffic_policy::review);
            }
            (backend_traffic_policy::API_VERSION, backend_traffic_policy::KIND) => {
                self.read_as(node, kind, backend_traffic_policy::review);
            }
            (route::API_VERSION | route::OLD_API_VERSION, http_route::KIND) => {
                self.read_as(node, kind, http_route::review);
            }
            (route::API_VERSION, grpc_route::KIND) => self.read_as(node, kind, grpc_route::review),
            (route::API_VERSION | route::TLS_API_VERSION | route::FIRST_API_VERSION, tls_route::KIND) => {
                self.read_as(node, kind, tls_route::review);
            }
            (route::API_VERSION | route::FIRST_API_VERSION, tcp_route::KIND) => {
                self.read_as(node, kind, tcp_route::review);
            }
            (route::API_VERSION | route::OLD_API_VERSION, reference_grant::KIND) => {
                self.read_as(node, kind, reference_grant::review);
            }
            _ => self.read_foreign(node, version, kind),
        }
        // An object of our own group that has a mistake gets a replacement policy, even if the object's kind is
        // unknown: the object may be a policy that protects a workload.
        let may_be_authorization = group(version) == authorization_policy::GROUP && kind != traffic_policy::KIND;
        if may_be_authorization && self.findings.problem_count() > problems_before {
            let stand_in = stand_in::of_document(node, self.path, self.default_namespace);
            self.stand_ins.extend(stand_in.map(Object::AuthorizationPolicy));
        }
    }

    fn read_list(&mut self, list: &Node) {
        match list.get("items").map(|items| &items.value) {
            Some(Value::List(items)) => items.iter().for_each(|item| self.read(item)),
            _ => self.review(list, "List").problem("items", "a List has items", "add them"),
        }
    }

    fn read_as<T: DeserializeOwned>(
        &mut self,
        node: &Node,
        kind: &str,
        into_object: fn(T, &mut Review<'_>) -> Option<Object>,
    ) {
        let mut review = self.review(node, kind);
        match decode::decode::<T>(node) {
            Ok(written) => {
                let object = into_object(written, &mut review);
                self.objects.extend(object);
            }
            Err(misfits) => {
                for misfit in misfits {
                    review.problem_at(misfit.mark(), &misfit.path, misfit.what, misfit.fix);
                }
            }
        }
    }

    /// Handles an object of a kind or version that the mesh does not read. Reports a mistake if the kind or the version
    /// is missing, misspelled or unsupported; otherwise adds a notice that the mesh does not read the object.
    fn read_foreign(&mut self, node: &Node, version: &str, kind: &str) {
        let known = [
            (core::v1::Service::API_VERSION, core::v1::Service::KIND),
            (discovery::v1::EndpointSlice::API_VERSION, discovery::v1::EndpointSlice::KIND),
            (authorization_policy::API_VERSION, authorization_policy::KIND),
            (authorization_policy::API_VERSION, traffic_policy::KIND),
            (backend_traffic_policy::API_VERSION, backend_traffic_policy::KIND),
            (route::API_VERSION, http_route::KIND),
            (route::API_VERSION, grpc_route::KIND),
            (route::API_VERSION, tls_route::KIND),
            (route::API_VERSION, tcp_route::KIND),
            (route::API_VERSION, reference_grant::KIND),
        ];
        let mut review = self.review(node, kind);
        if version.is_empty() || kind.is_empty() {
            let missing = if version.is_empty() { "apiVersion" } else { "kind" };
            let what = "a Kubernetes object needs it";
            return review.problem(missing, what, "add it, for example `apiVersion: v1` and `kind: Service`");
        }
        for (known_version, known_kind) in known {
            if kind == known_kind && group(version) == group(known_version) {
                let what = format!("{} is not read", quoted(version));
                return review.problem("apiVersion", what, format!("use {known_version}"));
            }
        }
        let kinds = known.iter().filter(|(known_version, _)| *known_version == version).map(|(_, kind)| *kind);
        if let Some(meant) = closest(kind, kinds).filter(|_| kind != route::NOT_READ) {
            let what = format!("{} is not a kind of {version}", quoted(kind));
            return review.problem("kind", what, format!("did you mean {meant}?"));
        }
        if group(version) == authorization_policy::GROUP {
            let what = format!("{} is not a kind of {version}", quoted(kind));
            let fix = format!("use {} or {}", authorization_policy::KIND, traffic_policy::KIND);
            return review.problem("kind", what, fix);
        }
        let what = "ignored: Leno reads Services, EndpointSlices, routes, ReferenceGrants, XBackendTrafficPolicies and its \
                    own policies";
        review.notice("", what);
    }

    fn review<'r>(&'r mut self, root: &'r Node, kind: &str) -> Review<'r> {
        Review::new(&mut self.findings, root, kind, self.default_namespace)
    }
}

/// Returns the API group of an `apiVersion`; empty for the core group.
fn group(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests;
