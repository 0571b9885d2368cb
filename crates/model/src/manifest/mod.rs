//! Parses manifests, in the form in which users apply them to Kubernetes, into [`Object`]s.
//!
//! A file contains JSON or YAML documents, which `---` separates. An object of `kind: List` is replaced by its items. A
//! file is accepted completely or not at all, so that the caller can keep the last valid objects of a file that becomes
//! invalid. An object of a kind that the mesh does not use causes a [`Notice`] instead of a mistake, because a
//! directory may contain Deployments, for example.

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

/// The default namespace if Leno reads manifests from files, without Kubernetes. It applies to objects without
/// `metadata.namespace`.
pub const DEFAULT_NAMESPACE: &str = "default";
/// Maximum size of a file. It exceeds the size of the largest object that a cluster can store (1.5 MiB); a typical
/// Service has about 1 KiB.
pub const FILE_MAX_BYTES: usize = 2 << 20;
/// Maximum number of problems, and maximum number of notices, that are reported for one file.
pub const FINDINGS_MAX: usize = 32;

/// A file's text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path, for messages and for the order of files. If two files define the same object, the file whose path
    /// sorts first wins.
    pub path: String,
    pub text: String,
}

/// The content of a valid file.
#[derive(Debug, Default)]
pub struct Manifest {
    /// The file's objects, in the file's order.
    pub objects: Vec<Object>,
    /// Notices about the file, at most [`FINDINGS_MAX`]. The file is valid nevertheless.
    pub notices: Vec<Notice>,
}

/// The result for a rejected file or object: its mistakes, and its AuthorizationPolicies. The policies may be used
/// although the file is rejected, because ignoring them could allow too many callers.
#[derive(Debug, Default)]
pub struct Refused {
    /// The mistakes, at most [`FINDINGS_MAX`].
    pub problems: Vec<Problem>,
    /// The AuthorizationPolicies of the file or object. Use them if there is no earlier valid version. A policy without
    /// mistakes is unchanged. A policy with a mistake is replaced by a policy that allows no caller
    /// ([`Mode::Unreadable`](crate::policy::Mode)).
    pub policies: Vec<Object>,
    /// For [`Refused::into_policy`]: if true and `policies` is empty, no policy is needed. False if an object from an
    /// API could not be parsed into a tree.
    is_tree: bool,
}

/// Parses one file. An object without `metadata.namespace` belongs to `default_namespace`.
///
/// # Errors
/// [`Refused`] with the mistakes, in the order of the objects in the file.
pub fn parse_file(file: &SourceFile, default_namespace: &str) -> Result<Manifest, Refused> {
    let mut reader = Reader::new(&file.path, default_namespace);
    reader.read_text(&file.text);
    reader.finish()
}

/// Parses one object, or a List of objects, from a Kubernetes API. The findings contain no file name.
///
/// `object` may be any deserializer, for example a JSON value. Convert a Kubernetes type to JSON first.
///
/// # Errors
/// [`Refused`] with the mistakes. Kubernetes may store an object with mistakes, for example with an unknown annotation
/// of Leno.
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
    /// Replacements for AuthorizationPolicies with mistakes. Each replacement allows no caller.
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
        // If an object of Leno's API group has a mistake, add a replacement policy, which allows no caller. Do so even
        // if its kind is unknown, because its author may have meant an AuthorizationPolicy.
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

    /// Reports an object of a kind or version that Leno does not read. This is a mistake if the kind or the version is
    /// missing, misspelled or unsupported. Otherwise, it is a notice that Leno ignores the object.
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
